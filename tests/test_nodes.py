"""A job on several local nodes: agents that share nothing, lines over all of them, a rank killed on any of them."""

import dataclasses
import glob
import json
import os
import re
import shutil
import signal
import time

import pytest

import traces
from belaytest import assert_recovered, assert_restored, assert_same_result, newest_line
from nodes import agent_of, kill_node, node_of, on_nodes, run_with_agent, service_of, wait_said, workload
from programs import melt, pickles
from waiting import wait_for


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
    # No line is amid anything when the agent stands still. `belay run` does, too, so that nobody ends a silent agent.
    job = sandbox.run(program, interval="1h", options=[*on_nodes(2), "--lease", "60s"])
    job.wait_epoch(1)
    done = sandbox.belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    job.let_end()
    job.wait_step(50)
    stopped = [job.process.pid, job.find_launcher(), job.status()["nodes"][0]["agent_pid"]]
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


def assert_told_how_long_it_took(job):
    first, *others = job.status()["history"]
    assert first["detect_ms"] == 0 and first["lost_nodes"] == [] and first["launch_ms"] > 0
    for epoch in others:
        assert 0 < epoch["detect_ms"] < 60000 and epoch["restore_ms"] < epoch["launch_ms"] < 60000, epoch
        assert epoch["fetch_ms"] == 0


def assert_told_when_it_was(job, since_ms):
    """Lines and epochs tell when they began: in their order, and each epoch's lines between its beginning and the next."""
    status = job.status()
    epochs = [epoch["begun_at_ms"] for epoch in status["history"]]
    lines = [line["begun_at_ms"] for line in status["lines"]]
    assert since_ms <= epochs[0] and epochs == sorted(set(epochs)) and epochs[-1] <= time.time() * 1000
    assert epochs[0] < lines[0] and lines == sorted(set(lines)) and lines[-1] <= time.time() * 1000
    restored = status["history"][-1]["restored_line"]
    for line in status["lines"]:
        assert (line["begun_at_ms"] < epochs[-1]) == (line["line"] <= restored) or line["state"] == "aborted"


def assert_copied_again(job, restored, members):
    """The next line after a loss is held twice: at least half of the ranks have a new partner, which gets whole images."""
    def settled(status):
        return [line for line in status["lines"]
                if line["line"] > restored and line["state"] == "committed" and line["total_ms"] > 0]

    status = job.wait_status(lambda status: len(settled(status)) > 2)
    rows = [row for node in status["nodes"] for row in node["ranks"]]
    later = settled(status)
    if members == 1:
        assert "one node is left: its loss would be the end of the job" in job.errors
        assert all(len(row["holders"]) == 1 for row in rows)
        assert all(line["sent_bytes"] == 0 for line in later)
        return
    assert "until its line is protected again" in job.errors
    assert re.search(r"line \d+ is protected again", job.errors)
    assert all(len(row["holders"]) == 2 for row in rows)
    assert later[0]["sent_bytes"] > 0.4 * later[0]["image_bytes"]
    assert later[0]["sent_bytes"] >= later[0]["dirty_bytes"] > 0
    assert later[1]["dirty_bytes"] <= later[1]["sent_page_bytes"] < later[1]["dirty_bytes"] + (1 << 20)
    assert 0 < later[1]["sent_bytes"] <= later[1]["sent_page_bytes"]
    assert all(line["protect_ms"] > 0 for line in later)


@pytest.mark.parametrize("count, number, homes", [
    (2, 1, [0, 0, 0, 0]),
    (2, 0, [1, 1, 1, 1]),
    (3, 1, [0, 0, 2, 2]),
    (4, 3, [0, 1, 2, 0]),
])
def test_a_node_is_lost(sandbox, programs, count, number, homes):
    """Its ranks go on where their copies are, from the newest committed line; more lines follow."""
    since_ms = int(time.time() * 1000)
    job = sandbox.run(workload(programs), options=[*on_nodes(count), "--reprotect", "line"])
    job.wait_lines()
    before = job.status()
    lost = kill_node(sandbox, job, number)
    status = job.wait_epoch(2)
    assert [node_of(status, rank) for rank in range(4)] == homes
    assert [node["state"] for node in status["nodes"]] == ["lost" if i == number else "member" for i in range(count)]
    restored = status["history"][-1]["restored_line"]
    assert restored >= before["newest_line"]
    assert not any(map(traces.is_alive, lost))
    assert status["history"][-1]["lost_nodes"] == [number]
    job.wait_committed(restored + 1)
    assert_told_how_long_it_took(job)
    assert_told_when_it_was(job, since_ms)
    assert_copied_again(job, restored, count - 1)
    job.finish()
    assert f"node {number} was lost" in job.errors
    assert_recovered(job, 1)
    assert [epoch["reason"] for epoch in job.status()["history"]] == ["start", f"node {number} was lost"]
    sandbox.assert_clean()


