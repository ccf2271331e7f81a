"""Ranks whose images no node has: they run while these are made again from parity (--restore demand)."""

import os
import signal

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import agent_of, homes, kill_node, on_nodes, run_with_agent, service_of
from test_demand import COME, LATE, LATER, loading, log_of, program

pytestmark = pytest.mark.usefixtures("restores_on_demand")

# Node 1 is lost, and the spare takes its place: it makes the image of rank 1 again of what nodes 0, 2 and 3 have.
MOVED, SPARE = 1, 4
SCHEMES = ["XOR", "RS:2+2"]


def with_parity(scheme, *more):
    return [*on_nodes(4), "--redundancy", scheme, "--spares", "1", "--restore", "demand", *more]


def lose_node(sandbox, job):
    """Returns the status then, and the newest line before."""
    job.wait_lines()
    line = job.status()["newest_line"]
    kill_node(sandbox, job, MOVED)
    status = job.wait_epoch(2)
    assert homes(status) == [0, SPARE, 2, 3]
    return status, line


def wait_made(sandbox, job, number=SPARE):
    """Of the moved rank's image: bytes, how many were there when the rank was, pages waited for."""
    job.wait_status(lambda _: COME.search(log_of(sandbox, number)), 60, "the image")
    rank, _, *figures = map(int, COME.search(log_of(sandbox, number)).groups())
    assert rank == MOVED
    return figures


def assert_goes_on(sandbox, job, status):
    """Further lines commit, and the result is right."""
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme, mode", [("XOR", "touch"), ("RS:2+2", "touch"), ("XOR", "threads"), ("RS:2+2", "calls"),
                                          ("XOR", "sizes"), ("RS:2+2", "maps")])
def test_a_rank_runs_while_its_image_is_made(sandbox, programs, scheme, mode):
    """It runs before a tenth of the image is there. Every page is what it was."""
    job = run_with_agent(sandbox, SPARE, LATE, program(programs, mode, seconds=20), options=with_parity(scheme))
    status, _ = lose_node(sandbox, job)
    size, first, waited = wait_made(sandbox, job)
    assert first < size / 10
    assert waited > 60
    assert_goes_on(sandbox, job, status)


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_node_that_makes_it_has_shares_itself(sandbox, programs, scheme):
    """Without a spare: a member of the set makes the image, of what it has and of what the others send."""
    job = run_with_agent(sandbox, 2, LATE, program(programs, seconds=20), options=[*on_nodes(4), "--redundancy", scheme, "--restore", "demand"])
    job.wait_lines()
    kill_node(sandbox, job, MOVED)
    status = job.wait_epoch(2)
    number = homes(status)[MOVED]
    assert number in (0, 2, 3)
    size, first, _ = wait_made(sandbox, job, number)
    assert number != 2 or first < size / 10
    assert_goes_on(sandbox, job, status)


@pytest.mark.campaign
def test_two_images_are_made_at_once(sandbox, programs):
    """Two nodes are lost, and two spares take their places: of each codeword all is needed that is left."""
    options = [*on_nodes(4), "--redundancy", "RS:2+2", "--spares", "2", "--restore", "demand"]
    job = run_with_agent(sandbox, SPARE, LATE, program(programs, seconds=20), options=options)
    job.wait_lines()
    kill_node(sandbox, job, 1, 2)
    status = job.wait_epoch(2)
    assert sorted(homes(status)) == [0, 3, 4, 5]
    job.wait_status(lambda _: all(COME.search(log_of(sandbox, number)) for number in (4, 5)), 60, "both images")
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", SCHEMES)
def test_heat(sandbox, programs, scheme):
    job = run_with_agent(sandbox, SPARE, LATER, programs.heat(side=1000, steps=2500), options=with_parity(scheme), trace=False)
    job.wait_committed(job.wait_committed(0) + 2)
    kill_node(sandbox, job, MOVED)
    status = job.wait_epoch(2)
    assert homes(status) == [0, SPARE, 2, 3]
    size, first, _ = wait_made(sandbox, job)
    assert first < size / 2
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts"] == 1
    sandbox.assert_clean()


@pytest.mark.campaign
def test_what_ranks_share_comes_first(sandbox, programs):
    """Shared mappings and pipes are whole before a rank runs on them: these images are made first, as with `eager`."""
    spare = 2
    job = run_with_agent(sandbox, spare, LATER, programs.test_program("kin", "--steps", 400, "--seconds", 4),
                         options=[*on_nodes(2), "--redundancy", "XOR", "--spares", "1", "--restore", "demand"])
    job.wait_lines()
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(2)
    assert homes(status) == [spare, spare, 1, 1]
    assert COME.search(log_of(sandbox, spare)) is None
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def wait_waiting(job):
    """Its rank waits for pages, and nothing else comes."""
    return job.wait_status(lambda status: (loading(status) or {}).get("faults", 0) > 0, 60, "a rank that has waited")


