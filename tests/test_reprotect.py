"""After a loss, copies and parity are made again at once, while the ranks run: another loss is survived before the next line."""

import pytest

from belaytest import assert_same_result
from nodes import is_held_twice, kill_node, on_nodes, run_with_agent, wait_said, workload
from waiting import wait_for


def start(sandbox, programs, nodes, scheme, number=None, fault=None, more=()):
    """A job that has one line, and takes none by itself."""
    options = [*on_nodes(nodes), "--redundancy", scheme, *more]
    program = workload(programs, seconds=60)
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


def wait_protected(job, line, times=1):
    wait_for(lambda: job.errors.count(f"line {line} is protected again: the loss of a node is survived") == times, 30,
             f"line {line} protected {times} times in {job.errors}")


@pytest.mark.parametrize("nodes,scheme", [(3, "PARTNER"), (4, "XOR"), (4, "RS:2+2")])
def test_losses_without_a_line_between(sandbox, programs, nodes, scheme):
    """One node after the other, down to two of them: each time all is protected again by the images of the one line."""
    job = start(sandbox, programs, nodes, scheme)
    for count, number in enumerate(range(nodes - 2), 1):
        line = lose(job, sandbox, number)
        wait_protected(job, line, count if scheme != "RS:2+2" else count - 1)
    if scheme == "PARTNER":
        assert is_held_twice(job.status())
    else:
        done = sandbox.belay("verify", "job")
        assert (done.returncode, done.stderr) == (0, "")
    lose(job, sandbox, nodes - 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()
