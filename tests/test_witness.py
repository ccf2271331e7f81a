"""Captures of every policy are what a full copy at the same line is, page by page, under writers that never stop."""

import os

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result, newest_line
from test_tracker import POLICIES, TRACKERS, offered

LINES = 1000
SHORT = [("cow", "pagemap_scan")]


def log_of(sandbox):
    with open(os.path.join(sandbox.rundir, "agent.log"), encoding="utf-8", errors="replace") as log:
        return log.read()


@pytest.fixture(autouse=True)
def witnesses(sandbox):
    """Before the first job: the agent takes its environment from it."""
    sandbox.environment.update(BELAY_LOG="debug", BELAY_FAULT="agent.witness=error")


def watch(sandbox, programs, lines, interval, *options):
    """A thread writes to all of the memory all the time; a kill in the middle, and the same again after it."""
    program = programs.test_program("mem_dirty", "--mode", "hot", "--value", 8, "--steps", 100, "--seconds", 4, ranks=2)
    job = sandbox.run(program, interval=interval, options=options)
    job.wait_committed(lines // 2)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(max(lines, restored + 2), deadline_s=900)
    log = log_of(sandbox)
    job.finish()
    assert_recovered(job)
    assert "differs from a full copy" not in log
    assert log.count("its capture is what a full copy is") >= 2 * lines - 4, log[-2000:]
    assert newest_line(job.status()) >= lines


@pytest.mark.parametrize("policy,tracker", [
    pytest.param(policy, tracker, marks=() if (policy, tracker) in SHORT else pytest.mark.campaign)
    for policy in POLICIES for tracker in TRACKERS if (tracker, policy) not in [("full", "precopy"), ("full", "auto")]
])
def test_captures_are_full_copies(sandbox, programs, belay, policy, tracker):
    if not offered(belay, tracker):
        pytest.skip(f"{tracker} does not work here")
    watch(sandbox, programs, 8, "100ms", "--policy", policy, "--tracker", tracker)


@pytest.mark.campaign
@pytest.mark.parametrize("policy", POLICIES)
def test_a_thousand_captures(sandbox, programs, policy):
    watch(sandbox, programs, LINES, "20ms", "--policy", policy)


@pytest.mark.campaign
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name,mib,rounds", [("merge-sort", 8, 40), ("matrix", 8, 40), ("bubble-sort", 8, 2000),
                                             ("pattern-matching", 8, 100), ("travelling-salesman", 8, 14)])
def test_programs_of_papers(sandbox, programs, policy, name, mib, rounds):
    """Killed between two lines: the result of an undisturbed run."""
    job = sandbox.run(programs.concurrent(name, mib, rounds), interval="100ms", options=["--policy", policy], trace=False)
    job.wait_committed(2)
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= 2
    job.wait()
    assert_same_result(job)
    assert_restored(job, 1)
