"""Nodes that were lost and are there again, with empty memory: they join the running job as spares."""

import random

import pytest

from belaytest import assert_restored, assert_same_result
from nodes import homes, kill_node, on_nodes, states, wait_back, wait_said, workload

KILLS = 20


def test_a_lost_node_comes_back(sandbox, programs):
    """As a spare; the epoch after the next loss has it, and copies again."""
    job = sandbox.run(workload(programs, seconds=8), options=[*on_nodes(2), "--comeback", "300ms"])
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 0, 0]
    wait_said(job, "node 1 is there again: it is a spare")
    status = job.status()
    assert states(status) == ["member", "spare"] and status["epoch"] == 2
    job.wait_committed(status["newest_line"] + 1)
    line = job.status()["newest_line"]
    job.kill_rank(2)
    status = job.wait_epoch(3)
    assert states(status) == ["member", "member"] and homes(status) == [0, 0, 1, 1]
    assert status["history"][-1]["restored_line"] >= line
    wait_back(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 0)
    assert homes(job.wait_epoch(4)) == [1, 1, 1, 1]
    job.finish()
    assert_same_result(job)
    assert_restored(job, 3)
    sandbox.assert_clean()


def test_it_is_not_looked_for(sandbox, programs):
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--comeback", "0"])
    job.wait_lines()
    kill_node(sandbox, job, 1)
    job.wait_epoch(2)
    job.wait_committed(job.status()["newest_line"] + 4)
    assert states(job.status()) == ["member", "lost"]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_a_node_is_lost_again_when_it_is_back(sandbox, programs):
    """The job does not notice, and looks for it once more."""
    job = sandbox.run(workload(programs, seconds=8), options=[*on_nodes(2), "--comeback", "300ms"])
    job.wait_lines()
    kill_node(sandbox, job, 1)
    job.wait_epoch(2)
    wait_said(job, "node 1 is there again")
    kill_node(sandbox, job, 1)
    wait_said(job, "the agent of node 1, a spare, has gone")
    assert job.status()["epoch"] == 2
    job.kill_rank(0)
    job.wait_epoch(3)
    job.wait_status(lambda status: states(status) == ["member", "spare"], 30, "node 1")
    assert job.errors.count("node 1 is there again") == 2
    job.finish()
    assert_same_result(job)
    assert_restored(job, 2)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_line_is_asked_for_beside_a_spare(sandbox, programs):
    """Its agent has no epoch, and is asked before that of the coordinator: it says that it is not the one."""
    job = sandbox.run(workload(programs, seconds=20), options=[*on_nodes(3), "--comeback", "300ms", "--max-restarts", "20"])
    job.wait_lines()
    while True:
        status = job.status()
        kill_node(sandbox, job, 1)
        job.wait_epoch(status["epoch"] + 1)
        status = job.wait_status(lambda status: states(status) == ["member", "spare", "member"], 30, "node 1")
        if status["nodes"][2]["is_coordinator"]:
            break
        job.wait_committed(status["newest_line"] + 1)
        job.kill_and_recover()
        wait_back(job, job.status()["newest_line"])
    assert sandbox.belay("checkpoint", "job").returncode == 0
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def kill_in_a_row(sandbox, programs, options, seconds=30, at_once=1, is_copied=True):
    """Nodes that chance chooses, so many at once; all are back as spares before the next kill."""
    job = sandbox.run(workload(programs, seconds=seconds), interval="150ms",
                      options=[*options, "--comeback", "100ms", "--max-restarts", "100"])
    dice = random.Random(job.seed)
    job.wait_lines()
    for kill in range(KILLS):
        status = wait_back(job, job.status()["history"][-1]["restored_line"], is_copied=is_copied)
        members = [node["number"] for node in status["nodes"] if node["state"] == "member" and node["number"]]
        numbers = dice.sample(members, at_once)
        print(f"kill {kill}: nodes {numbers} of epoch {status['epoch']}, seed {job.seed}")
        kill_node(sandbox, job, *numbers)
        after = job.wait_epoch(status["epoch"] + 1)
        assert after["history"][-1]["restored_line"] >= status["newest_line"]
    job.finish()
    assert_same_result(job)
    return job


@pytest.mark.limit(300)
def test_twenty_kills(sandbox, programs):
    job = kill_in_a_row(sandbox, programs, [*on_nodes(3), "--spares", "1"])
    assert_restored(job, KILLS)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.limit(900)
@pytest.mark.parametrize("code, at_once", [("XOR", 1), ("RS:2+2", 1), ("RS:2+2", 2)])
def test_twenty_kills_under_parity(sandbox, programs, code, at_once):
    """Each time lost images are made again, and the next set's first line makes parity anew."""
    kill_in_a_row(sandbox, programs, [*on_nodes(4), "--spares", str(at_once), "--redundancy", code], 10, at_once, False)
    sandbox.assert_clean()


def test_ranks_that_share_memory_stay_together(sandbox, programs):
    """A node that is back gets its part of the ranks, and none of those whose memory is on their node alone."""
    program = programs.test_program("shm_pair", "--steps", 800, "--seconds", 8, "--rank", 4, ranks=6)
    job = sandbox.run(program, options=[*on_nodes(3), "--comeback", "300ms"])
    job.wait_lines()
    assert homes(job.status()) == [0, 0, 1, 1, 2, 2]
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert sorted(homes(status)) == [0, 0, 0, 2, 2, 2] and homes(status)[4:] == [2, 2]
    wait_said(job, "node 1 is there again: it is a spare")
    job.wait_committed(job.status()["newest_line"] + 1)
    job.kill_rank(0)
    status = job.wait_epoch(3)
    assert homes(status)[4:] == [2, 2] and sorted(homes(status)) == [0, 0, 1, 2, 2, 2]
    job.finish()
    assert_same_result(job)
    assert_restored(job, 2)
    sandbox.assert_clean()
