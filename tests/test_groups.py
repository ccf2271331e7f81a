"""What the ranks of a node share is copied to another node, and comes with them when their node is lost."""

import os
import subprocess

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result
from nodes import homes, is_held_twice, kill_node, node_of, on_nodes, run_with_agent
from programs import PYTHON, TESTS, Program, needs_modules


def kin(programs, *arguments, seconds=4, ranks=4):
    return programs.test_program("kin", "--steps", 100 * seconds, "--seconds", seconds, *arguments, ranks=ranks)


def wait_held_twice(job, line):
    job.wait_status(lambda status: status["newest_line"] > line and is_held_twice(status), 30, "copies")


def test_to_a_node_whose_ranks_share_something_too(sandbox, programs):
    """Two groups on one node are one group at the next line; and that node is lost, too."""
    job = sandbox.run(kin(programs, seconds=8, ranks=6), options=on_nodes(3))
    job.wait_lines()
    assert homes(job.status()) == [0, 0, 1, 1, 2, 2]
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 2, 2, 2, 2]
    assert status["history"][-1]["restored_line"] >= 1
    wait_held_twice(job, status["history"][-1]["restored_line"])
    kill_node(sandbox, job, 2)
    status = job.wait_epoch(3)
    assert homes(status) == [0] * 6
    job.finish()
    assert_restored(job, 2)
    assert_same_result(job)
    sandbox.assert_clean()


def test_again_before_a_new_line(sandbox, programs):
    """The node goes on from the images of two groups twice."""
    job = sandbox.run(kin(programs), interval="1s", options=on_nodes(2))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0] * 4
    job.kill_rank(3)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] >= status["history"][-2]["restored_line"] >= 1
    job.finish()
    assert_restored(job, 2)
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("fault", [None, "agent.fetch.send@4=kill", "agent.mirror.taken@4#2=error"])
def test_to_a_spare(sandbox, programs, fault):
    """It fetches them. A holder dies meanwhile, or a copy of what is shared is damaged on its way: the line aborts."""
    options = [*on_nodes(2), "--spares", "1"]
    job = run_with_agent(sandbox, 1, fault, kin(programs), options=options) if fault else \
        sandbox.run(kin(programs), options=options)
    job.wait_committed(3)
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(3 if fault and "fetch" in fault else 2)
    assert homes(status) == [2, 2, 1, 1]
    assert status["history"][-1]["restored_line"] >= 1
    wait_held_twice(job, status["history"][-1]["restored_line"])
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_of_one_node_only(sandbox, programs):
    """The ranks of the other node, which share nothing, are spread."""
    job = sandbox.run(kin(programs, "--mode", "even", ranks=6), options=on_nodes(3))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert sorted(homes(status)) == [0, 0, 0, 2, 2, 2] and homes(status)[:2] == [0, 0]
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_shared_memory_of_python(sandbox):
    needs_modules("mpi4py", "numpy")
    program = Program((PYTHON, os.path.join(TESTS, "programs", "kin.py"), "--steps", "200"), 4)
    job = sandbox.run(program, seconds=4, options=on_nodes(2))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert node_of(status, 2) == node_of(status, 3) == 0
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.hosts("a", "b")
def test_to_another_host(sandbox, programs, hosts):
    """A file in /dev/shm is made anew there."""
    job = sandbox.run(kin(programs, "--mode", "files"))
    job.wait_lines()
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0] * 4
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.hosts("a", "b")
def test_two_of_one_name_cannot_be_on_one_host(sandbox, programs, hosts):
    """The restart is refused with the name, and the images are kept."""
    job = sandbox.run(kin(programs, "--mode", "same"))
    job.wait_lines()
    hosts.crash("b")
    assert job.wait() != 0
    assert "ranks 0 and 2, which ran on different nodes, have each " in job.errors, job.errors
    assert "its images are kept" in job.errors
    subprocess.run(hosts.on("a", "rm", "/dev/shm/kin"), check=True)
