"""A process is killed at each step of opening an epoch, at the start and at a restart (docs/line.md, "Epochs and the
lease"): the right result, no epoch's number twice, nothing left behind."""

import os
import signal
import subprocess

import pytest

import traces
from belaytest import assert_restored, assert_same_result, newest_line
from test_life import preload_line
from waiting import wait_for

# Is the epoch's number used up then? Those of `belay run`, then those of the agent.
ARBITER_POINTS = {"arbiter.epoch.answered": False, "arbiter.epoch.recorded": True, "arbiter.epoch.told": True,
                  "arbiter.epoch.entered": True}
AGENT_POINTS = {"agent.epoch.promised": False, "agent.epoch.told": True, "agent.epoch.entered": True}
# Once ranks are up that nobody had placed: only at a start.
ARBITER_PLACED, AGENT_PLACED = "arbiter.epoch.placed", "agent.epoch.placed"


def ring(programs, seconds=3):
    return programs.test_program("ring", "--steps", 100 * seconds, "--seconds", seconds)


def record_of(sandbox, name="job"):
    return os.path.join(sandbox.rundir, "jobs", f"{name}.epochs")


def epochs_of(status):
    return [entry["epoch"] for entry in status["history"]]


def assert_killed(job):
    job.wait()
    assert job.process.returncode == -signal.SIGKILL, job.errors


def wait_lost(sandbox):
    return wait_for(lambda: (sandbox.status("job") or {}).get("state") == "lost" and sandbox.status("job"), 30,
                    "the end of the job that belay has left")


def run_again(sandbox, programs):
    """A job of that name begins anew, whatever the one before has left."""
    again = sandbox.run(ring(programs))
    again.wait_committed(1)
    again.kill_and_recover()
    assert again.finish() == 0
    assert_same_result(again)
    assert_restored(again, 1)
    assert not os.path.exists(record_of(sandbox))


# ---- belay run ----

@pytest.mark.parametrize("point", ARBITER_POINTS)
def test_belay_run_dies_at_a_restart(sandbox, programs, point):
    """The images are kept, and `belay restart` goes on with a number that nobody has heard of."""
    job = sandbox.run(ring(programs, 4), BELAY_FAULT=f"{point}#2=kill")
    line = job.wait_committed(1)
    os.kill(job.pids[1][0], signal.SIGKILL)
    assert_killed(job)
    assert newest_line(wait_lost(sandbox)) >= line
    job.variables.clear()
    job.restart()
    status = job.wait_epoch(2)
    assert status["epoch"] == (3 if ARBITER_POINTS[point] else 2)
    assert status["history"][-1]["restored_line"] >= line
    assert epochs_of(status) == sorted(set(epochs_of(status)))
    assert job.finish() == 0
    assert_same_result(job)
    assert not os.path.exists(record_of(sandbox))


@pytest.mark.parametrize("point", [*ARBITER_POINTS, ARBITER_PLACED])
def test_belay_run_dies_at_the_start(sandbox, programs, belay, point):
    """Without a line there is nothing to go on from, and nothing is kept."""
    job = sandbox.run(ring(programs), BELAY_FAULT=f"{point}#1=kill")
    assert_killed(job)
    wait_lost(sandbox)
    assert not os.path.exists(record_of(sandbox))
    done = belay("restart", "job")
    assert done.returncode == 66, done.stderr
    run_again(sandbox, programs)


def test_launcher_dies_before_it_may_go(sandbox, programs):
    """It waits for the epoch to be open: a launch that was killed at its start is lost, as a later one."""
    job = sandbox.run(ring(programs, 4), BELAY_FAULT="arbiter.epoch.entered#2=stop")
    line = job.wait_committed(1)
    first = job.find_launcher()
    os.kill(job.pids[1][0], signal.SIGKILL)
    wait_for(lambda: traces.is_stopped(job.process.pid), 30, "the point")
    again = job.find_launcher()
    assert again not in (None, first)
    os.kill(again, signal.SIGKILL)
    wait_for(lambda: not traces.is_alive(again), 20, "the end of the launcher")
    os.kill(job.process.pid, signal.SIGCONT)
    status = job.wait_epoch(3)
    assert status["epoch"] == 3 and status["history"][-1]["restored_line"] >= line
    assert job.finish() == 0
    assert_same_result(job)


