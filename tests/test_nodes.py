"""A job on several local nodes: agents that share nothing, lines over all of them, a rank killed on any of them."""

import dataclasses
import os
import signal

import pytest

import traces
from belaytest import assert_recovered, assert_restored, assert_same_result
from waiting import wait_for


def on_nodes(count):
    return ["--nodes", str(count), "--local"]


def workload(programs, name="ring", seconds=4):
    return programs.test_program(name, "--steps", 100 * seconds, "--seconds", seconds)


def node_of(status, rank):
    """The number of the node that runs the rank."""
    return next(node["number"] for node in status["nodes"] for row in node["ranks"] if row["rank"] == rank)


@pytest.mark.parametrize("name", ["ring", "collmix"])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_is_killed(sandbox, programs, name, rank):
    job = sandbox.run(workload(programs, name), options=on_nodes(2))
    job.wait_lines()
    status = job.kill_and_recover(rank)
    assert len(status["nodes"]) == 2
    assert [node_of(status, number) for number in range(4)] == [0, 0, 1, 1]
    assert sum(node["is_coordinator"] for node in status["nodes"]) == 1
    assert [node["state"] for node in status["nodes"]] == ["member", "member"]
    for node in status["nodes"]:
        for row in node["ranks"]:
            assert row["protected_line"] >= status["history"][-1]["restored_line"] > 0
            assert row["holders"] == [0, 1]
    job.finish()
    assert_recovered(job)
    sandbox.assert_clean()


