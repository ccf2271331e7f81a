"""Nodes without ranks that stand by: one takes the place of a node that is lost."""

import os
import signal

import pytest

import traces
from belaytest import assert_recovered, assert_same_result
from nodes import agent_of, homes, is_held_twice, kill_node, on_nodes, run_with_agent, service_of, states, wait_said, workload
from waiting import wait_for


def with_spares(nodes, spares):
    return [*on_nodes(nodes), "--spares", str(spares)]


def wait_copied(job, line):
    """A line after this one is held twice."""
    job.wait_status(lambda status: status["newest_line"] > line and is_held_twice(status), 30, "copies")


@pytest.mark.parametrize("number, expected", [(0, [2, 2, 1, 1]), (1, [0, 0, 2, 2])])
def test_a_spare_takes_the_place_of_a_lost_node(sandbox, programs, number, expected):
    """All of its ranks: it fetches their images, and the others stay where they are. It holds copies then."""
    job = sandbox.run(workload(programs), options=with_spares(2, 1))
    job.wait_lines()
    before = job.status()
    assert states(before) == ["member", "member", "spare"]
    assert [len(node["ranks"]) for node in before["nodes"]] == [2, 2, 0]
    kill_node(sandbox, job, number)
    status = job.wait_epoch(2)
    assert homes(status) == expected
    assert states(status) == ["lost" if i == number else "member" for i in range(3)]
    assert status["history"][-1]["restored_line"] >= before["newest_line"]
    assert status["history"][-1]["fetch_ms"] > 0
    wait_copied(job, status["history"][-1]["restored_line"])
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_more_losses_than_spares(sandbox, programs):
    """One after the other; the last ones go on without."""
    job = sandbox.run(workload(programs, "collmix", seconds=8), options=with_spares(2, 2))
    job.wait_lines()
    for epoch, (number, expected) in enumerate([(1, [0, 0, 2, 2]), (0, [3, 3, 2, 2]), (2, [3, 3, 3, 3])], 2):
        kill_node(sandbox, job, number)
        status = job.wait_epoch(epoch)
        assert homes(status) == expected
        if epoch < 4:
            wait_copied(job, status["history"][-1]["restored_line"])
    assert states(status) == ["lost", "lost", "lost", "member"]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_the_agent_of_a_spare_is_killed(sandbox, programs):
    """The job does not notice; before the next epoch the spare has another agent."""
    job = sandbox.run(workload(programs, seconds=6), options=with_spares(2, 1))
    job.wait_lines()
    os.kill(agent_of(job, 2), signal.SIGKILL)
    wait_said(job, "the agent of node 2, a spare, has gone")
    job.wait_committed(job.status()["newest_line"] + 1)
    assert job.status()["epoch"] == 1
    job.kill_rank(1)
    status = job.wait_epoch(2)
    assert states(status) == ["member", "member", "spare"] and homes(status) == [0, 0, 1, 1]
    wait_copied(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 1)
    assert homes(job.wait_epoch(3)) == [0, 0, 2, 2]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_a_spare_is_lost(sandbox, programs):
    """Nothing was there; the next loss is made good without it."""
    job = sandbox.run(workload(programs, seconds=6), options=with_spares(2, 1))
    job.wait_lines()
    for pid in service_of(sandbox, 2):
        os.kill(pid, signal.SIGKILL)
    wait_said(job, "the agent of node 2, a spare, has gone")
    job.wait_committed(job.status()["newest_line"] + 1)
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 0, 0]
    assert "node 2, a spare, was lost" in job.errors
    assert status["history"][-1]["reason"] == "node 1 was lost"
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_a_spare_is_lost_while_it_fetches(sandbox, programs):
    """The images are where they were."""
    job = run_with_agent(sandbox, 2, "agent.fetch.taken=stop", workload(programs, seconds=6), options=with_spares(2, 1))
    job.wait_lines()
    line = job.status()["newest_line"]
    agent, service = agent_of(job, 2), service_of(sandbox, 2)
    kill_node(sandbox, job, 1)
    wait_for(lambda: traces.is_stopped(agent), 30, "the point")
    for pid in service:
        os.kill(pid, signal.SIGKILL)
    status = job.wait_status(lambda status: status["epoch"] >= 3 and status["state"] == "running", 60, "the next launch")
    assert homes(status) == [0, 0, 0, 0]
    assert states(status) == ["member", "lost", "lost"]
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_a_restart_has_the_spares_again(sandbox, programs):
    job = sandbox.run(workload(programs, seconds=6), options=[*with_spares(2, 1), "--max-restarts", "0"])
    job.wait_lines()
    job.kill_rank(2)
    assert job.wait() == 75
    refused = sandbox.belay("restart", "job", "--spares", "2")
    assert refused.returncode == 64 and "which a restart cannot change" in refused.stderr, refused.stderr
    job.restart(options=["--max-restarts", "3"])
    status = job.wait_epoch(2)
    assert states(status) == ["member", "member", "spare"] and homes(status) == [0, 0, 1, 1]
    wait_copied(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(3)
    assert homes(status) == [2, 2, 1, 1]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("changes_files, ends", [(False, "held"), pytest.param(True, "held", marks=pytest.mark.campaign),
                                                 pytest.param(True, "as usual", marks=pytest.mark.campaign)])
def test_a_spare_leaves_files_to_others(sandbox, programs, changes_files, ends):
    """It has another agent, which knows of no line, and soon the job is over: where others keep files is not the spare's."""
    options = ["--halt-after-lines", "4"] if ends == "held" else []
    job = sandbox.run(workload(programs), options=[*with_spares(2, 1), *options], trace=changes_files)
    job.wait_lines()
    os.kill(agent_of(job, 2), signal.SIGKILL)
    wait_said(job, "the agent of node 2, a spare, has gone")
    job.kill_rank(1)
    if ends == "held":
        assert job.wait() == 82
        job.restart()
        assert job.wait_epoch(3)["history"][-1]["restored_line"] >= 4
    else:
        assert states(job.wait_epoch(2)) == ["member", "member", "spare"]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_spares_count_for_min_nodes(sandbox, programs):
    """With a spare in the place of the lost node there are as many nodes as before."""
    job = sandbox.run(workload(programs), options=[*with_spares(2, 1), "--min-nodes", "2"])
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 2, 2]
    wait_copied(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 0)
    assert job.wait() == 75
    assert "1 node is left, and --min-nodes is 2: the job is held" in job.errors
    sandbox.assert_clean()


