"""A process dies in each phase of a line (named fault points, docs/faults.md): the newest committed line is used,
and without one the start."""

import os
import signal

import pytest

import traces
from belaytest import assert_restored, assert_same_result, newest_line
from waiting import wait_for

RANK_POINTS = ["rank.drain", "rank.park", "rank.resume"]
# Killed at the second line: the line that must be restored.
AGENT_POINTS = {
    "agent.prepare": 1,
    "agent.strobe": 1,
    "agent.drain": 1,
    "agent.capture": 1,
    "agent.captured": 1,
    "agent.protected": 2,
    "agent.commit.before": 2,
    "agent.commit.recorded": 2,
    "agent.commit.after": 2,
    "agent.apply": 2,
    "agent.apply.pages": 2,
    "agent.apply.done": 2,
    "agent.apply.kept": 2,
}


def ring(programs, seconds=3):
    return programs.test_program("ring", "--steps", 100 * seconds, "--seconds", seconds)


def assert_back_from(job, lines):
    """The second epoch runs from one of these lines, takes a new line, and ends well."""
    status = job.wait_epoch(2)
    restored = status["history"][-1]["restored_line"]
    assert restored in lines
    done = job.sandbox.belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    assert newest_line(job.status()) > restored
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("point", RANK_POINTS)
def test_rank_dies_at_the_second_line(sandbox, programs, belay, point):
    job = sandbox.run(ring(programs), interval=None, BELAY_FAULT=f"{point}@1#2=kill")
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode == 0
    belay("checkpoint", "job")  # ends well or not, as the point is before or after the commit
    # A rank that resumes has been captured: its line may commit all the same.
    assert_back_from(job, [1, 2] if point == "rank.resume" else [1])
    assert_restored(job, 1)


@pytest.mark.parametrize("point", ["rank.drain", "rank.park"])
def test_rank_dies_at_the_first_line(sandbox, programs, belay, point):
    job = sandbox.run(ring(programs), interval=None, BELAY_FAULT=f"{point}@2#1=kill")
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode != 0
    assert_back_from(job, [0])
    status = job.status()
    assert (status["restarts"], status["restarts_from_start"]) == (0, 1)


def test_rank_dies_in_the_restore(sandbox, programs):
    """Rank 1 stands still while it is restored; another is killed meanwhile."""
    job = sandbox.run(ring(programs), BELAY_FAULT="rank.restore@1=delay:1500")
    job.wait_committed(1)
    job.kill_rank(2)
    job.wait_status(lambda status: status["epoch"] == 2 and 2 in job.pids, what="the second epoch")
    job.kill_rank(3, state="restarting")
    job.wait_epoch(3)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 2)


@pytest.mark.parametrize("point", AGENT_POINTS)
def test_agent_dies_at_the_second_line(sandbox, programs, belay, point):
    sandbox.start_agent(BELAY_FAULT=f"{point}#2=kill")
    job = sandbox.run(ring(programs), interval=None)
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode == 0
    belay("checkpoint", "job")
    assert_back_from(job, [AGENT_POINTS[point]])
    assert newest_line(job.status()) == 3  # the number of the line that it has begun is used up
    assert_restored(job, 1)


# The line that is restored when the agent dies at one of these points: the one before, or this one.
POINTS_OF_A_LINE = {point: line - 1 for point, line in AGENT_POINTS.items()
                    if point not in ("agent.prepare", "agent.strobe")}
LINES = {"first": 1, "delta": 2, "frozen": 3}
POLICIES = ("sequential", "main_memory", "cow", "cll", "precopy", "auto")
DEFAULT_POINTS = [("agent.apply.pages", "frozen", "precopy"), ("agent.apply.kept", "frozen", "sequential"),
                  ("agent.commit.recorded", "first", "precopy")]


def points_of_lines():
    """Each point at the first line, at a delta, and at the delta of ranks that have their images mapped."""
    for point in POINTS_OF_A_LINE:
        for kind in LINES:
            for policy in POLICIES:
                if kind == "first" and point.startswith("agent.apply"):
                    continue  # a whole image is not applied
                is_default = (point, kind, policy) in DEFAULT_POINTS
                yield pytest.param(point, kind, policy, marks=[] if is_default else [pytest.mark.campaign])


