"""Threads beside MPI and threads that call MPI, across restarts."""

import pytest

from belaytest import assert_recovered, kill_three_times


def kill_once(job):
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.parametrize("mode", ["turns", "waiting", "alone"])
def test_threads_call_mpi(sandbox, programs, mode):
    """MPI_THREAD_SERIALIZED; a thread that waits in MPI while the main thread computes; without the main thread."""
    kill_once(sandbox.run(programs.test_program("threads_serialized", "--steps", 100, "--mode", mode, ranks=3),
                          interval="200ms", seconds=3))


def test_legal_threads_at_any_time(sandbox, programs):
    """Callbacks, threads that end, and questions while another thread is inside MPI end nothing."""
    kill_once(sandbox.run(programs.test_program("threads_together", "--mode", "legal", "--steps", 200, ranks=3),
                          interval="200ms", seconds=3))


def test_two_threads_inside_mpi(sandbox, programs):
    """Not granted: the program ends, with one line that names the level and both functions, and is not restarted."""
    job = sandbox.run(programs.test_program("threads_together", ranks=2), interval="200ms", trace=False)
    assert job.wait(60) != 0
    said = [line for line in job.errors.splitlines() if "two threads are inside MPI at once" in line]
    assert 1 <= len(said) <= 2, job.errors
    assert "in MPI_Sendrecv and MPI_Sendrecv, but MPI_THREAD_SERIALIZED is" in said[0]
    assert job.status()["restarts"] == 0


def test_threads_among_themselves(sandbox, programs):
    """Locks that know their owner, barriers, cancellation, thread-specific data, threads that come and go."""
    kill_once(sandbox.run(programs.test_program("threads_sync", "--steps", 200, ranks=2), interval="200ms",
                          seconds=3))


def test_threads_blocked_in_system_calls(sandbox, programs):
    """Reads, polls, locks, messages, signals without a timeout: neither a line nor a restart ends one."""
    kill_once(sandbox.run(programs.test_program("threads_blocked", "--steps", 100, ranks=2), interval="200ms",
                          seconds=3))


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("kill", range(5))
@pytest.mark.parametrize("name, mode", [("threads_serialized", "turns"), ("threads_serialized", "waiting"),
                                        ("threads_serialized", "init"), ("threads_serialized", "alone"),
                                        ("threads_sync", ""), ("threads_blocked", "")])
def test_campaign_of_threads(sandbox, programs, name, mode, kill):
    """Three kills in a run."""
    job = sandbox.run(programs.test_program(name, "--steps", 400, "--mode", mode, ranks=3), interval="100ms",
                      seconds=8)
    kill_three_times(job, kill)
