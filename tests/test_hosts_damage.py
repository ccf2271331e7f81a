"""Bits that flip on hosts of namespaces (lib/hosts.py), in images and on the network: as tests/test_nodes.py has it on local nodes."""

import re

import pytest

from belaytest import assert_recovered, newest_line
from nodes import homes, workload
from waiting import wait_for

pytestmark = [pytest.mark.hosts("a", "b"), pytest.mark.campaign]


def run_with_agent_on(sandbox, host, fault, program):
    """A job; the agent of this host has a fault that no other agent has."""
    with sandbox.agent_on(host, BELAY_FAULT=fault):
        job = sandbox.run(program, interval="200ms")
        wait_for(lambda: job.status(), 30, "the job")
    return job


@pytest.mark.parametrize("fault", ["agent.image.check@3#{}=error", "agent.apply@3#2=error"], ids=["image", "delta"])
def test_a_damaged_image(sandbox, programs, fault):
    """In what the rank's own host holds, or in what is copied into it: the host fetches the copy."""
    faults = ",".join(fault.format(line) for line in range(2, 40)) if "{}" in fault else fault
    job = run_with_agent_on(sandbox, "b", faults, workload(programs))
    job.wait_committed(2)
    job.kill_rank_on("b", 2)
    status = job.wait_epoch(2, 60)
    line = status["history"][-1]["restored_line"]
    assert line >= 2
    assert f"1 of the images of line {line} on this node are damaged and not used (rank 3: damaged image: the page at 0x" in job.errors
    assert homes(status) == [0, 0, 1, 1]
    assert status["history"][-1]["fetch_ms"] > 0
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.parametrize("fault, words", [
    ("fabric.chunk#3=error", r"line 1 aborted: rank [23] cannot be copied to node 0: it was damaged on its way"),
    ("fabric.frame@0#12=error", ""),  # is sent again
], ids=["data", "word"])
def test_a_bit_flips_on_the_wire(sandbox, programs, hosts, fault, words):
    """What was damaged is not taken, and later lines are copied: they are gone on from without the host."""
    job = run_with_agent_on(sandbox, "b", fault, workload(programs, seconds=6))
    job.wait_lines()
    line = newest_line(job.status())
    assert re.search(words, job.errors) and "aborted" not in re.sub(words, "", job.errors)
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_recovered(job, 1)
