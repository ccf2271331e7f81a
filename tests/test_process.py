"""The process around MPI: stacks, children, fatal errors; and communicators of strangers."""

import dataclasses
import os
import resource

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result, newest_line, recover_twice
from nodes import wait_said
from programs import Program, pools
import traces
from waiting import wait_for


def kill_after_two_lines(job):
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.fixture
def unlimited_stack():
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if hard != resource.RLIM_INFINITY:
        pytest.skip("the hard limit of the stack is not unlimited")
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


@pytest.mark.usefixtures("unlimited_stack")
def test_unlimited_stack(sandbox, programs):
    """The kernel arranges the address space in another way then; 64 MiB of stack are used."""
    kill_after_two_lines(sandbox.run(programs.test_program("process", "--mode", "stack", "--steps", 60)))


@pytest.mark.parametrize("program", [["stacks_exec"], ["stacks", "--value", 8]], ids=["linked", "loaded"])
def test_executable_and_growing_stacks(sandbox, programs, program):
    """Code on the stacks of threads, from the start on or once a library wants it; deep and endless recursion."""
    kill_after_two_lines(sandbox.run(programs.test_program(*program, "--steps", 60, "--seconds", 3)))


@pytest.mark.parametrize("tracker", ["pagemap_scan", "full"])
def test_addresses_of_the_programs_choice(sandbox, programs, tracker):
    """16 TiB of address space among them, of which little is memory."""
    kill_after_two_lines(sandbox.run(programs.test_program("mem_fixed", "--steps", 60, "--seconds", 3),
                                     options=["--tracker", tracker]))


def test_system_calls_of_the_programs_own(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("mem_raw", "--steps", 60, "--seconds", 3)))


def test_random_addresses(sandbox, programs):
    """Where randomization cannot be turned off, a restart is repeated until nothing is in its way."""
    randomized = programs.test_program("randomized").argv[0]
    program = programs.test_program("mem_fixed", "--mode", "beyond", "--steps", 100, "--seconds", 3)
    trace = os.path.join(sandbox.folder, "trace")
    job = sandbox.run(program, trace=False,
                      line=["mpirun", "-n", "4", randomized, *program.argv, "--trace", trace])
    job.trace_path = trace
    kill_after_two_lines(job)


def test_children_of_a_rank(sandbox, programs):
    """fork, system, popen and a statically linked program, before and after a restart."""
    kill_after_two_lines(sandbox.run(programs.test_program("process", "--mode", "children", "--steps", 300,
                                                           "--seconds", 5)))


def test_children_at_a_line(sandbox, programs):
    """A restart does not change what a command, a worker and a child that has ended tell the program."""
    job = sandbox.run(programs.test_program("children", "--steps", 100, "--seconds", 3, ranks=2))
    recover_twice(job)


def wait_for_second_sleep(job, rank):
    """In the middle of a command of the shell, which the rank, or a child of it, has started some lines ago."""
    def sleeps():
        return traces.in_group(job.pids[job.status()["epoch"]][rank], "sleep")
    wait_for(sleeps, 30, "a command of the rank")
    first = sleeps()
    wait_for(lambda: sleeps() not in ([], first), 30, "its second part")


@pytest.mark.parametrize("value", [pytest.param(0, marks=pytest.mark.campaign), 1], ids=["child", "grandchild"])
def test_children_whose_output_is_read(sandbox, programs, value):
    """Each kill comes while a command runs that has begun several lines ago."""
    job = sandbox.run(programs.test_program("children", "--mode", "feeding", "--steps", 24, "--seconds", 1, "--value", value,
                                            ranks=2), interval="100ms")
    for step in (9, 19):
        job.wait_step(step)
        wait_for_second_sleep(job, 0)
        job.kill_and_recover()
    assert "reads what a process of its own writes" in job.errors, job.errors
    job.finish()
    assert_recovered(job)


def test_a_child_that_runs_for_ever(sandbox, programs):
    """Another program: lines are taken, and after a restart it has been killed."""
    job = sandbox.run(programs.test_program("children", "--mode", "long", "--steps", 100, "--seconds", 3, ranks=2))
    recover_twice(job)
    assert "has child processes that run" in job.errors, job.errors


@pytest.mark.campaign
def test_an_aborted_line_is_tried_again_soon(sandbox, programs):
    """The first one finds a process that was not there before."""
    job = sandbox.run(programs.test_program("children", "--mode", "handing", "--steps", 100, "--seconds", 4, ranks=1), interval="3s")
    job.wait_committed(2, 20)
    first, second = job.status()["lines"][:2]
    assert (first["state"], second["state"]) == ("aborted", "committed")
    assert second["begun_at_ms"] - first["begun_at_ms"] < 1500
    job.finish()
    assert_same_result(job)


