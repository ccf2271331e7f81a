"""Memory that is only address space; and limits on it."""

import os

from belaytest import assert_recovered


def recover(job, before_the_kill=lambda: None):
    job.wait_committed(2)
    before_the_kill()
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def test_much_address_space(sandbox, programs):
    """85 TiB of it, of which a native run has room for some more."""
    recover(sandbox.run(programs.test_program("mem_fixed", "--mode", "wide", "--steps", 50, "--seconds", 2, ranks=2)))


def test_limited_address_space(sandbox, programs):
    """600 MiB under a limit that leaves room for them and the libraries of MPI."""
    program = programs.test_program("mem_fixed", "--mode", "limited", "--value", 600, "--steps", 50, "--seconds", 2,
                                    ranks=2)
    trace = os.path.join(sandbox.folder, "trace")
    job = sandbox.run(program, trace=False, line=["mpirun", "-n", "2", "sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh",
                                                  *program.argv, "--trace", trace])
    job.trace_path = trace
    recover(job)
