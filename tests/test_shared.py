"""Memory and objects that ranks share with one another are, after restarts, what they were, and shared again."""

import dataclasses
import os
import signal

import pytest

import traces
from belaytest import assert_recovered


def recover_often(job):
    """A kill, another one (of another rank) at once, and one after more lines."""
    job.wait_lines()
    job.kill_and_recover(1)
    status = job.kill_and_recover(0)
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_memory(sandbox, programs):
    """Of every origin: each rank sees what the others write, before restarts and after them."""
    program = programs.test_program("shm", "--steps", 150, "--seconds", 3, ranks=3)
    recover_often(sandbox.run(program, interval="100ms"))


def test_memory_and_a_lost_agent(sandbox, programs):
    """One agent dies while it makes things again, the next after it has: the third finds what they have made."""
    sandbox.start_agent(BELAY_FAULT="agent.renew=kill")
    job = sandbox.run(programs.test_program("shm", "--steps", 100, "--seconds", 3, ranks=2), interval="200ms")
    job.wait_step(2)
    job.wait_committed(2)
    agents = [sandbox.agent()[0]]
    job.kill_rank()
    epoch = job.wait_epoch(2)["epoch"]
    agents.append(sandbox.agent()[0])
    os.kill(agents[-1], signal.SIGKILL)
    status = job.wait_epoch(epoch + 1)
    agents.append(sandbox.agent()[0])
    assert len(set(agents)) == len(agents)
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job, status["restarts"])


@pytest.mark.parametrize("mode", ["open", "constant"])
def test_files_without_a_name(sandbox, programs, mode):
    """What a rank alone has open is its own, what several have is one file; and one that is mapped to be read."""
    recover_often(sandbox.run(programs.test_program("shm", "--mode", mode, "--steps", 150, "--seconds", 3,
                                                    ranks=2), interval="100ms"))


def test_mappings_of_files_without_a_name(sandbox, programs):
    """What lies behind a file's end cannot be read; two mappings of one file, closed or not, are one memory."""
    job = sandbox.run(programs.test_program("mapped", "--steps", 60, "--seconds", 3, ranks=2), interval="100ms")
    recover_often(job)
    assert "cannot read memory" not in job.errors # of a page behind the end of a file


def test_synchronisation(sandbox, programs):
    """Mutexes, semaphores, messages and locks are held and wait as they did at the line."""
    program = programs.test_program("shm_sync", "--steps", 80, "--seconds", 3, ranks=3)
    recover_often(sandbox.run(dataclasses.replace(program, outputs="shm-sync-*"), interval="100ms"))


def test_locks_across_collectives(sandbox, programs):
    """A rank that is held has what another one waits for, which a line needs."""
    program = programs.test_program("shm_sync", "--mode", "across", "--steps", 60, ranks=4)
    job = sandbox.run(program, interval="100ms")
    job.wait_lines(3)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.skipif(not traces.has_own_objects, reason="needs a table of System V objects of its own (root)")
def test_objects_of_a_restart_that_was_not_recorded(sandbox, programs):
    """The agent is killed when it has made the objects and recorded nothing: the next one makes no others."""
    sandbox.start_agent(BELAY_FAULT="agent.renewed=kill")
    job = sandbox.run(programs.test_program("shm_sync", "--steps", 80000, "--seconds", 3000, ranks=2), interval=None,
                      options=["--max-restarts", "0"])
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    made = traces.system_v() - sandbox.objects
    job.kill_rank()
    assert job.wait() == 75
    traces.remove_system_v(made)
    agent = sandbox.agent()[0]
    job.restart(options=["--max-restarts", "0"])
    assert job.wait() == 69
    half = traces.system_v() - sandbox.objects
    assert len(half) == len(made)
    job.restart(options=["--max-restarts", "1"])
    epoch = job.wait_epoch(2)["epoch"]
    assert sandbox.agent()[0] != agent
    assert traces.system_v() - sandbox.objects == half
    job.kill_rank(0)
    job.wait_epoch(epoch + 1)
    assert traces.system_v() - sandbox.objects == half
    job.kill_rank(1)
    assert job.wait() == 75
    sandbox.remove_files_of_ranks()


@pytest.mark.skipif(not traces.has_own_objects, reason="needs a table of System V objects of its own (root)")
def test_objects_made_again_are_made_once(sandbox, programs):
    """Also by an agent that knows of them from the record of the one before; and removed if the job is given up."""
    job = sandbox.run(programs.test_program("shm_sync", "--steps", 80000, "--seconds", 3000, ranks=2), interval=None,
                      options=["--max-restarts", "0"])
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    made = traces.system_v() - sandbox.objects
    assert {entry.split()[0] for entry in made} >= {"msg", "sem"}
    job.kill_rank()
    assert job.wait() == 75
    traces.remove_system_v(made)
    job.restart(options=["--max-restarts", "1"])
    epoch = job.wait_epoch(2)["epoch"]
    again = traces.system_v() - sandbox.objects
    assert not again & made and len(again) == len(made)
    os.kill(sandbox.agent()[0], signal.SIGKILL)
    job.wait_epoch(epoch + 1)
    assert traces.system_v() - sandbox.objects == again
    job.kill_rank()
    assert job.wait() == 75
    sandbox.remove_files_of_ranks()