def test_an_end_of_a_pipe_on_its_way(sandbox, programs):
    """No process has it, and one of the rank's may get it: one line waits for that, and no more."""
    job = sandbox.run(programs.test_program("children", "--mode", "handing", "--steps", 60, "--seconds", 3, ranks=2), interval="200ms")
    job.wait_step(35)
    job.wait_committed(newest_line(job.status()) + 2)
    job.finish()
    assert "reads what a process of its own writes" in job.errors, job.errors
    assert_same_result(job)
    assert job.status()["epoch"] == 1


@pytest.mark.parametrize("method, reason", [("fork", "a forked process"), ("spawn", "reads what a process of its own"),
                                            ("forkserver", "reads what a process of its own")])
def test_a_pool_of_workers(sandbox, method, reason):
    """The program waits for them: no line is taken, which is said, and a loss begins from the start."""
    job = sandbox.run(pools("--steps", "40", "--seconds", "2", "--method", method), interval="200ms")
    wait_said(job, "no line is taken while rank")
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] == 0 and newest_line(status) == 0, status
    job.let_hurry()
    job.wait()
    assert_same_result(job)
    assert reason in job.errors and job.errors.count(reason) <= 4, job.errors


def test_memory_and_files_without_a_name(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("process", "--mode", "nameless", "--steps", 300,
                                                           "--seconds", 5)))


def test_execution_of_itself_and_others(sandbox, programs):
    """Before MPI_Init, in children, in vain at each step, and after MPI_Finalize."""
    program = programs.test_program("execs", "--mode", "again-failing-children-after", "--steps", 40, "--seconds", 3)
    kill_after_two_lines(sandbox.run(Program(program.argv, 2, "exec-*")))


def test_execution_of_itself_before_any_line(sandbox, programs):
    """All programs of the process run once more; files and output are as if they had run once."""
    program = programs.test_program("execs", "--mode", "again", "--steps", 100, "--seconds", 2)
    job = sandbox.run(Program(program.argv, 2, "exec-*"), interval=None)
    job.wait_step(10)
    job.kill_rank()
    job.wait()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 1


def test_execution_without_the_launchers_variables(sandbox, programs):
    """Two worlds of one rank each, as without Belay: not protected, which is said."""
    job = sandbox.run(programs.test_program("execs", "--mode", "alone", "--steps", 2, ranks=2), trace=False)
    assert job.wait() == 0
    assert_same_result(job)
    assert job.errors.count("was not protected") == 2, job.errors


@pytest.mark.parametrize("mode, value", [("after", 5), ("between", 6)])
def test_another_programs_status(sandbox, programs, mode, value):
    """What is executed in a rank's place is no loss, and its status is the job's."""
    job = sandbox.run(programs.test_program("execs", "--mode", mode, "--value", value, "--steps", 40, "--seconds", 2,
                                            ranks=2), trace=False, interval="100ms")
    assert job.wait() == value, job.errors
    status = job.status()
    assert status["state"] == "failed" and len(status["history"]) == 1, status
    assert "shell of rank 0" in job.read("out").decode()


def test_settings_of_process_and_threads(sandbox, programs):
    """prctl, scheduling, user and groups, files of /proc/self, registers that have to be asked for."""
    kill_after_two_lines(sandbox.run(programs.test_program("process_settings", "--steps", 60, "--seconds", 3),
                                     trace=False))


def test_signals_that_are_on_their_way_at_a_line(sandbox, programs):
    """They name the process as it was then, which is a third one in a second restart."""
    job = sandbox.run(programs.test_program("process_ids", "--mode", "raised", "--steps", 40), interval="50ms")
    for _ in range(2):
        job.wait_lines()
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_process_ids(sandbox, programs):
    """Ids of itself, its threads, its parent, its group and other ranks are good after two restarts."""
    job = sandbox.run(programs.test_program("process_ids", "--steps", 60, "--seconds", 3))
    for _ in range(2):
        job.wait_lines()
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    assert "hands another" not in job.errors, job.errors


def test_ids_that_the_kernel_tells(sandbox, programs):
    """Each place where the kernel tells or takes an id, as a table: natively, and after each of two restarts."""
    job = sandbox.run(programs.test_program("kernel_ids", "--steps", 60, "--value", 1, ranks=2), seconds=2)
    for _ in range(2):
        job.wait_lines()
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    for rank in range(2):  # what lines do not keep is said once
        assert job.errors.count(f"rank {rank}: the program has opened a message queue") == 1, job.errors
        assert job.errors.count(f"rank {rank}: the program wants to be told of what others do") == 1, job.errors