@pytest.mark.parametrize("options, words", [
    (["--spares", "1"], "--spares 1 is for a job on several nodes"),
    (["--nodes", "1", "--local", "--spares", "1"], "--spares 1 is for a job on several nodes"),
    (["--nodes", "2", "--local", "--spares", "1", "--redundancy", "SINGLE"], "--spares 1 is for --redundancy PARTNER"),
    (["--nodes", "2", "--local", "--spares", "1", "--min-nodes", "3"], "--min-nodes 3: the job has 2 nodes"),
    (["--nodes", "2", "--local", "--spares", "x"], "'x' is not a whole number"),
])
def test_wrong_use(sandbox, options, words):
    done = sandbox.belay("run", *options, "--", "mpirun", "true")
    assert done.returncode == 64 and words in done.stderr, done.stderr


def test_ranks_go_on_where_the_processors_are_alike(sandbox, programs):
    """Node 1 has other processors: when node 0 is lost, its ranks go to the spare, and the second loss of this kind holds the job."""
    job = run_with_agent(sandbox, 1, "agent.processor=error", workload(programs, seconds=6), options=with_spares(2, 1))
    job.wait_lines()
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(2)
    assert homes(status) == [2, 2, 1, 1]
    wait_copied(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 2)
    assert job.wait() != 0
    assert "no node that is left has processors like those of a lost node" in job.errors, job.errors
    assert "node 1 holds the images of ranks 0-3" in job.errors
