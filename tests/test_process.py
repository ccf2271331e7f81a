"""The process around MPI: stacks, children, fatal errors; and communicators of strangers."""

import resource

import pytest

from belaytest import assert_recovered


def kill_after_two_lines(job):
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
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


def test_addresses_of_the_programs_choice(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("mem_fixed", "--steps", 60, "--seconds", 3)))


def test_children_of_a_rank(sandbox, programs):
    """fork, system, popen and a statically linked program, before and after a restart."""
    kill_after_two_lines(sandbox.run(programs.test_program("process", "--mode", "children", "--steps", 300,
                                                           "--seconds", 5)))


def test_memory_and_files_without_a_name(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("process", "--mode", "nameless", "--steps", 300,
                                                           "--seconds", 5)))


def test_a_fatal_mpi_error_is_no_loss(sandbox, programs):
    job = sandbox.run(programs.test_program("exits", "--mode", "error", "--steps", 60, "--seconds", 1,
                                            "--rank", 1), trace=False)
    assert job.wait() != 0
    status = job.status()
    assert status["state"] == "failed" and len(status["history"]) == 1, status


def test_intercommunicators(sandbox, programs):
    kill_after_two_lines(sandbox.run(programs.test_program("inter", "--steps", 600, "--seconds", 5)))