def test_a_process_id_for_another_program(sandbox, programs):
    """Others know the process by another id after a restart: one line says so."""
    job = sandbox.run(programs.test_program("process_ids", "--mode", "handed", "--steps", 60, "--seconds", 3))
    kill_after_two_lines(job)
    assert job.errors.count("hands another one its process id") == 1, job.errors


def test_settings_that_no_restart_could_repeat(sandbox, programs):
    """They fail as where they do not exist; what a program would not expect is said."""
    job = sandbox.run(programs.test_program("process_settings", "--mode", "refused"), trace=False)
    assert job.wait() == 0
    assert job.read("out").decode().splitlines()[:12] == [
        "seccomp: Invalid argument", "another seccomp: Invalid argument", "landlock: Operation not supported",
        "chroot: Operation not permitted", "unshare: Operation not permitted", "key: No space left on device",
        "aio: Function not implemented", "uring: Function not implemented", "traceme: Operation not permitted",
        "attach: Operation not permitted", "seize: Operation not permitted", "another: done"]
    assert job.errors.count("refused (E") == 8, job.errors
    for named in ("(pkey_alloc: ENOSPC)", "(io_setup: ENOSYS)", "(io_uring_setup: ENOSYS)"):
        assert job.errors.count(named) == 1, job.errors


def test_pairs_of_sockets(sandbox, programs):
    """Twice: what was made again is noted and made again."""
    job = sandbox.run(programs.test_program("pairs", "--steps", 80, "--seconds", 4, ranks=2), interval="200ms")
    recover_twice(job)
    assert "is not restored" not in job.errors


def test_sockets_with_names(sandbox, programs):
    """Those who listen, receive or send are there again; who connects anew is served. The third time without a line."""
    program = programs.test_program("endpoints", "--steps", 60, "--seconds", 2, ranks=2)
    job = sandbox.run(program)
    for _ in range(2):
        job.wait_lines()
        job.kill_and_recover(0)
    job.kill_and_recover(1)
    assert "is not restored" not in job.errors, job.errors
    job.finish()
    assert_recovered(job)


def test_pseudo_terminals(sandbox, programs):
    """Their settings and what they hold, by lines and as it comes; twice, as above. A child has one of them."""
    job = sandbox.run(programs.test_program("terminals", "--steps", 80, "--seconds", 4, ranks=2), interval="200ms",
                      options=["--children", "lose"])
    recover_twice(job)
    for wrong in ("is not restored", "lines do not keep it", "had read yet"):
        assert wrong not in job.errors


def test_pipes(sandbox, programs):
    """What they hold, in the pieces in which it is read, by each of their descriptors; twice, as above."""
    job = sandbox.run(programs.test_program("pipes", "--steps", 80, "--seconds", 4, ranks=2), interval="200ms")
    recover_twice(job)
    for wrong in ("is not restored", "lines do not keep", "O_DIRECT"): # of a pipe it is no matter
        assert wrong not in job.errors


def test_arguments_of_32_bits(sandbox, programs):
    """What the upper half of a register holds is nothing to the kernel where it takes 32 bits."""
    kill_after_two_lines(sandbox.run(programs.test_program("widths", "--steps", 40, "--seconds", 3, ranks=2)))


def descriptors(programs, mode, *arguments):
    program = programs.test_program("descriptors", "--mode", mode, "--steps", 60, "--seconds", 2, *arguments, ranks=2)
    return dataclasses.replace(program, outputs="data-*")


@pytest.mark.parametrize("mode", [["numbers"], ["foreign"], ["raised"], ["limit"]],
                         ids=lambda mode: mode[0])
def test_descriptors(sandbox, programs, mode):
    """A program has its own, by whatever call, with the numbers that it gets natively; within any limit."""
    kill_after_two_lines(sandbox.run(descriptors(programs, *mode)))


@pytest.mark.parametrize("mode", ["own", "others"])
def test_locks(sandbox, programs, mode):
    """Open files that are locked, whoever has locked them, and files that nobody has."""
    kill_after_two_lines(sandbox.run(programs.test_program("locks", "--mode", mode, "--steps", 60, "--seconds", 2,
                                                           ranks=4)))


def test_closing_every_descriptor(sandbox, programs):
    """Those of the MPI library are out of reach; natively the program would lose it."""
    job = sandbox.run(descriptors(programs, "close"))
    job.wait_lines()
    job.kill_and_recover()
    assert job.finish() == 0
    assert_restored(job, 1)


def test_a_fatal_mpi_error_is_no_loss(sandbox, programs):
    job = sandbox.run(programs.test_program("exits", "--mode", "error", "--steps", 60, "--seconds", 1,
                                            "--rank", 1), trace=False)
    assert job.wait() != 0
    status = job.status()
    assert status["state"] == "failed" and len(status["history"]) == 1, status


def test_intercommunicators(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("inter", "--steps", 600, "--seconds", 5)))
