"""Hosts that were lost and are there again, with empty memory: they join the running job as spares."""

import random

import pytest

from belaytest import assert_same_result
from nodes import homes, states, wait_back
from test_hosts import workload
from waiting import wait_for

pytestmark = pytest.mark.hosts("a", "b", "c")

KILLS = 20


def test_a_lost_host_comes_back(sandbox, programs, hosts):
    """Its relay is started again, and it is a spare; the epoch after the next loss has it."""
    job = sandbox.run(workload(programs, seconds=20), hosts="a:2,b:2", options=["--comeback", "500ms"])
    job.wait_lines()
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 0, 0] and states(status) == ["member", "lost"]
    hosts.boot("b")
    status = job.wait_status(lambda status: states(status) == ["member", "spare"], 60, "host b")
    assert status["epoch"] == 2
    line = job.wait_committed(status["newest_line"] + 1)
    job.kill_rank_on("a", 0)
    status = job.wait_epoch(3, 60)
    assert homes(status) == [0, 0, 1, 1] and states(status) == ["member", "member"] and status["history"][-1]["restored_line"] >= line
    wait_back(job, status["history"][-1]["restored_line"], 90)
    job.finish()
    assert_same_result(job)
    assert [entry["epoch"] for entry in job.status()["history"]] == [1, 2, 3]


@pytest.mark.limit(600)
@pytest.mark.campaign
def test_twenty_crashes(sandbox, programs, hosts):
    """In a row, of hosts that chance chooses; each is back as a spare before the next crash."""
    job = sandbox.run(workload(programs, seconds=60), hosts="a:2,b:1,c:1",
                      options=["--comeback", "300ms", "--max-restarts", "100"])
    dice = random.Random(job.seed)
    job.wait_lines()
    for crash in range(KILLS):
        status = wait_back(job, job.status()["history"][-1]["restored_line"], 90)
        number = dice.choice([node["number"] for node in status["nodes"] if node["state"] == "member" and node["number"]])
        name = "abc"[number]
        print(f"crash {crash}: host {name} of epoch {status['epoch']}, seed {job.seed}")
        hosts.crash(name)
        wait_for(lambda name=name: f"host {name} is lost" in job.errors, 60, f"the loss of {name}")
        hosts.boot(name)
        after = job.wait_epoch(status["epoch"] + 1, 90)
        assert after["history"][-1]["restored_line"] >= status["newest_line"]
    job.finish()
    assert_same_result(job)
    status = job.status()
    assert status["restarts"] >= KILLS and status["restarts_from_start"] == 0