@pytest.mark.parametrize("number", [0, 1])
def test_an_agent_and_its_keeper_are_lost(sandbox, programs, number):
    """The ranks of the node live, so that mpirun misses nothing: the launch is ended, and the node is left out."""
    job = sandbox.run(workload(programs), options=on_nodes(3))
    job.wait_lines()
    ranks = [row["pid"] for node in job.status()["nodes"] for row in node["ranks"]]
    for pid in service_of(sandbox, number):
        os.kill(pid, signal.SIGKILL)
    status = job.wait_epoch(2)
    assert status["history"][-1]["lost_nodes"] == [number]
    assert not any(map(traces.is_alive, ranks))
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.parametrize("number", [0, 1])
def test_an_agent_hangs(sandbox, programs, number):
    """Others do not hear it, and it does not answer: it is ended, and what it held goes on with another agent."""
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    line = job.status()["newest_line"]
    agent = agent_of(job, number)
    os.kill(agent, signal.SIGSTOP)
    if number == 1:
        assert [node["state"] for node in job.status()["nodes"]] == ["member", "silent"]
    wait_said(job, f"node {number} is not heard any more by node {1 - number}: no line is taken")
    if number == 1:
        listed = json.loads(sandbox.belay("list", "--json").stdout)["jobs"][0]
        assert listed["trouble"] == "node 1 is silent: no line is taken"
    wait_said(job, f"the agent of node {number} does not answer: it is ended")
    status = job.wait_epoch(2)
    assert not traces.is_alive(agent)
    assert [node["state"] for node in status["nodes"]] == ["member", "member"]
    assert [node_of(status, rank) for rank in range(4)] == [0, 0, 1, 1]
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_an_agent_that_hung_answers(sandbox, programs):
    """Its links are lost with the epoch: without another epoch there would be no more lines."""
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    agent = agent_of(job, 1)
    os.kill(agent, signal.SIGSTOP)
    wait_said(job, "it has 5 s to answer")
    os.kill(agent, signal.SIGCONT)
    status = job.wait_epoch(2)
    assert agent_of(job, 1) == agent and status["trouble"] == ""
    assert status["history"][-1]["reason"] == "the link to node 1 was lost"
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_a_node_joins_late(sandbox, programs):
    """The job runs meanwhile, and lines are taken as soon as the node has joined."""
    job = run_with_agent(sandbox, 1, "fabric.frame@2#1=delay:8000", workload(programs), options=on_nodes(2))
    wait_said(job, "node 1 has not joined node 0: no line is taken")
    wait_said(job, "node 1 has joined: lines are taken")
    job.wait_committed(2)
    assert job.status()["epoch"] == 1
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("fault", ["agent.image.check@3#{}=error", "agent.apply@3#2=error"], ids=["image", "delta"])
def test_a_damaged_image(sandbox, programs, fault):
    """A bit flips in what the rank's own node holds, or in what is copied into it: the rank's node fetches the copy."""
    faults = ",".join(fault.format(line) for line in range(2, 40)) if "{}" in fault else fault
    job = run_with_agent(sandbox, 1, faults, workload(programs), interval="200ms", options=on_nodes(2))
    job.wait_committed(2)
    status = job.kill_and_recover(2)
    line = status["history"][-1]["restored_line"]
    assert line >= 2
    assert f"1 of the images of line {line} on this node are damaged and not used (rank 3: damaged image: the page at 0x" in job.errors
    assert [node_of(status, rank) for rank in range(4)] == [0, 0, 1, 1]
    assert status["history"][-1]["fetch_ms"] > 0
    job.finish()
    assert_recovered(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("fault, words", [
    ("fabric.chunk#3=error", r"line 1 aborted: rank [23] cannot be copied to node 0: it was damaged on its way"),
    ("fabric.frame@0#12=error", ""),  # is sent again
], ids=["data", "word"])
def test_a_bit_flips_on_the_wire(sandbox, programs, fault, words):
    """What was damaged is not taken, and later lines are copied: they are gone on from without the node."""
    job = run_with_agent(sandbox, 1, fault, workload(programs, seconds=6), options=on_nodes(2))
    job.wait_lines()
    line = job.status()["newest_line"]
    assert re.search(words, job.errors) and "aborted" not in re.sub(words, "", job.errors)
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.parametrize("rank, what", [(3, "the image"), (1, "the copy of the image")])
def test_damage_is_found_and_mended(sandbox, programs, rank, what):
    """Without a restart: what node 1 holds of its own rank or of another's is made anew at the next line."""
    job = run_with_agent(sandbox, 1, f"agent.scrub@{rank}#2=error", workload(programs, seconds=6), interval=None,
                         options=[*on_nodes(2), "--scrub-interval", "200ms"])
    for _ in range(2):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    wait_said(job, f"{what} of rank {rank} on node 1 is damaged in memory, and made anew at the next line "
                   "(damaged image: the page at 0x")
    for _ in range(2):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 0 if rank == 1 else 1)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] == 4
    job.finish()
    assert "not used" not in job.errors
    assert_recovered(job, 1)
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


