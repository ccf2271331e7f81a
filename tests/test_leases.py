"""Leases on local nodes (`--lease`): what of tests/test_fencing.py needs no hosts, and so no root."""

import dataclasses
import os
import signal
import subprocess
import tempfile
import time

import pytest

import traces
from belaytest import assert_recovered, assert_same_result, newest_line
from nodes import agent_of, kill_node, on_nodes, wait_said, workload
from waiting import wait_for
from witness import Witness

LEASED = [*on_nodes(2), "--lease", "3s"]


@pytest.fixture(name="witness")
def made_witness():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        seen = Witness(folder)
        yield seen
        seen.close()


def test_a_rank_is_killed(sandbox, programs):
    job = sandbox.run(workload(programs), options=LEASED)
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job, 1)


def test_a_lost_node_costs_the_rest_of_its_lease(sandbox, programs, witness):
    """Nobody has seen the end of all its ranks."""
    program = programs.test_program("apart", "--steps", 2000, "--seconds", 20, "--mode", witness.path)
    job = sandbox.run(dataclasses.replace(program, outputs="apart-*"), options=LEASED)
    job.wait_lines()
    before = job.status()
    kill_node(sandbox, job, 1)
    wait_said(job, "s for the end of the leases of nodes that are lost")
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert job.finish() == 0
    witness.assert_one_at_a_time(1)
    assert_same_result(job)


def test_an_agent_is_killed_alone(sandbox, programs, witness):
    """Its ranks run on until the next agent ends them, before it answers: the lease need not be waited for."""
    program = programs.test_program("apart", "--steps", 2000, "--seconds", 20, "--mode", witness.path)
    job = sandbox.run(dataclasses.replace(program, outputs="apart-*"), options=LEASED)
    job.wait_lines()
    before = job.status()
    os.kill(agent_of(job, 1), signal.SIGKILL)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert [node["state"] for node in status["nodes"]] == ["member", "member"]
    assert "s for the end of the leases" not in job.errors
    assert job.finish() == 0
    witness.assert_one_at_a_time(1)
    assert_same_result(job)


def test_an_agent_stands_still(sandbox, programs, witness):
    """Its keeper ends the ranks with the lease, before anybody misses the agent; another agent goes on."""
    program = programs.test_program("apart", "--steps", 2000, "--seconds", 20, "--mode", witness.path)
    job = sandbox.run(dataclasses.replace(program, outputs="apart-*"), options=LEASED)
    job.wait_lines()
    before = job.status()
    agent = agent_of(job, 1)
    ranks = [row["pid"] for node in before["nodes"] if node["number"] == 1 for row in node["ranks"]]
    os.kill(agent, signal.SIGSTOP)
    wait_for(lambda: not any(map(traces.is_alive, ranks)), 20, "the end of its ranks")
    assert traces.is_stopped(agent)
    wait_said(job, "the agent of node 1 does not answer: it is ended")
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert [node["state"] for node in status["nodes"]] == ["member", "member"]
    assert job.finish() == 0
    witness.assert_one_at_a_time(1)
    assert_same_result(job)


def test_an_agent_stands_still_for_a_short_time(sandbox, programs):
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--lease", "10s"])
    job.wait_lines()
    agent = agent_of(job, 1)
    os.kill(agent, signal.SIGSTOP)
    time.sleep(1)  # that is what is tested
    os.kill(agent, signal.SIGCONT)
    job.wait_committed(newest_line(job.status()) + 2)
    job.finish()
    assert_recovered(job, 0)


def test_nothing_is_changed_after_the_lease(sandbox, programs):
    """Nobody is left who could end the ranks: each one ends by the first call that would change something; one that reads
    runs on."""
    names = subprocess.run([programs.test_program("changes").argv[0], "--mode", "names"], env=sandbox.environment,
                           capture_output=True, text=True, check=True).stdout.split()
    assert names[-1] == "read"
    job = sandbox.run(programs.test_program("changes", ranks=len(names)), interval=None, trace=False,
                      options=[*LEASED, "--max-restarts", "0"])
    status = job.wait_status(lambda status: status["state"] == "running" and 1 in job.pids, 60)
    ranks = {row["rank"]: row["pid"] for node in status["nodes"] for row in node["ranks"]}
    others = [job.process.pid, job.find_launcher(), *traces.service_of(sandbox.rundir, 0), *traces.service_of(sandbox.rundir, 1)]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    left = set()

    def is_one_left():
        left.clear()
        left.update(names[rank] for rank, pid in ranks.items() if traces.is_alive(pid))
        return len(left) <= 1

    try:
        wait_for(is_one_left, 20, "the end of the ranks")
    finally:
        print("left:", *left)
    assert left == {"read"}
    for pid in reversed(others):
        os.kill(pid, signal.SIGCONT)
    assert job.wait() != 0
    assert not traces.is_alive(ranks[len(names) - 1])


def test_a_restart_cannot_change_the_lease(sandbox, programs):
    """The next arbiter waits for the end of leases that the former one has given."""
    job = sandbox.run(workload(programs), options=LEASED)
    job.wait_lines()
    job.process.kill()
    job.process.wait()
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 20, "the end of the launch")
    done = sandbox.belay("restart", "--lease", "9s", "job")
    assert done.returncode == 64, done.stderr
    assert 'job "job" was run with another --lease, which a restart cannot change' in done.stderr
    job.restart()
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("lease, words", [
    ("0", "leave --lease out for the usual one"),
    ("500ms", "less than the smallest value"),
])
def test_a_lease_that_makes_no_sense(sandbox, lease, words):
    done = sandbox.belay("run", *on_nodes(2), "--lease", lease, "--", "true")
    assert done.returncode == 64, done.stderr
    assert words in done.stderr