@pytest.mark.parametrize("point,kind,policy", points_of_lines())
def test_agent_dies_amid_memory_operations(sandbox, programs, belay, point, kind, policy):
    line = LINES[kind]
    sandbox.start_agent(BELAY_FAULT=f"{point}#{line}=kill")
    job = sandbox.run(programs.test_program("mem_ops", "--steps", 200, "--seconds", 4), interval=None,
                      options=["--policy", policy, "--children", "lose"])
    job.wait_step(2)
    for _ in range(line - 1):
        done = belay("checkpoint", "job")
        assert done.returncode == 0, done.stderr
    if kind == "frozen":
        assert job.kill_and_recover()["history"][-1]["restored_line"] == line - 1
    epoch = job.status()["epoch"]
    belay("checkpoint", "job")
    status = job.wait_epoch(epoch + 1)
    restored = line - 1 + POINTS_OF_A_LINE[point]
    assert status["history"][-1]["restored_line"] == restored
    done = belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    job.kill_and_recover()
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == (restored == 0)


@pytest.mark.parametrize("point", ["agent.prepare", "agent.strobe", "agent.capture", "agent.captured"])
def test_failed_step_aborts_the_line_only(sandbox, programs, belay, point):
    sandbox.start_agent(BELAY_FAULT=f"{point}#2=error")
    job = sandbox.run(ring(programs), interval=None)
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode == 0
    done = belay("checkpoint", "job")
    assert done.returncode != 0 and len(done.stderr.strip().splitlines()) == 1
    assert belay("checkpoint", "job").returncode == 0
    status = job.status()
    states = {line["line"]: line["state"] for line in status["lines"]}
    assert (states[1], states[2], states[3]) == ("committed", "aborted", "committed")
    job.kill_and_recover()
    assert job.status()["history"][-1]["restored_line"] == 3
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("victim", ["rank", "agent"])
@pytest.mark.parametrize("line", [1, 2])
def test_line_aborted_when_it_was_protected(sandbox, programs, belay, line, victim):
    """It is whole, and the coordinator of another node might have committed it: the next epoch goes on from it."""
    sandbox.start_agent(BELAY_FAULT=f"agent.protected#{line}=error")
    job = sandbox.run(ring(programs), interval=None)
    job.wait_epoch(1)
    for _ in range(line - 1):
        assert belay("checkpoint", "job").returncode == 0
    assert belay("checkpoint", "job").returncode != 0
    status = job.status()
    assert [(entry["line"], entry["state"]) for entry in status["lines"]][-1] == (line, "aborted")
    os.kill(sandbox.agent()[0] if victim == "agent" else job.pids[1][0], signal.SIGKILL)
    assert_back_from(job, [line])
    status = job.status()
    assert {entry["line"]: entry["state"] for entry in status["lines"]}[line] == "committed"
    assert newest_line(status) == line + 1
    assert_restored(job, 1)


def test_line_after_one_that_was_protected(sandbox, programs, belay):
    """Its capture writes over what was staged; what was written before the aborted line is in it as well."""
    sandbox.start_agent(BELAY_FAULT="agent.protected#2=error")
    job = sandbox.run(programs.test_program("mem_ops", "--steps", 200, "--seconds", 4), interval=None,
                      options=["--children", "lose"])
    job.wait_step(2)
    results = [belay("checkpoint", "job").returncode for _ in range(3)]
    assert results[0] == 0 and results[1] != 0 and results[2] == 0
    assert job.kill_and_recover()["history"][-1]["restored_line"] == 3
    job.finish()
    assert_same_result(job)


def test_agent_dies_when_it_has_begun_the_first_line(sandbox, programs, belay):
    """There is nothing to go on from, but the line's number is used up, and the epoch's."""
    sandbox.start_agent(BELAY_FAULT="agent.strobe#1=kill")
    job = sandbox.run(ring(programs), interval=None, trace=False)
    job.wait_epoch(1)
    belay("checkpoint", "job")
    assert_back_from(job, [0])
    status = job.status()
    assert newest_line(status) == 2 and [entry["epoch"] for entry in status["history"]] == [1, 2]
    assert (status["restarts"], status["restarts_from_start"]) == (0, 1)