@pytest.mark.parametrize("keeps_memory", [True, False])
@pytest.mark.parametrize("point", ["agent.epoch.promised", "agent.epoch.told", "agent.epoch.entered"])
def test_a_second_node_is_lost_while_an_epoch_is_opened(sandbox, programs, point, keeps_memory):
    """The others go on to another epoch; the first one's ranks are on node 1, the second one's copies on node 3."""
    job = run_with_agent(sandbox, 2, f"{point}#2=stop", workload(programs, seconds=6), options=on_nodes(4))
    job.wait_lines()
    line = job.status()["newest_line"]
    agent, service = agent_of(job, 2), service_of(sandbox, 2)
    kill_node(sandbox, job, 0)
    wait_for(lambda: traces.is_stopped(agent), 30, "the point")
    for pid in [agent] if keeps_memory else service:
        os.kill(pid, signal.SIGKILL)
    job.wait_status(lambda status: len(job.pids) == 2 and status["state"] == "running", 60, "the next launch")
    status = job.status()
    assert [node_of(status, rank) for rank in range(4)] == ([1, 1, 2, 3] if keeps_memory else [1, 1, 3, 3])
    assert [node["state"] for node in status["nodes"]] == \
        ["lost", "member", "member" if keeps_memory else "lost", "member"]
    assert all(epoch["restored_line"] >= line for epoch in status["history"][1:])
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert "the agent of node 2 was lost while an epoch was opened" in job.errors
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_node_is_lost_as_its_agent_takes_the_job_up(sandbox, programs):
    """First the agent alone, then the one in its place, and the keeper: what the new one was about to go on with is on other nodes."""
    job = sandbox.run(workload(programs, seconds=6), options=on_nodes(3), BELAY_FAULT="agent.reopen=stop")
    job.wait_lines()
    line, (agent, keeper) = job.status()["newest_line"], service_of(sandbox, 1)
    node = os.path.join(sandbox.rundir, "node-1")
    os.kill(agent, signal.SIGKILL)
    stopped = wait_for(lambda: [pid for pid in traces.processes_of(node) if traces.is_stopped(pid)], 30, "the point")
    for pid in (keeper, *stopped):
        os.kill(pid, signal.SIGKILL)
    status = job.wait_epoch(2, 60)
    assert [node["state"] for node in status["nodes"]] == ["member", "lost", "member"]
    assert status["history"][-1]["restored_line"] >= line
    assert "the agent of node 1 was lost" in job.errors and "node 1 was lost: its ranks go on" in job.errors
    job.finish()
    assert_restored(job, 1)
    assert_same_result(job)
    sandbox.assert_clean()


def test_a_node_is_lost_as_ranks_are_placed(sandbox, programs):
    """Before any line: the program begins anew without the node."""
    job = run_with_agent(sandbox, 1, "agent.epoch.placed#1=stop", workload(programs), options=on_nodes(2))
    wait_for(lambda: len(traces.processes_of(os.path.join(sandbox.rundir, "node-1"))) >= 2, 30, "the agent")
    service = service_of(sandbox, 1)
    wait_for(lambda: any(map(traces.is_stopped, service)), 30, "the point")
    for pid in service:
        os.kill(pid, signal.SIGKILL)
    assert [node_of(job.wait_epoch(2), rank) for rank in range(4)] == [0, 0, 0, 0]
    job.wait_committed(1)
    job.finish()
    assert "no line can be taken" not in job.errors
    assert_same_result(job)
    sandbox.assert_clean()