# ---- the agent ----

@pytest.mark.parametrize("point", AGENT_POINTS)
def test_agent_dies_at_a_restart(sandbox, programs, point):
    """`belay run` goes on with another agent, from the same line."""
    sandbox.start_agent(BELAY_FAULT=f"{point}#2=kill")
    job = sandbox.run(ring(programs, 4))
    agent, line = sandbox.agent()[0], job.wait_committed(1)
    os.kill(job.pids[1][0], signal.SIGKILL)
    epoch = 3 if AGENT_POINTS[point] else 2
    status = job.wait_epoch(epoch)
    assert status["epoch"] == epoch and status["history"][-1]["restored_line"] >= line
    assert sandbox.agent()[0] != agent
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


@pytest.mark.parametrize("point", AGENT_POINTS)
def test_agent_dies_at_the_start(sandbox, programs, point):
    """Nothing has been launched: the user hears of it, and may try again."""
    sandbox.start_agent(BELAY_FAULT=f"{point}#1=kill")
    job = sandbox.run(ring(programs))
    assert job.wait() == 69
    assert "the agent has gone" in job.errors
    run_again(sandbox, programs)


def test_agent_dies_when_ranks_are_placed(sandbox, programs):
    """No line has begun: the program does, anew, under the next number."""
    sandbox.start_agent(BELAY_FAULT=f"{AGENT_PLACED}#1=kill")
    job = sandbox.run(ring(programs))
    status = job.wait_epoch(2)
    assert epochs_of(status)[-1] == 2 and status["history"][-1]["restored_line"] == 0
    job.wait_committed(1)
    assert job.finish() == 0
    assert_same_result(job)


# ---- a line that was protected, and not committed ----

def lose_rank_after_protected(job, belay):
    """The first line is protected and aborts: the next epoch's verdict has to commit it."""
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode != 0
    os.kill(job.pids[1][0], signal.SIGKILL)


def assert_committed_by_verdict(job, status):
    assert status["history"][-1]["restored_line"] == 1
    assert {entry["line"]: entry["state"] for entry in status["lines"]}[1] == "committed"
    assert job.wait() == 0
    assert_same_result(job)


@pytest.mark.parametrize("point", ARBITER_POINTS)
def test_protected_line_when_belay_run_dies(sandbox, programs, belay, point):
    """What the node has answered, and what is recorded, leads `belay restart` to the same line."""
    sandbox.start_agent(BELAY_FAULT="agent.protected#1=error")
    job = sandbox.run(ring(programs, 4), interval=None, BELAY_FAULT=f"{point}#2=kill")
    lose_rank_after_protected(job, belay)
    assert_killed(job)
    wait_lost(sandbox)
    job.variables.clear()
    job.restart()
    assert_committed_by_verdict(job, job.wait_epoch(3 if ARBITER_POINTS[point] else 2))


@pytest.mark.parametrize("point", AGENT_POINTS)
def test_protected_line_when_the_agent_dies(sandbox, programs, belay, point):
    """Before it has settled the line, or after that: another agent does, or finds it committed."""
    sandbox.start_agent(BELAY_FAULT=f"agent.protected#1=error,{point}#2=kill")
    job = sandbox.run(ring(programs, 4), interval=None)
    lose_rank_after_protected(job, belay)
    assert_committed_by_verdict(job, job.wait_epoch(3 if AGENT_POINTS[point] else 2))
    assert_restored(job, 1)


# ---- the keeper ----

def lose_keeper(sandbox, pid):
    """While `pid` stands at its point; what the keeper held is with another one then."""
    wait_for(lambda: traces.is_stopped(pid), 30, "the point")
    _, keeper = sandbox.agent()
    os.kill(keeper, signal.SIGKILL)
    os.kill(pid, signal.SIGCONT)
    return keeper