def assert_goes_on_again(job, line, number=None, agent=None):
    """In a later epoch, from this line or a newer one, with another agent of the node than this; with the undisturbed result."""
    status = job.wait_status(lambda status: status["epoch"] >= 3 and status["state"] == "running", 60, "the next launch")
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 2, 60)
    assert agent is None or agent_of(job, number) != agent
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0


@pytest.mark.campaign
@pytest.mark.parametrize("number, point", [
    (2, "agent.rebuild.lend"), (2, "agent.rebuild.give"),
    *((SPARE, f"agent.load.{point}") for point in ("ask", "taken", "write", "attach", "fault", "whole")),
])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_agent_dies_while_an_image_is_made(sandbox, programs, scheme, number, point):
    """The rank never runs on zeros: it waits, and is ended; the next epoch is opened with another agent."""
    job = run_with_agent(sandbox, number, f"{LATE},{point}=kill", program(programs, seconds=20), options=with_parity(scheme))
    job.wait_lines()
    agent = agent_of(job, number) if number != SPARE else None
    line = job.status()["newest_line"]
    kill_node(sandbox, job, MOVED)
    assert_goes_on_again(job, line, number, agent)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_rank_dies_while_its_image_is_made(sandbox, programs, scheme):
    """Its image is made once more, of the same line: no line was taken meanwhile."""
    job = run_with_agent(sandbox, SPARE, "agent.load.others=error", program(programs, seconds=20), options=with_parity(scheme))
    lose_node(sandbox, job)
    wait_waiting(job)
    newest = job.status()["newest_line"]
    job.kill_rank(MOVED)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == newest
    assert COME.search(log_of(sandbox, SPARE)) is None
    job.process.send_signal(signal.SIGTERM)
    job.wait()


@pytest.mark.campaign
@pytest.mark.parametrize("number", [2, SPARE])
def test_a_second_node_is_lost_meanwhile(sandbox, programs, number):
    """One that has shares, or the one that makes the image: RS:2+2 has enough for both images."""
    job = run_with_agent(sandbox, SPARE, "agent.load.others=error", program(programs, seconds=20), options=with_parity("RS:2+2"))
    _, line = lose_node(sandbox, job)
    wait_waiting(job)
    kill_node(sandbox, job, number)
    status = job.wait_epoch(3)
    assert number not in homes(status)
    if number == SPARE:
        assert_goes_on_again(job, line)
        sandbox.assert_clean()
    else:  # the spare still asks for nothing but what its rank waits for
        assert status["history"][-1]["restored_line"] >= line
        job.process.send_signal(signal.SIGTERM)
        job.wait()


@pytest.mark.campaign
def test_more_is_lost_than_parity_allows(sandbox, programs):
    """The job ends, and says so. The rank has not gone on without its image."""
    job = run_with_agent(sandbox, SPARE, "agent.load.others=error", program(programs, seconds=20), options=with_parity("XOR"))
    lose_node(sandbox, job)
    wait_waiting(job)
    for pid in service_of(sandbox, 2):
        os.kill(pid, signal.SIGKILL)
    assert job.wait() != 0
    assert "lost" in job.errors
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_false_share_is_left_out(sandbox, programs):
    """A node's shares are not what they should be: none of it is seen by the rank, and the image is made without that node."""
    job = run_with_agent(sandbox, 2, "agent.rebuild.give=error", program(programs, seconds=20), options=with_parity("RS:2+2"))
    status, _ = lose_node(sandbox, job)
    wait_made(sandbox, job)
    assert "it is made without what position 2 of the set has" in job.errors
    assert_goes_on(sandbox, job, status)


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", SCHEMES)
def test_damaged_pages_end_the_rank(sandbox, programs, scheme):
    """They differ from their sums, whatever is left out: nothing of them is seen by the rank, which is ended, each time."""
    job = run_with_agent(sandbox, SPARE, "agent.load.taken=error", program(programs, seconds=20), options=with_parity(scheme))
    job.wait_lines()
    kill_node(sandbox, job, MOVED)
    assert job.wait() != 0, job.errors
    assert "cannot be made again from parity as it runs: what has come at address" in job.errors
    sandbox.assert_clean()


@pytest.mark.campaign
def test_what_was_written_lately_comes_first(sandbox, programs):
    """The node that has the tables knows it, as the tables of each line tell what has changed."""
    job = run_with_agent(sandbox, SPARE, "agent.load.rest=error", program(programs, "again", seconds=20), options=with_parity("XOR"))
    lose_node(sandbox, job)
    status = job.wait_status(lambda status: loading(status) and 0 < loading(status)["touched_bytes"] ==
                             loading(status)["touched_here_bytes"], 60, "the touched set")
    assert loading(status)["here_bytes"] < loading(status)["bytes"]
    job.process.send_signal(signal.SIGTERM)
    job.wait()