def test_two_nodes_are_lost_at_once(sandbox, programs):
    """Their copies are on the other two."""
    job = sandbox.run(workload(programs), options=on_nodes(4))
    job.wait_lines()
    kill_node(sandbox, job, 0, 2)
    status = job.wait_epoch(2)
    assert [node_of(status, rank) for rank in range(4)] == [1, 1, 3, 3]
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    assert job.status()["history"][-1]["reason"] == "nodes 0, 2 were lost"
    sandbox.assert_clean()


def test_more_is_lost_than_copies_make_good(sandbox, programs):
    """The end tells which ranks' images are missing, and where the others are."""
    job = sandbox.run(workload(programs), options=on_nodes(4))
    job.wait_lines()
    line = job.status()["newest_line"]
    kill_node(sandbox, job, 1, 2)
    assert job.wait() == 66, job.errors
    found = re.search(r"of line (\d+), no node holds the images of rank 1 any more; "
                      r"nodes 0, 3 hold those of ranks 0, 2-3; 'belay clean job' drops what is held", job.errors)
    assert found and int(found[1]) >= line, job.errors
    assert "goes on" not in job.errors
    sandbox.assert_clean()


def test_fewer_nodes_than_wanted_are_left(sandbox, programs):
    """The job is held: it says what is held where, and goes on once the user says that fewer nodes will do."""
    job = sandbox.run(workload(programs, seconds=6), options=[*on_nodes(3), "--min-nodes", "2"])
    job.wait_lines()
    kill_node(sandbox, job, 1)
    job.wait_epoch(2)
    job.wait_committed(job.status()["history"][-1]["restored_line"] + 1)
    line = job.status()["newest_line"]
    kill_node(sandbox, job, 2)
    assert job.wait() == 75, job.errors
    found = re.search(r"job: 1 node is left, and --min-nodes is 2: the job is held; of line (\d+), node 0 holds the "
                      r"images of ranks 0-3; 'belay restart --min-nodes 1 job' goes on", job.errors)
    assert found and int(found[1]) >= line, job.errors
    assert "'belay restart job' goes on" not in job.errors
    assert sandbox.status("job")["state"] == "lost"
    again = sandbox.belay("restart", "job")
    assert again.returncode == 75 and "1 node is left, and --min-nodes is 2" in again.stderr, again.stderr
    job.restart(options=["--min-nodes", "1"])
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == int(found[1])
    assert [node_of(status, rank) for rank in range(4)] == [0, 0, 0, 0]
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_fewer_nodes_than_wanted_before_any_line(sandbox, programs):
    """There is nothing to go on from, and the message does not say that there is."""
    job = sandbox.run(workload(programs), interval=None, options=[*on_nodes(2), "--min-nodes", "2"])
    job.wait_step(20)
    kill_node(sandbox, job, 1)
    assert job.wait() == 75, job.errors
    assert "1 node is left, and --min-nodes is 2: the job ends; no line of it has been committed" in job.errors
    assert "belay restart" not in job.errors
    sandbox.assert_clean()


@pytest.mark.parametrize("number, homes", [(0, [1, 1, 1, 1]), (1, [0, 0, 0, 0])])
def test_restart_after_belay_run_and_a_node_are_lost(sandbox, programs, number, homes):
    """`belay restart` finds the job at the node that is left, whichever it is."""
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    line = job.status()["newest_line"]
    os.kill(job.process.pid, signal.SIGSTOP)  # so that it does not see the loss
    kill_node(sandbox, job, number)
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.wait()
    wait_for(lambda: not any(map(traces.is_alive, job.pids[1].values())), 30, "the end of the ranks")
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 30, "the end of the job")
    job.restart()
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= line
    assert [node_of(status, rank) for rank in range(4)] == homes
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert f"node {number} knows nothing of the job any more: it is left out" in job.errors
    assert_same_result(job)
    assert_restored(job, 1)
    sandbox.assert_clean()


def test_restart_without_the_first_node(sandbox, programs):
    """It is lost as the restarts are used up, and so is the record on its disk."""
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--max-restarts", "0"])
    job.wait_lines()
    kill_node(sandbox, job, 0)
    assert job.wait() == 75
    assert "'belay restart job' goes on" in job.errors
    assert sandbox.status("job")["state"] == "lost"
    os.unlink(os.path.join(sandbox.rundir, "jobs", "job.epochs"))
    job.restart()
    assert [node_of(job.wait_epoch(2), rank) for rank in range(4)] == [1, 1, 1, 1]
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)
    sandbox.assert_clean()


