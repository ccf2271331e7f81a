"""Deltas to other nodes in whole pages and in lines of 64 bytes: the copies are the images, byte by byte, whatever was sent."""

import json

import pytest

from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, node_of, on_nodes, workload

TRACKERS = ["pagemap_scan", "soft_dirty", "bookkeeping", "full"]


def deltas_of(status):
    """Lines that committed by deltas."""
    return [line for line in status["lines"] if line["state"] == "committed" and line["page_parts"] + line["line_parts"] > 0]


def assert_sent(status, granularity):
    """By what was asked for; never more than whole pages would have been."""
    lines = deltas_of(status)
    assert lines
    for line in lines:
        assert 0 < line["sent_bytes"] <= line["sent_page_bytes"]
        assert line["page_model_ms"] > 0 and line["line_model_ms"] > 0
        if granularity == "page":
            assert line["line_parts"] == 0 and line["sent_bytes"] == line["sent_page_bytes"]
    if granularity == "line":
        assert any(line["line_parts"] > 0 and line["sent_bytes"] < line["sent_page_bytes"] for line in lines)


def assert_shown(sandbox):
    """By `belay inspect` and `belay advise`."""
    lines = json.loads(sandbox.belay("inspect", "job", "--json").stdout)["lines"]
    assert len(lines) >= 4 and all(line["measured_ms"] >= line["send_ms"] > 0 for line in lines)
    table = sandbox.belay("inspect", "job").stdout.splitlines()
    copies, sent = table[: table.index("")], table[table.index("") + 1:]
    assert copies[0].split()[:2] == ["line", "ahead"] and sent[0].split()[:2] == ["line", "pages"]
    assert len(copies) > len(lines) and len(sent) > len(lines)
    advice = json.loads(sandbox.belay("advise", "job", "--json").stdout)
    schemes = {scheme["scheme"]: scheme for scheme in advice["schemes"]}
    assert advice["nodes"] == 2 and advice["lines"] >= 4 and advice["send_bytes_per_s"] > 0
    assert [name for name, scheme in schemes.items() if scheme["fits"]] == ["SINGLE", "PARTNER"]
    assert advice["image_bytes"] < schemes["XOR:4"]["memory_bytes"] < schemes["PARTNER"]["memory_bytes"]
    assert schemes["SINGLE"]["line_bytes"] == 0 < schemes["PARTNER"]["line_bytes"] <= advice["staged_bytes"] * 1.02
    assert "2 of each 6 nodes (more than there are)" in sandbox.belay("advise", "job").stdout


def run_and_lose_a_node(sandbox, program, granularity, *options):
    """The ranks of the lost node go on from copies that deltas have made; all images are compared with their sums all the time."""
    job = sandbox.run(program, interval="200ms",
                      options=[*on_nodes(2), "--granularity", granularity, "--scrub-interval", "100ms", *options])
    job.wait_status(lambda status: len(deltas_of(status)) >= 4)
    assert_sent(job.status(), granularity)
    assert_shown(sandbox)
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert [node_of(status, rank) for rank in range(status["ranks"])] == [0] * status["ranks"]
    job.finish()
    assert "damaged" not in job.errors
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.parametrize("granularity", ["line", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("page", "auto"))])
def test_copies_are_the_images(sandbox, programs, granularity):
    program = programs.test_program("mem_ops", "--steps", 200, "--seconds", 4, ranks=2)
    sandbox.environment["BELAY_CHILDREN"] = "lose"  # one runs at each line
    run_and_lose_a_node(sandbox, program, granularity)


@pytest.mark.campaign
@pytest.mark.parametrize("policy", ["precopy", "sequential"])
@pytest.mark.parametrize("tracker", TRACKERS)
def test_with_each_tracker_and_policy(sandbox, programs, belay, tracker, policy):
    if belay("run", "--tracker", tracker, "--", "true").returncode != 0:
        pytest.skip(f"{tracker} is not offered here")
    program = programs.test_program("mem_ops", "--steps", 400, "--seconds", 8, ranks=2)
    sandbox.environment["BELAY_CHILDREN"] = "lose"  # one runs at each line
    run_and_lose_a_node(sandbox, program, "line", "--tracker", tracker, "--policy", policy)


def test_an_unknown_granularity_is_refused(sandbox, programs):
    program = programs.test_program("ring", "--steps", 10, "--seconds", 1, ranks=2)
    job = sandbox.run(program, options=["--granularity", "lines"])
    assert job.wait() == 64
    assert "there is no granularity 'lines': page, line or auto" in job.errors
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.parametrize("scheme, nodes", [("PARTNER", 2), ("XOR", 3)])
@pytest.mark.parametrize("word", ["lz4", "zstd"])
def test_compressed_over_a_slow_link(sandbox, programs, scheme, nodes, word):
    """Less is sent once the link has shown to be slow, and what is held is what was captured."""
    program = programs.test_program("mem_dirty", "--value", 16, "--steps", 200, "--seconds", 2, ranks=nodes)
    job = sandbox.run(program, interval=None, BELAY_FAULT="fabric.chunk=delay:40",
                      options=[*on_nodes(nodes), "--redundancy", scheme, "--granularity", "page", "--tracker", "full", "--compress", word])
    job.wait_step(2)
    for _ in range(3):
        assert sandbox.belay("checkpoint", "job").returncode == 0
    first, *_, last = job.status()["lines"]
    assert 0 < last["sent_bytes"] < first["sent_bytes"] / 2, (first, last)
    done = sandbox.belay("verify", "job")
    assert (done.returncode, done.stderr) == (0, "")
    kill_node(sandbox, job, 1)
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


def test_no_such_compression(sandbox, programs):
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--compress", "gzip"])
    assert job.wait() != 0
    assert "there is no compression 'gzip': none, lz4 or zstd" in job.errors
