"""After a loss, copies and parity are made again at once, while the ranks run: another loss is survived before the next line."""

import os
import signal

import pytest

import traces
from belaytest import assert_same_result
from nodes import agent_of, is_held_twice, kill_node, on_nodes, run_with_agent, service_of, workload
from waiting import wait_for


def start(sandbox, programs, nodes, scheme, number=None, fault=None, more=()):
    """A job that has one line, and takes none by itself."""
    options = [*on_nodes(nodes), "--redundancy", scheme, *more]
    program = workload(programs)
    if fault:
        job = run_with_agent(sandbox, number, fault, program, interval=None, options=options)
    else:
        job = sandbox.run(program, interval=None, options=options)
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    return job


def lose(job, sandbox, *numbers):
    """Kill these nodes at once; the job goes on from its line."""
    epoch = job.status()["epoch"]
    kill_node(sandbox, job, *numbers)
    status = job.wait_epoch(epoch + 1)
    assert status["history"][-1]["restored_line"] == status["newest_line"] > 0
    return status["newest_line"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def wait_protected(job, line, times=1):
    wait_for(lambda: job.errors.count(f"line {line} is protected again: the loss of a node is survived") == times, 30,
             f"line {line} protected {times} times in {job.errors}")


@pytest.mark.campaign
@pytest.mark.parametrize("nodes,scheme", [(3, "PARTNER"), (4, "XOR"), (4, "RS:2+2")])
def test_losses_without_a_line_between(sandbox, programs, nodes, scheme):
    """One node after the other, down to two of them: each time all is protected again by the images of the one line."""
    job = start(sandbox, programs, nodes, scheme)
    for count, number in enumerate(range(nodes - 2), 1):
        line = lose(job, sandbox, number)
        if scheme != "RS:2+2" or count > 1:  # else another loss is survived all the time, and nothing is said
            wait_protected(job, line, count if scheme != "RS:2+2" else count - 1)
        wait_for(lambda: is_whole(sandbox, job, scheme), 30, f"all that is to be held, in {job.errors}")
    lose(job, sandbox, nodes - 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


# Each with a node that passes it after the loss of node 0: what node 3 was to hold for others, node 1 lacks.
OF_COPIES = (("agent.refill.send", 3), ("agent.refill.taken", 1), ("agent.refill.kept", 1))
OF_PARITY = (("agent.refill.made", 2), ("agent.refill.swap", 2), ("agent.refill.swapped", 2))


@pytest.mark.campaign
@pytest.mark.parametrize("point,number", OF_PARITY)
def test_a_second_node_is_lost_meanwhile(sandbox, programs, point, number):
    """RS:2+2 survives two losses, at each step from the parity of the former set to that of the next."""
    job = start(sandbox, programs, 4, "RS:2+2", number, f"{point}=stop")
    agent, service = agent_of(job, number), service_of(sandbox, number)
    kill_node(sandbox, job, 0)
    wait_for(lambda: traces.is_stopped(agent), 30, f"{point} in {job.errors}")
    for pid in service:
        os.kill(pid, signal.SIGKILL)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == status["newest_line"] == 1
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def is_whole(sandbox, job, scheme):
    return is_held_twice(job.status()) if scheme == "PARTNER" else sandbox.belay("verify", "job").returncode == 0


@pytest.mark.campaign
@pytest.mark.parametrize("scheme,point,number", [("PARTNER", *row) for row in OF_COPIES] +
                         [("XOR", *row) for row in (*OF_COPIES, *OF_PARITY)])
def test_an_agent_is_killed_meanwhile(sandbox, programs, scheme, point, number):
    """Its keeper goes on: no memory is lost, but what it had made and not kept. Then another node is lost."""
    job = start(sandbox, programs, 4, scheme, number, f"{point}=kill")
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == status["newest_line"] == 1
    wait_for(lambda: is_whole(sandbox, job, scheme), 30, f"all that is to be held, in {job.errors}")
    lose(job, sandbox, 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["PARTNER", "XOR"])
def test_a_line_begins_meanwhile(sandbox, programs, scheme):
    """Nothing is asked for from then on: the line protects everything."""
    job = start(sandbox, programs, 4, scheme, 1, "agent.refill.kept#1=stop")
    agent = agent_of(job, 1)
    kill_node(sandbox, job, 0)
    wait_for(lambda: traces.is_stopped(agent), 30, job.errors)
    os.kill(agent, signal.SIGCONT)
    line = job.wait_epoch(2)["newest_line"]
    assert sandbox.belay("checkpoint", "job").returncode == 0
    assert job.status()["newest_line"] > line
    done = sandbox.belay("verify", "job")
    assert (done.returncode, done.stderr) == (0, "")
    lose(job, sandbox, 2)
    job.finish()
    assert_same_result(job)


@pytest.mark.campaign
def test_a_false_copy_is_not_held(sandbox, programs):
    """Another image with right sums: the arbiter has told the root. The line stays with fewer copies."""
    job = start(sandbox, programs, 4, "PARTNER", 1, "agent.refill.taken=error")
    lose(job, sandbox, 0)
    log = os.path.join(sandbox.rundir, "node-1", "agent.log")
    wait_for(lambda: "what has come is another image than the one that was committed" in read(log), 30, "the refusal")
    assert "line 1 is protected again" not in job.errors
    job.finish()
    assert_same_result(job)


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["PARTNER", "XOR"])
def test_with_the_next_line(sandbox, programs, scheme):
    """--reprotect line: nothing is made again before it."""
    job = start(sandbox, programs, 4, scheme, more=("--reprotect", "line"))
    line = lose(job, sandbox, 0)
    if scheme == "PARTNER":
        assert not is_held_twice(job.status())
    assert sandbox.belay("checkpoint", "job").returncode == 0
    wait_protected(job, line + 1)
    assert f"line {line} is protected again" not in job.errors
    job.finish()
    assert_same_result(job)