def test_abort_over_the_loss_of_a_rank_on_another_node(sandbox, programs):
    """A rank ends the program when a peer is dead and the peer's agent has not seen it: that is no end of the program's own."""
    program = programs.test_program("exits", "--steps", 50, "--seconds", 2, "--mode", "told", "--rank", 3, "--value", 7)
    job = sandbox.run(program, interval="100ms", options=on_nodes(2))
    job.wait_lines()
    job.let_end()
    job.wait_step(50)
    stopped = [job.find_launcher(), job.status()["nodes"][0]["agent_pid"]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        os.kill(job.pids[1][0], signal.SIGKILL)
        wait_for(lambda: not traces.is_alive(job.pids[1][0]), 20, "the end of rank 0")
        with open(job.path("end"), "w", encoding="ascii"):
            pass
        wait_for(lambda: os.path.exists(job.path("seen")), 20, "rank 3 to see its file")
    finally:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
    assert job.wait() == 7
    assert sandbox.status("job")["restarts"] == 1


def test_lines_over_three_nodes(sandbox, programs):
    """Two kills; the coordinator is wherever the arbiter has put it."""
    job = sandbox.run(workload(programs, "collmix", seconds=6), options=on_nodes(3))
    for rank in (1, 2):
        job.wait_lines()
        job.kill_and_recover(rank)
    job.finish()
    assert_recovered(job)


def test_a_node_without_ranks_is_a_member(sandbox, programs):
    job = sandbox.run(workload(programs), options=on_nodes(6))
    job.wait_lines()
    status = job.kill_and_recover()
    assert sorted(len(node["ranks"]) for node in status["nodes"]) == [0, 0, 1, 1, 1, 1]
    job.finish()
    assert_recovered(job)


def test_a_line_on_request(sandbox, programs):
    job = sandbox.run(workload(programs), interval=None, options=on_nodes(3))
    job.wait_step(2)
    for line in (1, 2):
        done = sandbox.belay("checkpoint", "job")
        assert done.returncode == 0, done.stderr
        assert job.wait_committed(line) == line
    job.finish()
    assert_same_result(job)


def kill_node(sandbox, job, number):
    """Its agent, its keeper and its ranks, so that its memory is really gone. Returns the ranks' processes."""
    status = job.status()
    node = os.path.join(sandbox.rundir, f"node-{number}") if number else sandbox.rundir
    ranks = [row["pid"] for row in next(node for node in status["nodes"] if node["number"] == number)["ranks"]]
    service = [pid for pid, command in traces.processes_of(node).items()
               if os.path.basename(command.split(" ")[0]) in ("belayd", "belay-keeper") and command.endswith(node)]
    assert len(service) == 2, service
    for pid in service + ranks:
        os.kill(pid, signal.SIGKILL)
    return ranks


@pytest.mark.parametrize("count, number, homes", [
    (2, 1, [0, 0, 0, 0]),
    (2, 0, [1, 1, 1, 1]),
    (3, 1, [0, 0, 2, 2]),
    (4, 3, [0, 1, 2, 0]),
])
def test_a_node_is_lost(sandbox, programs, count, number, homes):
    """Its ranks go on where their copies are, from the newest committed line; more lines follow."""
    job = sandbox.run(workload(programs), options=on_nodes(count))
    job.wait_lines()
    before = job.status()
    lost = kill_node(sandbox, job, number)
    status = job.wait_epoch(2)
    assert [node_of(status, rank) for rank in range(4)] == homes
    assert [node["state"] for node in status["nodes"]] == ["lost" if i == number else "member" for i in range(count)]
    restored = status["history"][-1]["restored_line"]
    assert restored >= before["newest_line"]
    assert not any(map(traces.is_alive, lost))
    job.wait_committed(restored + 1)
    job.finish()
    assert f"node {number} was lost" in job.errors
    assert_recovered(job, 1)
    assert [epoch["reason"] for epoch in job.status()["history"]] == ["start", f"node {number} was lost"]
    sandbox.assert_clean()


def test_two_nodes_are_lost_one_after_the_other(sandbox, programs):
    """The first delta after the first loss is for a partner that has no image to apply it to."""
    job = sandbox.run(workload(programs, "collmix", seconds=6), options=on_nodes(3))
    for epoch, number in ((2, 1), (3, 0)):
        job.wait_lines()
        kill_node(sandbox, job, number)
        status = job.wait_epoch(epoch)
    assert [node_of(status, rank) for rank in range(4)] == [2, 2, 2, 2]
    job.finish()
    assert_recovered(job, 2)


@pytest.mark.parametrize("mode", ["shared", "truncate"])
def test_files_of_lost_ranks_are_put_back(sandbox, programs, mode):
    """Ranks of both nodes write to files; those of the lost one are put back by the node that goes on."""
    program = programs.test_program("files", "--mode", mode, "--steps", 200, "--seconds", 2)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*"), options=on_nodes(2))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    job.wait_epoch(2)
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.parametrize("point", ["agent.mirror.send", "agent.mirror.taken", "agent.protected", "agent.commit.recorded"])
def test_an_agent_dies_amid_copies(sandbox, programs, point):
    """Its keeper has what was held: no node is lost, and no rank moves."""
    sandbox.start_agent(BELAY_FAULT=f"{point}#2=kill")
    job = sandbox.run(workload(programs), options=on_nodes(2))
    status = job.wait_epoch(2)
    assert [node_of(status, rank) for rank in range(4)] == [0, 0, 1, 1]
    assert status["history"][-1]["restored_line"] in (1, 2)
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_a_node_is_lost_before_the_first_line(sandbox, programs):
    """The program begins anew on the nodes that are left, and no output appears twice."""
    job = sandbox.run(workload(programs), interval=None, options=on_nodes(2))
    job.wait_step(20)
    kill_node(sandbox, job, 1)
    job.wait()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 1


def test_what_ranks_of_a_lost_node_shared_is_not_forgotten(sandbox, programs):
    """It is on no other node: the job ends with a line that says so."""
    program = programs.test_program("shm", "--mode", "constant", "--steps", 100, "--seconds", 4)
    job = sandbox.run(program, options=on_nodes(2))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    assert job.wait() != 0
    assert "which are not copied to other nodes" in job.errors, job.errors
    assert "goes on" not in job.errors
    sandbox.assert_clean()


def test_a_node_is_lost_without_copies(sandbox, programs):
    """Nobody else has its images: the end of the job is told, and that nothing can go on."""
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--redundancy", "SINGLE"])
    job.wait_lines()
    ranks = kill_node(sandbox, job, 1)
    assert job.wait() == 69, job.errors
    assert "node 1 was lost with the images of its ranks" in job.errors, job.errors
    assert "goes on" not in job.errors
    wait_for(lambda: not any(map(traces.is_alive, ranks)), 20, "the end of the ranks")
    sandbox.assert_clean()


def test_restart_of_an_ended_job(sandbox, programs):
    """Nobody says again how many nodes there are."""
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--max-restarts", "0"])
    job.wait_lines()
    job.kill_rank(2)
    job.wait()
    job.restart()
    status = job.wait_epoch(2)
    assert len(status["nodes"]) == 2
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)
    sandbox.assert_clean()


def test_what_nodes_write_to_is_their_own(sandbox, programs):
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    for folder in (sandbox.rundir, os.path.join(sandbox.rundir, "node-1")):
        assert {"agent.sock", "keeper.sock", "agent.lock"} <= set(os.listdir(folder))
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("options, words", [
    (["--nodes", "2"], "is for --local; other hosts are those of the launch line"),
    (["--local"], "--local is for --nodes N"),
    (["--nodes", "0", "--local"], "a job has 1 to 64 nodes"),
    (["--nodes", "2x", "--local"], "a job has 1 to 64 nodes"),
])
def test_wrong_use(sandbox, options, words):
    done = sandbox.belay("run", *options, "--", "mpirun", "true")
    assert done.returncode == 64 and words in done.stderr, done.stderr
