"""Lines that begin while a rank's image still comes (--restore demand): captured at once, committed when the image is there."""

import signal
import subprocess

import pytest

from belaytest import assert_same_result
from nodes import homes, kill_node, on_nodes, run_with_agent
from test_demand import COME, loading, log_of, program
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("restores_on_demand")

# Node 1 is lost, and the spare takes its place: rank 1 goes on there, from its copy on node 2, or from parity.
MOVED, SPARE = 1, 4
SCHEMES = ["PARTNER", "XOR", "RS:2+2"]
WAITS = "is captured, and waits for images that are still to come"
NEVER = "agent.load.others=error"  # nothing comes but what the rank waits for
LONG = "agent.load.others#0-300=error"


def options(scheme, *more):
    return [*on_nodes(4), "--redundancy", scheme, "--spares", "1", "--restore", "demand", *more]


def begin(sandbox, fault, program, scheme, *more):
    """A job of which line 1 is committed, and whose second rank runs on an image that still comes."""
    job = run_with_agent(sandbox, SPARE, fault, program, options=options(scheme, *more), interval=None)
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, MOVED)
    status = job.wait_epoch(2)
    assert homes(status) == [0, SPARE, 2, 3] and loading(status)
    return job


def capture(sandbox, job):
    """A line is asked for, and captured while the image still comes. Returns the command that waits for it."""
    command = subprocess.Popen([sandbox.command, "checkpoint", "job"], env=sandbox.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    wait_for(lambda: WAITS in log_of(sandbox, SPARE), 60, "a captured line")
    return command


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["touch", "maps", "threads"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_commits_when_the_image_is_there(sandbox, programs, scheme, mode):
    """It is a line as any other: a second loss goes on from it."""
    job = begin(sandbox, LONG, program(programs, mode, seconds=30), scheme)
    command = capture(sandbox, job)
    assert command.communicate(timeout=120)[0] is not None and command.returncode == 0
    log = log_of(sandbox, SPARE)
    assert log.index(WAITS) < COME.search(log).start()
    assert job.status()["newest_line"] == 2
    job.kill_rank(MOVED)
    assert job.wait_epoch(3)["history"][-1]["restored_line"] == 2
    kill_node(sandbox, job, 2)
    status = job.wait_epoch(4)
    assert status["history"][-1]["restored_line"] == 2
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("policy", ["main_memory", "cow", "cll", "auto"])
@pytest.mark.parametrize("scheme", ["PARTNER", "RS:2+2"])
def test_policies(sandbox, programs, scheme, policy):
    """None of them protects memory that is still to come. A line after that is one as any other."""
    job = begin(sandbox, LONG, program(programs, "touch", seconds=30), scheme, "--policy", policy)
    command = capture(sandbox, job)
    assert command.communicate(timeout=120)[0] is not None and command.returncode == 0
    log = log_of(sandbox, SPARE)
    assert log.index(WAITS) < COME.search(log).start()
    job.kill_rank(MOVED)
    assert job.wait_epoch(3)["history"][-1]["restored_line"] == 2
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 2)
    status = job.wait_epoch(4)
    assert status["history"][-1]["restored_line"] == 3 and status["restarts_from_start"] == 0
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("what", ["rank", "source", "loader"])
@pytest.mark.parametrize("scheme", ["PARTNER", "RS:2+2"])
def test_a_loss_before_the_image_is_there(sandbox, programs, scheme, what):
    """The captured line is not committed: what its ranks go on from is the line before, which all others still hold."""
    if scheme == "PARTNER" and what == "source":
        pytest.skip("nobody else has the image")
    job = begin(sandbox, NEVER, program(programs, "again", seconds=30), scheme)
    command = capture(sandbox, job)
    assert job.status()["newest_line"] == 1 and command.poll() is None
    if what == "rank":
        job.kill_rank(MOVED)
    else:
        kill_node(sandbox, job, 2 if what == "source" else SPARE)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == 1
    command.communicate(timeout=60)
    assert command.returncode != 0
    assert COME.search(log_of(sandbox, SPARE)) is None
    if what == "loader":
        job.finish()
        assert_same_result(job)
        sandbox.assert_clean()
    else:  # the spare's agent still fetches nothing else
        job.process.send_signal(signal.SIGTERM)
        job.wait()


@pytest.mark.campaign
@pytest.mark.parametrize("more", [("--policy", "sequential"), ("--tracker", "full"), ("--tracker", "bookkeeping")])
def test_lines_that_wait_for_the_whole_image(sandbox, programs, more):
    """They would hold ranks for it, copy what is not there, or protect it: none is begun before it is."""
    job = begin(sandbox, "agent.load.others#0-60=error", program(programs, seconds=30), "PARTNER", *more)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    log = log_of(sandbox, SPARE)
    assert COME.search(log) and WAITS not in log
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()
