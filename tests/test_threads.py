"""Threads beside MPI and threads that call MPI, across restarts."""

import pytest

from belaytest import assert_recovered


def kill_twice(job):
    job.wait_committed(1)
    status = job.kill_and_recover()
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


@pytest.mark.parametrize("mode", ["turns", "waiting", "init"])
def test_threads_call_mpi(sandbox, programs, mode):
    """MPI_THREAD_SERIALIZED; a thread that waits in MPI while the main thread computes; MPI without the main thread."""
    kill_twice(sandbox.run(programs.test_program("threads_serialized", "--steps", 300, "--seconds", 6, "--mode", mode,
                                                 ranks=3), interval="200ms"))


def test_threads_among_themselves(sandbox, programs):
    """Locks that know their owner, barriers, cancellation, thread-specific data, threads that come and go."""
    kill_twice(sandbox.run(programs.test_program("threads_sync", "--steps", 300, "--seconds", 6, ranks=2),
                           interval="200ms"))
