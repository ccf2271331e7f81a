"""A whole node is lost at each named fault point (docs/faults.md) of a line, of opening an epoch, and of a restart under way:
the job goes on from a line that was committed, with new processes, and ends with the undisturbed output."""

import pytest

from belaytest import assert_same_result
from node_losses import CODES, LEFT_OUT, OF_THE_FOLD, POINTS, Loss, documented_points

BY_DEFAULT = {("agent.commit.recorded", 0)}


def cases():
    return [pytest.param(point, number, marks=[] if (point, number) in BY_DEFAULT else [pytest.mark.campaign])
            for point, (_, way) in POINTS.items() for number in way.targets]


def test_all_points_are_here():
    """Each one that is documented is in the table, or it is told why not."""
    assert sorted([*POINTS, *LEFT_OUT]) == sorted(documented_points())


def lose_a_node(sandbox, programs, point, number, code=None):
    loss = Loss(sandbox, programs, point, number, code)
    stopped = loss.reach_point()
    loss.lose(stopped)
    status = loss.wait_back()
    job = loss.job
    last = status["history"][-1]
    assert f"node {loss.number} was lost" in job.errors or f"node {loss.number}, a spare, was lost" in job.errors
    if loss.way.begins_anew:
        assert last["restored_line"] == 0
    else:
        assert last["restored_line"] >= max(loss.line, 1) and status["restarts_from_start"] == 0
    assert not loss.processes & set(job.pids[status["epoch"]].values())
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.limit(180)
@pytest.mark.parametrize("point, number", cases())
def test_a_node_is_lost(sandbox, programs, point, number):
    lose_a_node(sandbox, programs, point, number)


@pytest.mark.campaign
@pytest.mark.limit(180)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("point", OF_THE_FOLD)
def test_a_node_is_lost_amid_parity(sandbox, programs, point, number, code):
    """A home and a holder at once: what is folded there is gone, and the line is whole elsewhere, or it is not gone on from."""
    lose_a_node(sandbox, programs, point, number, code)