def test_agent_dies_at_the_first_line_that_it_has_protected(sandbox, programs, belay):
    """Nothing was committed before: without the verdict the job would begin again."""
    sandbox.start_agent(BELAY_FAULT="agent.protected#1=kill")
    job = sandbox.run(ring(programs), interval=None)
    job.wait_epoch(1)
    belay("checkpoint", "job")
    assert_back_from(job, [1])
    status = job.status()
    assert (status["restarts"], status["restarts_from_start"]) == (1, 0)
    assert_restored(job, 1)


def test_agent_killed_between_lines(sandbox, programs):
    job = sandbox.run(ring(programs, seconds=4))
    job.wait_committed(2)
    os.kill(job.status()["nodes"][0]["agent_pid"], signal.SIGKILL)
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


def test_launcher_dies_at_the_start_of_a_restart(sandbox, programs):
    """Before its ranks have come or after: the job is lost again, not without protection."""
    job = sandbox.run(ring(programs))
    line = job.wait_committed(1)
    first = job.find_launcher()
    os.kill(job.pids[1][0], signal.SIGKILL)
    again = wait_for(lambda: job.find_launcher() not in (None, first) and job.find_launcher(), 20, "another launcher")
    os.kill(again, signal.SIGKILL)
    assert job.wait_epoch(3)["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)


def test_mpirun_that_hangs_below_a_script(sandbox, programs):
    """mpirun is known to lock itself out over ranks that die: it is ended before the script that waits for it."""
    program = programs.test_program("ring", "--steps", 200, ranks=2)
    path = os.path.join(sandbox.folder, "script")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"mpirun -n 2 {' '.join(program.argv)} --seconds 2\n")
    job = sandbox.run(program, trace=False, line=["sh", path])
    job.wait_committed(1)
    mpirun, = traces.children_of(job.find_launcher())
    os.kill(mpirun, signal.SIGSTOP)
    job.kill_and_recover()
    assert not traces.is_alive(mpirun)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


def test_keeper_killed_then_the_agent(sandbox, programs):
    """The agent hands what it holds to a new keeper, from which the next agent has it."""
    job = sandbox.run(ring(programs, seconds=4))
    line = job.wait_committed(1)
    agent, keeper = sandbox.agent()
    os.kill(keeper, signal.SIGKILL)
    line = job.wait_committed(line + 2)
    assert sandbox.agent()[1] != keeper
    os.kill(agent, signal.SIGKILL)
    assert job.wait_epoch(2)["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


def test_agent_and_keeper_killed(sandbox, programs):
    """No line is left: the job begins again, and says so."""
    job = sandbox.run(ring(programs, seconds=2))
    job.wait_committed(1)
    for pid in sandbox.agent():
        os.kill(pid, signal.SIGKILL)
    status = job.wait_epoch(2)
    assert (status["restarts"], status["restarts_from_start"]) == (0, 1)
    assert status["history"][-1]["restored_line"] == 0 and "agent" in status["history"][-1]["reason"]
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("first", ["belay", "agent"])
def test_agent_and_belay_run_killed(sandbox, programs, belay, first):
    """What is left answers, and goes on when it is told to; nothing of the ended launch is left behind."""
    job = sandbox.run(ring(programs))
    line = job.wait_committed(1)
    pids = job.pids[1].values()
    agent = sandbox.agent()[0]
    if first == "agent":
        os.kill(agent, signal.SIGKILL)
        wait_for(lambda: "the agent has gone" in job.errors, 20, "the end of the launch that belay has asked for")
    job.process.kill()
    job.process.wait()
    if first == "belay":
        os.kill(agent, signal.SIGKILL)
    wait_for(lambda: not any(map(traces.is_alive, pids)), 20, "the end of the ranks")
    assert '"job"' in belay("list", "--json").stdout
    assert job.status()["state"] == "lost"
    job.restart()
    assert job.finish() == 0
    assert job.status()["history"][-1]["restored_line"] >= line
    assert_same_result(job)
