"""Parity over sets of nodes: lines, the loss of nodes, images that are made again (docs/parity.md)."""

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, node_of, on_nodes, workload


def with_parity(count, scheme):
    return [*on_nodes(count), "--redundancy", scheme]


def lose(job, sandbox, *numbers):
    """Kill these nodes at once; the job goes on, and a line commits. Returns the line that was gone on from."""
    epoch = len(job.status()["history"])
    before = job.status()["newest_line"]
    kill_node(sandbox, job, *numbers)
    status = job.wait_epoch(epoch + 1)
    restored = status["history"][-1]["restored_line"]
    assert restored >= before > 0
    assert status["history"][-1]["fetch_ms"] > 0  # made again: there are no copies
    assert not {node_of(status, rank) for rank in range(4)} & set(numbers)
    job.wait_committed(restored + 1)
    return restored


@pytest.mark.parametrize("number", [0, 3])
def test_xor_survives_the_loss_of_a_node(sandbox, programs, number):
    """No node has a copy of the lost image: it is made again from the others'."""
    job = sandbox.run(workload(programs), options=with_parity(4, "XOR"))
    job.wait_lines()
    lose(job, sandbox, number)
    job.finish()
    assert f"node {number} was lost" in job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_rs_survives_two_losses_at_once(sandbox, programs):
    job = sandbox.run(workload(programs), options=with_parity(4, "RS:2+2"))
    job.wait_lines()
    lose(job, sandbox, 1, 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()
