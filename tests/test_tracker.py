"""Lines that copy what changed: the same images, the same results, whatever the program does to its memory."""

import json

import pytest

from belaytest import assert_recovered

CHECKS = {"pagemap_scan": "pagemap scan", "soft_dirty": "soft-dirty", "bookkeeping": "bookkeeping"}  # of doctor
TRACKERS = [*CHECKS, "full"]


def memory_program(programs, seconds=4):
    return programs.test_program("mem_ops", "--steps", 50 * seconds, "--seconds", seconds)


def offered(belay, tracker):
    checks = json.loads(belay("doctor", "--json").stdout)["checks"]
    states = {check["name"]: check["state"] for check in checks}
    return tracker == "full" or states[CHECKS[tracker]] == "ok"


@pytest.mark.parametrize("tracker", TRACKERS)
def test_kills_amid_memory_operations(sandbox, programs, belay, tracker):
    if not offered(belay, tracker):
        pytest.skip(f"this kernel does not offer {tracker}")
    job = sandbox.run(memory_program(programs), interval="200ms", options=["--tracker", tracker])
    for _ in range(2):
        line = job.wait_committed()
        status = job.kill_and_recover()
        assert status["history"][-1]["restored_line"] >= line
        job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.wait()
    assert_recovered(job)


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
