"""Nodes that may be lost together: copies are in other failure domains than their images."""

import os

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, node_of, on_nodes, workload


@pytest.fixture
def domains(sandbox):
    """Writes a file of failure domains; its path."""
    def write(text):
        path = os.path.join(sandbox.folder, "domains")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path
    return write


RACKS = {0: "left", 1: "left", 2: "right", 3: "right", 4: "right", 5: "left"}
TEXT = "# two racks\nleft 0 1 5\nright 2 3 4\n"


def assert_apart(status):
    for node in status["nodes"]:
        for row in node["ranks"]:
            assert {RACKS[holder] for holder in row["holders"]} == {"left", "right"}, (node["number"], row)


def test_a_failure_domain_is_lost(sandbox, programs, domains):
    """Both of its nodes, at once: without the domains, the one would have held the other's copies."""
    job = sandbox.run(workload(programs), options=[*on_nodes(4), "--failure-domains", domains(TEXT)])
    job.wait_lines()
    before = job.status()
    assert_apart(before)
    kill_node(sandbox, job, 0, 1)
    status = job.wait_epoch(2)
    assert {node_of(status, rank) for rank in range(4)} == {2, 3}
    assert status["history"][-1]["restored_line"] >= before["newest_line"]
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert "some images have their copies in their own failure domain" in job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_a_failure_domain_is_lost_under_parity(sandbox, programs, domains):
    """Both of its nodes, at once: without the domains they would have been all of one set."""
    job = sandbox.run(workload(programs),
                      options=[*on_nodes(4), "--redundancy", "XOR:2", "--failure-domains", domains("even 0 2\nodd 1 3\n")])
    job.wait_lines()
    before = job.status()["newest_line"]
    kill_node(sandbox, job, 1, 3)
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= before > 0
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_a_spare_of_the_lost_domain_is_preferred(sandbox, programs, domains):
    """So copies are apart as before, also after a restart."""
    job = sandbox.run(workload(programs, seconds=6),
                      options=[*on_nodes(4), "--spares", "2", "--failure-domains", domains(TEXT), "--max-restarts", "1"])
    job.wait_lines()
    before = job.status()
    assert_apart(before)
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    for rank in range(4):
        was = node_of(before, rank)
        assert node_of(status, rank) == (5 if was == 1 else was)
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    assert_apart(job.status())
    job.kill_rank(0)
    assert job.wait() == 75
    job.restart(options=["--max-restarts", "3"])
    status = job.wait_epoch(3)
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    assert_apart(job.status())
    job.finish()
    assert "their own failure domain" not in job.errors
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.parametrize("text, options, words", [
    ("left 0 1 2\nright 3\n", [], "3 of the job's 4 nodes are in domain left, so that not all of them can have their copies"),
    ("left 0 1\nright 2\n", [], "node 3 is in no domain"),
    ("left 0 1\nright 1 2 3\n", [], "line 2: 1 is in another domain already"),
    ("left\n", [], "line 1: left has no host"),
    ("left 0 1\nright 2 3\n", ["--redundancy", "SINGLE"], "is for a job on several nodes that hold copies"),
    (None, [], "No such file"),
])
def test_wrong_use(sandbox, domains, text, options, words):
    path = domains(text) if text else "/nowhere/domains"
    done = sandbox.belay("run", *on_nodes(4), *options, "--failure-domains", path, "--", "mpirun", "true")
    assert done.returncode == 64 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
