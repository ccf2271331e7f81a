"""Captures of every policy are what a full copy at the same line is, page by page, under writers that never stop."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "captures"))

import watch  # noqa: E402
from belaytest import assert_restored, assert_same_result  # noqa: E402
from test_tracker import POLICIES, TRACKERS, offered  # noqa: E402

SHORT = [("cow", "pagemap_scan")]


@pytest.fixture
def armed(sandbox):
    """`offered` starts the agent already."""
    watch.arm(sandbox)


@pytest.mark.parametrize("policy,tracker", [
    pytest.param(policy, tracker, marks=() if (policy, tracker) in SHORT else pytest.mark.campaign)
    for policy in POLICIES for tracker in TRACKERS if (tracker, policy) not in [("full", "precopy"), ("full", "auto")]
])
@pytest.mark.usefixtures("armed")
def test_captures_are_full_copies(sandbox, programs, belay, policy, tracker):
    """A few of what tests/captures/run makes; with a kill in the middle."""
    if not offered(belay, tracker):
        pytest.skip(f"{tracker} does not work here")
    found = watch.watch(sandbox, programs, policy, "shared", 16, kill_every=10, tracker=tracker, mib=8)
    assert found.captures >= 16 and found.kills == 1 and not found.differing
    if policy in ("cow", "cll") and tracker == "pagemap_scan":
        assert found.guarded > 0


def test_ranks_that_write_to_ranks_that_still_stand(sandbox, programs):
    """A rank that runs again waits until its neighbour is captured as well: what it writes there is newer than the line."""
    found = watch.watch(sandbox, programs, "precopy", "others", 12, kill_every=8, mib=4)
    assert found.captures >= 12 and found.unseen > 0 and not found.differing


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
