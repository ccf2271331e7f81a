"""A node that holds another image than was committed, all of whose sums fit: no rank ever goes on from it."""

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, node_of, on_nodes, run_with_agent, wait_said, workload


def start(sandbox, programs, number, fault):
    """On three nodes, node 0 has ranks 0 and 1, and node 1 their copies."""
    job = run_with_agent(sandbox, number, fault, workload(programs), options=on_nodes(3))
    job.wait_lines()
    assert [node_of(job.status(), rank) for rank in range(4)] == [0, 0, 1, 2]
    return job


@pytest.mark.parametrize("number", [0, 1])
def test_another_image_is_left_aside(sandbox, programs, number):
    """Of the node that runs the rank, or of the one with the copy: the job goes on from the other one's."""
    job = start(sandbox, programs, number, "agent.image.root@0=error")
    line = job.status()["newest_line"]
    job.kill_rank(3)
    status = job.wait_epoch(2)
    restored = status["history"][-1]["restored_line"]
    assert restored >= line >= 1
    wait_said(job, f"what node {number} holds of rank 0 is not what was committed, and is not used")
    job.wait_committed(restored + 2)
    assert all(len(row["holders"]) == 2 for node in job.status()["nodes"] for row in node["ranks"])
    job.finish()
    assert job.errors.count("is not what was committed") == 1, job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_the_only_copy_is_another_image(sandbox, programs):
    """The sum that was committed tells that it is; nothing is restored."""
    job = start(sandbox, programs, 1, "agent.image.root@0=error")
    kill_node(sandbox, job, 0)
    assert job.wait() == 66, job.errors
    wait_said(job, "the images of its newest line that are left are not those that were committed")
    assert len(job.status()["history"]) == 1
    sandbox.belay("clean", "job")
    sandbox.assert_clean()


def test_another_image_is_sent(sandbox, programs):
    """The node that fetches refuses it, and the arbiter asks nobody for it again."""
    job = start(sandbox, programs, 1, "agent.fetch.send@1=error")
    kill_node(sandbox, job, 0)
    assert job.wait() == 66, job.errors
    wait_said(job, "the image of rank 1 cannot be fetched from node 1: what has come is another image")
    wait_said(job, "what node 1 holds of rank 1 is not what was committed, and is not used")
    wait_said(job, "no node holds the images of rank 1 any more")
    sandbox.belay("clean", "job")
    sandbox.assert_clean()


def test_a_copy_that_is_another_image_is_no_copy(sandbox, programs):
    """The line is not protected, and aborts; the next one is taken."""
    job = run_with_agent(sandbox, 1, "agent.mirror.taken@0#2=error", workload(programs, seconds=4), options=on_nodes(3))
    job.wait_committed(3)
    lines = {line["line"]: line for epoch in job.status()["history"] for line in epoch.get("lines", [])}
    job.finish()
    assert "rank 0 cannot be copied to node 1: what it holds is another image" in str(lines) + job.errors, lines
    assert_same_result(job)
    sandbox.assert_clean()
