"""What agents of several nodes say to each other is lost, late, out of order, or comes twice; links that are cut."""

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import homes, on_nodes, run_with_agent, states, workload

ALL = "fabric.loss%2=error,fabric.late%5:1=error,fabric.twice%10:2=error,fabric.frame%1:3=error,fabric.chunk%2=error"


@pytest.mark.limit(200)
@pytest.mark.parametrize("fault", [
    pytest.param("fabric.loss%3=error", id="loss", marks=pytest.mark.campaign),
    pytest.param("fabric.late%10=error", id="late", marks=pytest.mark.campaign),
    pytest.param("fabric.twice%50=error", id="twice"),
    pytest.param(ALL, id="all", marks=pytest.mark.campaign),
])
def test_disturbed_frames(sandbox, programs, fault):
    job = sandbox.run(programs.heat(side=256, steps=12000, ranks=4), options=on_nodes(3), trace=False, BELAY_FAULT=fault)
    job.wait_committed(1)
    job.kill_rank(1)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= 1
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.limit(200)
@pytest.mark.parametrize("number, other, left_out, scheme", [
    (1, 2, 2, "PARTNER"),
    pytest.param(0, 1, 1, "PARTNER", marks=pytest.mark.campaign),
    pytest.param(1, 2, 2, "XOR", marks=pytest.mark.campaign),
])
def test_nodes_that_do_not_reach_each_other(sandbox, programs, number, other, left_out, scheme):
    """Both reach belay run. The launch is begun again once; then one of the two is left out, as if it were lost."""
    job = run_with_agent(sandbox, number, f"fabric.loss@{other}#150+=error", workload(programs, seconds=20),
                         options=[*on_nodes(3), "--comeback", "0", "--redundancy", scheme])
    job.wait_lines(1)
    status = job.wait_epoch(3)
    assert f"the job goes on without node {left_out}" in job.errors
    assert states(status) == ["lost" if node == left_out else "member" for node in range(3)]
    assert left_out not in homes(status)
    assert status["history"][-1]["restored_line"] >= 1 and status["restarts_from_start"] == 0
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_same_result(job)
    assert job.status()["epoch"] == 3
    sandbox.assert_clean()
