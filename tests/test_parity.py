"""Parity over sets of nodes: lines, the loss of nodes, images that are made again (docs/parity.md)."""

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, node_of, on_nodes, run_with_agent, workload
from waiting import wait_for


def with_parity(count, scheme):
    return [*on_nodes(count), "--redundancy", scheme]


def lose(job, sandbox, *numbers):
    """Kill these nodes at once; the job goes on, and a line commits. Returns the line that was gone on from."""
    epoch = len(job.status()["history"])
    before = job.status()["newest_line"]
    kill_node(sandbox, job, *numbers)
    status = job.wait_epoch(epoch + 1)
    restored = status["history"][-1]["restored_line"]
    assert restored >= before > 0
    assert status["history"][-1]["fetch_ms"] > 0  # made again: there are no copies
    assert not {node_of(status, rank) for rank in range(4)} & set(numbers)
    job.wait_committed(restored + 1)
    return restored


@pytest.mark.parametrize("number", [0, 3])
def test_xor_survives_the_loss_of_a_node(sandbox, programs, number):
    """No node has a copy of the lost image: it is made again from the others'."""
    job = sandbox.run(workload(programs), options=with_parity(4, "XOR"))
    job.wait_lines()
    lose(job, sandbox, number)
    job.finish()
    assert f"node {number} was lost: its ranks go on from images that are made again from parity" in job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_rs_survives_two_losses_at_once(sandbox, programs):
    job = sandbox.run(workload(programs), options=with_parity(4, "RS:2+2"))
    job.wait_lines()
    lose(job, sandbox, 1, 2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_losses_one_after_another(sandbox, programs):
    """Sets of four, three and two nodes: each line after a loss makes parity anew."""
    job = sandbox.run(workload(programs, seconds=12), options=with_parity(4, "XOR"))
    job.wait_lines()
    for number in (1, 3):
        lose(job, sandbox, number)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_node_is_lost_as_another_image_is_made_again(sandbox, programs):
    """The second node has shares in the image of the first: with two nodes left, both are made."""
    job = run_with_agent(sandbox, 2, "agent.rebuild.give=kill", workload(programs), options=with_parity(4, "RS:2+2"))
    job.wait_lines()
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] > 0
    job.finish()
    assert_same_result(job)


@pytest.mark.campaign
def test_more_losses_than_parity(sandbox, programs):
    """Two nodes of a set with one block of parity: a clear end that names ranks."""
    job = sandbox.run(workload(programs), options=with_parity(4, "XOR"))
    job.wait_lines()
    kill_node(sandbox, job, 1, 2)
    assert job.wait() != 0
    assert "lost" in job.errors


def test_verify(sandbox, programs):
    """All that is held agrees after a line; a bit that flips in parity is told with its place, and mended by the next line."""
    job = run_with_agent(sandbox, 2, "agent.verify@8#2=error", workload(programs, seconds=8), interval=None,
                         options=with_parity(4, "XOR"))
    agrees = "4 images, 4 tables, parity of 4 slots"
    for line in range(1, 4):
        assert sandbox.belay("checkpoint", "job").returncode == 0
        done = sandbox.belay("verify", "job")
        if line == 2:
            assert done.returncode == 81
            assert "the parity of slot 0 of line 2 on node 2: ranks 0, 1, 3: damaged image: the page at 0x" in done.stderr
        else:
            assert (done.returncode, done.stderr) == (0, "") and f"line {line} on 4 nodes: {agrees}" in done.stdout
    job.finish()
    assert "the parity of slot 0 on node 2 is damaged in memory, and made anew at the next line" in job.errors
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_a_false_share_is_left_out(sandbox, programs):
    """A node's share in a lost image is not what it should be: the image is made without it, as there is more parity than it takes."""
    job = run_with_agent(sandbox, 2, "agent.rebuild.give=error", workload(programs), options=with_parity(4, "RS:2+2"))
    job.wait_lines()
    lose(job, sandbox, 1)
    job.finish()
    assert "it is made without what position 2 of the set has" in job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_damaged_parity_is_found_and_mended(sandbox, programs):
    """By the scrubber, without a restart: the set's next line makes it anew. It is good for a lost image then."""
    job = run_with_agent(sandbox, 2, "agent.scrub@8#2=error", workload(programs, seconds=8), interval=None,
                         options=[*with_parity(4, "XOR"), "--scrub-interval", "200ms"])
    for _ in range(2):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    wait_for(lambda: "the parity of slot 0 on node 2 is damaged in memory, and made anew at the next line" in job.errors,
             30, "what the scrubber says")
    assert sandbox.belay("verify", "job").returncode == 81
    for _ in range(2):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    done = sandbox.belay("verify", "job")
    assert (done.returncode, done.stderr) == (0, "")
    kill_node(sandbox, job, 1)
    assert job.wait_epoch(2)["history"][-1]["restored_line"] == 4
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["XOR", "RS:2+2"])
@pytest.mark.parametrize("point", ["agent.parity.folded", "agent.parity.kept", "agent.commit.recorded", "agent.apply.pages",
                                   "agent.apply.kept"])
def test_an_agent_dies_as_parity_is_made(sandbox, programs, point, scheme):
    """A holder's agent, at each step of the fold and of the commit: what is held afterwards is what it has to be."""
    job = run_with_agent(sandbox, 2, f"{point}#3=kill", workload(programs, seconds=8), options=with_parity(4, scheme))
    job.wait_epoch(2)
    job.wait_committed(4)
    done = sandbox.belay("verify", "job")
    assert done.returncode in (0, 74), done.stderr  # 74: lines commit all the time
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme, nodes, data, parity", [("PARTNER", 4, 1, 1), ("XOR:4", 4, 3, 1), ("RS:4+2", 6, 4, 2)])
def test_memory_follows_the_formula(sandbox, programs, scheme, nodes, data, parity):
    """What all nodes hold between lines: images, and m/k of them (coord/protection.h)."""
    program = programs.test_program("mem_dirty", "--value", 64, "--steps", 200, "--seconds", 2, ranks=nodes)
    job = sandbox.run(program, interval=None, options=with_parity(nodes, scheme))
    job.wait_step(2)
    for _ in range(3):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    status = job.status()
    wanted = status["lines"][-1]["image_bytes"] * (data + parity) / data
    assert abs(status["held_bytes"] / wanted - 1) < 0.03
    job.finish()
    assert_same_result(job)
