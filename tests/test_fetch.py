"""Ranks of a lost node that go on where their images are not: the images are fetched, and what goes wrong meanwhile."""

import os
import signal

import pytest

import traces
from belaytest import assert_recovered, assert_same_result
from nodes import agent_of, homes, is_held_twice, kill_node, node_of, on_nodes, run_with_agent, service_of, wait_said, workload
from waiting import wait_for

# On three nodes, node 0 has two of the four ranks, and node 1 their copies: once node 0 is lost, node 2 fetches rank 1.
BEFORE, AFTER = [0, 0, 1, 2], [1, 2, 1, 2]


def lose_first_node(sandbox, job):
    """Returns the newest line before."""
    job.wait_lines()
    status = job.status()
    assert homes(status) == BEFORE
    kill_node(sandbox, job, 0)
    return status["newest_line"]


def assert_goes_on(sandbox, job, status, restarts):
    """Further lines are held twice, and the result is right."""
    restored = status["history"][-1]["restored_line"]
    job.wait_committed(restored + 2)
    assert is_held_twice(job.status())
    job.finish()
    assert_recovered(job, restarts)
    sandbox.assert_clean()


@pytest.mark.parametrize("name", ["ring", "collmix"])
def test_ranks_of_a_lost_node_are_spread(sandbox, programs, name):
    """No node has more of them than necessary: one goes where its copy is, the other's image is fetched."""
    job = sandbox.run(workload(programs, name), options=on_nodes(3))
    line = lose_first_node(sandbox, job)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    first, last = status["history"]
    assert first["fetch_ms"] == 0 and 0 < last["fetch_ms"] < 60000 and last["restored_line"] >= line
    assert_goes_on(sandbox, job, status, 1)


def test_a_rank_is_killed_after_its_image_was_fetched(sandbox, programs):
    """What was fetched is an image as any other: nothing is fetched again."""
    job = sandbox.run(workload(programs, seconds=6), interval=None, options=on_nodes(3))
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 0)
    job.wait_epoch(2)
    job.kill_rank(1)
    status = job.wait_epoch(3)
    assert homes(status) == AFTER
    assert [epoch["fetch_ms"] > 0 for epoch in status["history"]] == [False, True, False]
    assert [epoch["restored_line"] for epoch in status["history"]] == [0, 1, 1]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("number, point", [
    (1, "agent.fetch.send"),
    (2, "agent.fetch.ask"),
    (2, "agent.fetch.taken"),
    (2, "agent.fetch.kept"),
])
def test_an_agent_dies_while_an_image_is_fetched(sandbox, programs, number, point):
    """Its keeper has what it held: the next epoch is opened with another agent."""
    job = run_with_agent(sandbox, number, f"{point}=kill", workload(programs, seconds=6), options=on_nodes(3))
    job.wait_lines()
    agent = agent_of(job, number)
    line = lose_first_node(sandbox, job)
    status = job.wait_status(lambda status: status["epoch"] >= 3 and status["state"] == "running", 60, "the next launch")
    assert agent_of(job, number) != agent
    assert homes(status) == AFTER
    assert [node["state"] for node in status["nodes"]] == ["lost", "member", "member"]
    assert status["history"][-1]["restored_line"] >= line
    assert f"the agent of node {number} was lost while an epoch was opened" in job.errors or \
        number == 1 and "cannot be fetched from node 1: the link to it is lost" in job.errors
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


def test_another_node_is_lost_while_an_image_is_fetched(sandbox, programs):
    """Node 1 lends to node 3, and node 2 is lost meanwhile, whose copies node 3 has."""
    job = run_with_agent(sandbox, 1, "agent.fetch.send=stop", workload(programs, seconds=6, ranks=5), options=on_nodes(4))
    job.wait_lines()
    status = job.status()
    assert homes(status) == [0, 0, 1, 2, 3]
    agent = agent_of(job, 1)
    kill_node(sandbox, job, 0)
    wait_for(lambda: traces.is_stopped(agent), 30, "the point")
    for pid in service_of(sandbox, 2):
        os.kill(pid, signal.SIGKILL)
    os.kill(agent, signal.SIGCONT)
    wait_for(lambda: job.status() and job.status()["epoch"] >= 3, 60, "the next epoch")
    while traces.is_stopped(agent):
        os.kill(agent, signal.SIGCONT)
    status = job.wait_status(lambda status: status["epoch"] >= 3 and status["state"] == "running", 60, "the next launch")
    assert set(homes(status)) == {1, 3}
    assert [node["state"] for node in status["nodes"]] == ["lost", "member", "lost", "member"]
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_a_damaged_image_is_not_gone_on_from(sandbox, programs):
    """It differs from its sums as it comes; the job is held, and goes on with an agent that gets it whole."""
    job = run_with_agent(sandbox, 2, "agent.fetch.taken=error", workload(programs, seconds=6), options=on_nodes(3))
    job.wait_lines()
    agent = agent_of(job, 2)
    line = lose_first_node(sandbox, job)
    assert job.wait() == 69, job.errors
    assert "the image of rank 1 cannot be fetched from node 1" in job.errors, job.errors
    assert "3 restarts are used up" in job.errors
    os.kill(agent, signal.SIGKILL)
    job.restart()
    status = job.wait_status(lambda status: status["state"] == "running" and status["epoch"] > 2, 60, "the next launch")
    assert homes(status) == AFTER
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_lender_that_dies_before_its_link_has_joined(sandbox, programs):
    """The node that fetches hears of it from `belay run`, which sees the connection's end, and not after 30 s of silence."""
    job = run_with_agent(sandbox, 1, "agent.epoch.told#2=kill", workload(programs, seconds=6), options=on_nodes(3))
    job.wait_lines()
    lose_first_node(sandbox, job)
    job.wait_epoch(3, 60)
    assert "the agent of node 1 was lost while an epoch was opened" in job.errors, job.errors
    with open(os.path.join(sandbox.rundir, "node-2", "agent.log"), encoding="utf-8") as log:
        assert "the agent of node 1 is gone, as its arbiter has seen" in log.read()
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_the_node_that_lends_is_lost(sandbox, programs):
    """Nobody else has the image: the end of the job says so."""
    job = run_with_agent(sandbox, 1, "agent.fetch.send=stop", workload(programs, seconds=6), options=on_nodes(3))
    job.wait_lines()
    agent, service = agent_of(job, 1), service_of(sandbox, 1)
    lose_first_node(sandbox, job)
    wait_for(lambda: traces.is_stopped(agent), 30, "the point")
    for pid in service:
        os.kill(pid, signal.SIGKILL)
    assert job.wait() == 66, job.errors
    wait_said(job, "no node holds the images of ranks 0-1")
    sandbox.assert_clean()