@pytest.mark.parametrize("point", [*ARBITER_POINTS, *AGENT_POINTS, ARBITER_PLACED, AGENT_PLACED])
def test_keeper_dies(sandbox, programs, point):
    """Neither job nor agent end by that; an agent that comes later has all from the next keeper."""
    epoch = 1 if point.endswith("placed") else 2
    fault = {"BELAY_FAULT": f"{point}#{epoch}=stop"}
    sandbox.start_agent(**(fault if point in (*AGENT_POINTS, AGENT_PLACED) else {}))
    agent = sandbox.agent()[0]
    job = sandbox.run(ring(programs, 5), **(fault if not point.startswith("agent") else {}))
    if epoch == 2:
        job.wait_committed(1)
        os.kill(job.pids[1][0], signal.SIGKILL)
    keeper = lose_keeper(sandbox, agent if point.startswith("agent") else job.process.pid)
    line = job.wait_committed(newest_line(job.wait_epoch(epoch)) + 1)
    assert job.status()["epoch"] == epoch
    assert agent == sandbox.agent()[0] and keeper != sandbox.agent()[1]
    os.kill(agent, signal.SIGKILL)
    status = job.wait_epoch(epoch + 1)
    assert status["epoch"] == epoch + 1 and status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)
    assert_restored(job, epoch)


# ---- the record ----

def test_restart_with_one_of_both_records(sandbox, programs):
    """The one on disk, or its copy with the keeper."""
    job = sandbox.run(ring(programs, 6), options=["--max-restarts", "0"])
    for epoch, lost in enumerate(["disk", "none", "damaged"], start=1):
        line = job.wait_committed(newest_line(job.wait_epoch(epoch)) + 1)
        assert job.status()["epoch"] == epoch
        os.kill(job.pids[epoch][0], signal.SIGKILL)
        assert job.wait() == 75
        assert os.stat(record_of(sandbox)).st_mode & 0o7777 == 0o600
        if lost == "disk":
            os.unlink(record_of(sandbox))
        elif lost == "damaged":
            with open(record_of(sandbox), "r+b") as file:
                file.write(b"x")
        job.restart(options=["--max-restarts", "0"])
        assert job.wait_epoch(epoch + 1)["history"][-1]["restored_line"] >= line
    assert "it is damaged" in job.errors
    assert job.finish() == 0
    assert_same_result(job)
    assert not os.path.exists(record_of(sandbox))


def test_records_go_with_their_jobs(sandbox, programs, belay):
    job = sandbox.run(ring(programs), options=["--max-restarts", "0"])
    job.wait_committed(1)
    os.kill(job.pids[1][0], signal.SIGKILL)
    assert job.wait() == 75
    assert os.path.exists(record_of(sandbox))
    assert belay("clean", "job").returncode == 0
    assert not os.path.exists(record_of(sandbox))
    job = sandbox.run(ring(programs))
    job.wait_committed(1)
    processes = [*sandbox.agent(), job.process.pid]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)  # so that none sees the end of another
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(traces.is_alive, job.pids[1].values())), 20, "the end of the ranks")
    assert os.path.exists(record_of(sandbox))
    sandbox.remove_files_of_ranks()
    assert belay("clean").returncode == 0
    assert not os.path.exists(record_of(sandbox))


def test_agent_dies_as_the_arbiter(sandbox, programs):
    """Without `belay run`: the ranks are refused, and the next launch is not in the way of the first."""
    program = ring(programs)
    sandbox.start_agent(BELAY_FAULT="agent.epoch.recorded#1=kill")
    line = preload_line(sandbox, program, "job")
    done = subprocess.run(line, env=sandbox.environment, capture_output=True, stdin=subprocess.DEVNULL, check=False,
                          cwd=sandbox.folder, timeout=60)
    assert done.returncode == 97, done.stderr
    wait_for(lambda: (sandbox.status("job") or {}).get("state") in (None, "lost"), 20, "the end of the first job")
    done = subprocess.run(line, env=sandbox.environment, capture_output=True, stdin=subprocess.DEVNULL, check=False,
                          cwd=sandbox.folder, timeout=60)
    assert (done.returncode, done.stdout) == (0, programs.reference(program).stdout), done.stderr
    sandbox.wait_quiet()
    assert not os.path.exists(record_of(sandbox))
