"""Lines that copy what changed: the same images, the same results, whatever the program does to its memory."""

import re

import pytest

from belaytest import assert_recovered, lines_of_belay

TRACKERS = ["pagemap_scan", "bookkeeping", "soft_dirty", "full"]
POLICIES = ["sequential", "precopy"]
# `full` never copies ahead.
WAYS = [(tracker, policy) for tracker in TRACKERS for policy in POLICIES if (tracker, policy) != ("full", "precopy")]


def memory_program(programs, seconds=4):
    return programs.test_program("mem_ops", "--steps", 50 * seconds, "--seconds", seconds)


def offered(belay, tracker):
    """Whether this machine can run a job with the tracker."""
    return belay("run", "--tracker", tracker, "--", "true").returncode == 0


def known_trackers(belay):
    """As the refusal of an unknown one names them."""
    said = belay("run", "--tracker", "guess", "--", "true").stderr
    return set(re.findall(r"[a-z_]+", said.rpartition("'guess': ")[2])) - {"or", "auto"}


def test_every_tracker_is_tested(belay):
    assert "full" in known_trackers(belay) and known_trackers(belay) <= set(TRACKERS)


@pytest.mark.parametrize("tracker,policy", WAYS)
def test_kills_amid_memory_operations(sandbox, programs, belay, tracker, policy):
    if tracker not in known_trackers(belay) or not offered(belay, tracker):
        pytest.skip(f"{tracker} is not offered here")
    job = sandbox.run(memory_program(programs, 3), interval="200ms",
                      options=["--tracker", tracker, "--policy", policy])
    line = job.wait_committed(2)
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.wait()
    assert_recovered(job)


def unseen_program(programs, mode):
    return programs.test_program("mem_unseen", "--mode", mode, "--steps", 60, "--seconds", 3)


@pytest.mark.parametrize("mode,word", [("direct", "O_DIRECT"), ("others", "process_vm_writev")])
def test_writes_that_no_page_table_shows(sandbox, programs, mode, word):
    """They are noticed, told in one line, and what they write is in the lines."""
    job = sandbox.run(unseen_program(programs, mode), interval="100ms")
    job.wait_committed(3)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 2)
    job.wait()
    assert_recovered(job)
    assert sum(word in line for line in lines_of_belay(job.errors)) == 2  # once for each epoch


def test_messages_that_the_sender_writes(sandbox, programs):
    """Open MPI copies large messages by process_vm_readv, or so when it is told to."""
    job = sandbox.run(memory_program(programs, 3), interval="200ms", OMPI_MCA_btl="self,vader",
                      OMPI_MCA_btl_vader_single_copy_mechanism="cma",
                      OMPI_MCA_btl_vader_flags="send,put,inplace")
    job.wait_committed(2)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 2)
    job.wait()
    assert_recovered(job)
    assert any("process_vm_writev" in line for line in lines_of_belay(job.errors)), job.errors


def test_a_line_copies_what_changed(sandbox, programs, belay):
    """Of a program that writes little, later lines copy a small part of its memory, also after a restart."""
    if not offered(belay, "pagemap_scan"):
        pytest.skip("this kernel does not offer pagemap_scan")
    job = sandbox.run(programs.test_program("mem_dirty", "--value", 64, "--steps", 400, "--seconds", 4))
    job.wait_committed(3)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 3)
    lines = [line for line in job.status()["lines"] if line["state"] == "committed"]
    assert lines[0]["captured_bytes"] > 4 * (64 << 20)
    for line in lines[1:]:
        assert line["captured_bytes"] < lines[0]["captured_bytes"] / 5, line
        assert line["image_bytes"] > 4 * (64 << 20), line
    job.wait()
    assert_recovered(job)


def test_unknown_tracker_is_refused(sandbox, programs, belay):
    done = belay("run", "--tracker", "guess", "--", "mpirun", "-n", "1", "true")
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if "guess" in line and "pagemap_scan" in line]


def test_line_beyond_the_limit_is_in_the_next(sandbox, programs, belay):
    """A line that --memory does not hold aborts and says so; the job goes on, and a later one commits."""
    job = sandbox.run(programs.test_program("mem_dirty", "--mode", "burst", "--value", 16, "--steps", 300,
                                            "--seconds", 4), options=["--memory", "150M"])
    status = job.wait_status(lambda status: any(line["state"] == "aborted" and "--memory" in line["reason"]
                                                for line in status["lines"]), 30, "an aborted line")
    last = status["lines"][-1]["line"]
    job.wait_committed(last + 1)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)
