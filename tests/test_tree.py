"""A job on four local nodes, or hosts, whose agents are a tree of three levels: words are merged, orders handed on."""

import os

import pytest

from belaytest import assert_recovered, newest_line
from nodes import homes, kill_node, node_of, on_nodes, workload

TREE = [*on_nodes(4), "--fan-out", "2"]
PLACES = ["root", "branch", "leaf below", "leaf"]


def nodes_of_tree(status):
    """By place: the coordinator's node, its child that has a child, that one, and the other child."""
    root = next(node["number"] for node in status["nodes"] if node["is_coordinator"])
    return [(root + i) % 4 for i in range(4)]


def log_of(sandbox, number):
    folder = os.path.join(sandbox.rundir, f"node-{number}") if number else sandbox.rundir
    with open(os.path.join(folder, "agent.log"), encoding="utf-8") as log:
        return log.read()


@pytest.mark.parametrize("name", ["ring", "collmix"])
@pytest.mark.parametrize("place", PLACES)
def test_a_node_of_the_tree_is_killed(sandbox, programs, name, place):
    job = sandbox.run(workload(programs, name), options=TREE)
    job.wait_lines()
    before = job.status()
    nodes = nodes_of_tree(before)
    for number, others in zip(nodes, [3, 1, 0, 0]):
        said = f"in the tree of epoch 1 this node speaks for {others} other nodes"
        assert (said in log_of(sandbox, number)) == (others > 0)
    lost = nodes[PLACES.index(place)]
    kill_node(sandbox, job, lost)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= before["newest_line"] > 0
    assert status["history"][-1]["lost_nodes"] == [lost]
    assert all(node_of(status, rank) != lost for rank in range(4))
    job.wait_status(lambda status: status["newest_line"] > before["newest_line"] + 1, 30, "lines after the loss")
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.hosts("a", "b", "c", "d")
def test_a_host_of_the_tree_is_lost(sandbox, programs, hosts):
    """With leases, which hosts have always."""
    job = sandbox.run(workload(programs, "collmix"), hosts="a:1,b:1,c:1,d:1", options=["--fan-out", "2"])
    job.wait_lines()
    before = job.status()
    nodes = nodes_of_tree(before)
    lost = next(number for number in nodes[1:] if number)  # not the host of belay run
    for number, others in zip(nodes, [3, 1, 0, 0]):
        said = f"in the tree of epoch 1 this node speaks for {others} other nodes"
        logs = [path for path in hosts.files("abcd"[number], "/run/belay") if path.endswith("agent.log")]
        assert any(said in hosts.read("abcd"[number], path) for path in logs) == (others > 0)
    hosts.crash("abcd"[lost])
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= newest_line(before) > 0
    assert lost not in homes(status)
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_recovered(job, 1)