def test_stop_after_the_first_node_is_lost(sandbox, programs):
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    kill_node(sandbox, job, 0)
    done = sandbox.belay("stop", "job")
    assert done.returncode == 0, done.stderr
    assert job.wait() == 76
    sandbox.assert_clean()


def test_a_line_is_asked_for_after_the_first_node_is_lost(sandbox, programs):
    """It is taken in the next epoch, or the answer tells why there is none."""
    job = sandbox.run(workload(programs), interval=None, options=on_nodes(2))
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 0)
    done = sandbox.belay("checkpoint", "job")
    assert done.returncode == 0 or done.returncode == 74 and "no line was committed" in done.stderr, done.stderr
    job.wait_epoch(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


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


def test_a_restart_at_once_after_belay_run_was_killed(sandbox, programs):
    """Each agent ends its part of the launch in its own time: the restart waits for all of them."""
    job = sandbox.run(workload(programs), options=on_nodes(3))
    job.wait_lines()
    line = job.status()["newest_line"]
    job.process.kill()
    job.process.wait()
    job.restart()
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("options, words", [
    (["--nodes", "2"], "is for --local; other hosts are those of the launch line"),
    (["--local"], "--local is for --nodes N"),
    (["--nodes", "0", "--local"], "a job has 1 to 64 nodes"),
    (["--nodes", "2x", "--local"], "a job has 1 to 64 nodes"),
    (["--nodes", "2", "--local", "--min-nodes", "3"], "--min-nodes 3: the job has 2 nodes"),
    (["--min-nodes", "2"], "--min-nodes 2: the job has 1 node"),
    (["--min-nodes", "0"], "less than the smallest value, 1"),
])
def test_wrong_use(sandbox, options, words):
    done = sandbox.belay("run", *options, "--", "mpirun", "true")
    assert done.returncode == 64 and words in done.stderr, done.stderr


def other_program(programs, name):
    """Exchanges whose partners are not known (NBX), point-to-point of all kinds, threads, heat with parallel HDF5, mpi4py, LAMMPS."""
    if name == "melt":
        return melt()
    if name == "heat":
        return programs.heat()
    if name == "pickles":
        return pickles("--steps", "150", "--seconds", "3")
    return programs.test_program(name, *(["--steps", 25, "--value", 120] if name == "p2_nbx" else ["--steps", 400, "--seconds", 4]))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", ["heat", "pickles", "p2_nbx", "p2pmix", "threads",
                                  pytest.param("melt", marks=pytest.mark.campaign)])
def test_a_node_is_lost_under_other_programs(sandbox, programs, name, number):
    job = sandbox.run(other_program(programs, name), interval="200ms", options=on_nodes(2),
                      trace=name in ("p2pmix", "threads", "p2_nbx", "pickles"))
    job.wait_lines()
    before = job.status()
    kill_node(sandbox, job, number)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= before["newest_line"] >= 1
    assert [node_of(status, rank) for rank in range(status["ranks"])] == [1 - number] * status["ranks"]
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_another_provider_of_the_fabric(sandbox, programs):
    """Shared memory instead of TCP, which has no descriptor to wait for: lines are copied, and a node is lost."""
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--fabric-provider", "shm"])
    job.wait_lines()
    wait_for(lambda: all(len(row["holders"]) == 2 for node in job.status()["nodes"] for row in node["ranks"]), 30, "copies")
    before, agent = job.status(), agent_of(job, 1)
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    for path in glob.glob(f"/dev/shm/{agent}:*"):  # the provider's: with a real node it would be gone
        os.unlink(path)
    assert status["history"][-1]["restored_line"] >= before["newest_line"] >= 1
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_no_such_provider_of_the_fabric(sandbox, programs):
    done = sandbox.belay("run", *on_nodes(2), "--fabric-provider", "nosuch", "--", "mpirun", "-n", "2", *workload(programs).argv)
    assert done.returncode != 0
    assert 'libfabric has no provider "nosuch"' in done.stderr.splitlines()[-1], done.stderr


def test_files_without_a_name_on_a_lost_node(sandbox, programs):
    """Nobody has them open any more: they are made anew from the images."""
    program = programs.test_program("files_local", "--mode", "scratch+unnamed+update", "--steps", 200, "--seconds", 2, ranks=2)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*"), options=on_nodes(2))
    job.wait_lines()
    line = newest_line(job.status())
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= line >= 1
    job.finish()
    assert_recovered(job, 1)
