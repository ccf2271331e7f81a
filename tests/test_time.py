"""Waits, timers, clocks and signals under frequent lines and across restarts."""

import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, kill_three_times, run_and_recover

ANOTHER_BOOT = ["unshare", "--time", "--fork", "--monotonic", "-600", "--boottime", "-600"]


def kill_once(job):
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_timed_waits(sandbox, programs):
    """Each lasts as long as it was told, and reports nothing else; no clock steps back."""
    kill_once(sandbox.run(programs.test_program("time_waits", "--steps", 4, ranks=2), interval="200ms"))


def test_waits_on_sockets(sandbox, programs):
    """SO_RCVTIMEO and SO_SNDTIMEO; a restart does not bring sockets back, so nobody is killed."""
    job = sandbox.run(programs.test_program("time_waits", "--steps", 2, "--mode", "sockets", ranks=2),
                      interval="200ms")
    job.wait_committed(3)
    assert job.finish() == 0
    assert_same_result(job)


def test_clocks_of_another_boot(sandbox, programs):
    """The restart is in a time namespace whose clocks are ten minutes behind."""
    if subprocess.run([*ANOTHER_BOOT, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no time namespaces here (root, Linux 5.6, ten minutes since the boot)")
    job = sandbox.run(programs.test_program("time_waits", "--steps", 4, ranks=2), interval="200ms",
                      options=["--max-restarts", "0"])
    job.wait_committed(2)
    job.kill_rank()
    assert job.wait() == 75
    job.restart([*ANOTHER_BOOT, *job.launch_line()])
    job.wait_epoch(2)
    job.finish()
    assert_recovered(job)


def test_timers(sandbox, programs):
    """Interval timers and those of timer_create, by signal, in a thread, to a thread, and asked."""
    kill_once(sandbox.run(programs.test_program("time_timers", "--steps", 200, ranks=2), interval="200ms",
                          seconds=4))


def test_timers_that_run_out_while_threads_stand_still(sandbox, programs):
    """Their signals come after the threads have parked, and before they are noted."""
    job = sandbox.run(programs.test_program("time_timers", "--steps", 200, ranks=2), interval="200ms", seconds=4,
                      BELAY_FAULT="rank.note#3=delay:1500")
    job.wait_committed(3)
    job.kill_rank()
    job.wait_epoch(2)
    job.finish()
    assert_recovered(job)


def test_pending_signals(sandbox, programs):
    kill_once(sandbox.run(programs.test_program("time_signals", "--steps", 240, ranks=2), interval="200ms",
                          seconds=3))


def test_handlers(sandbox, programs):
    """They end waits, and only they do; calls are restarted; a jump out of one leaves nothing behind."""
    kill_once(sandbox.run(programs.test_program("time_signals", "--steps", 40, "--mode", "handlers", ranks=2),
                          interval="200ms"))


def test_jumps_out_of_handlers(sandbox, programs):
    """Out of raise() and other calls that are served: a line finds the thread far below its old stack."""
    run_and_recover(sandbox, programs.test_program("jumps", "--steps", 30, ranks=2), interval="100ms", seconds=2)


def test_dispositions(sandbox, programs):
    """All flags of actions, full sets, alternate stacks, jumps, and what children inherit."""
    run_and_recover(sandbox, programs.test_program("time_dispositions", "--steps", 16, ranks=2), interval="70ms")


def test_transfers(sandbox, programs):
    """Writes to pipes and the like, longer than the lines' interval: neither a line nor a restart ends one early."""
    run_and_recover(sandbox, programs.test_program("time_transfers", "--steps", 6, ranks=2), interval="50ms")


def test_transfers_on_sockets(sandbox, programs):
    """A restart does not bring these back, so nobody is killed."""
    job = sandbox.run(programs.test_program("time_transfers", "--steps", 3, "--mode", "sockets", ranks=2),
                      interval="50ms")
    job.wait_committed(5)
    assert job.finish() == 0
    assert_same_result(job)


def test_transfers_and_handlers(sandbox, programs):
    """A handler of the program ends them with what was done, or restarts them, as natively."""
    run_and_recover(sandbox, programs.test_program("time_transfers", "--steps", 5, "--mode", "handlers", ranks=2),
                    interval="50ms")


def calls_in_profile(program, path):
    """{function: number of calls} of what gprof says."""
    text = subprocess.run(["gprof", "-b", "-p", program, path], check=True, capture_output=True, text=True).stdout
    return {name: int(calls) for calls, name in re.findall(r"^ +[\d.]+ +[\d.]+ +[\d.]+ +(\d+) .* (\w+)$", text, re.M)}


def calls_in_coverage(notes, counts):
    """{function: number of calls} of what gcov says of a file with counts."""
    shutil.copy(notes, os.path.dirname(counts))
    done = subprocess.run(["gcov", "--json-format", "--stdout", os.path.basename(counts)], check=True,
                          capture_output=True, cwd=os.path.dirname(counts))
    return {function["name"]: function["execution_count"]
            for file in json.loads(done.stdout)["files"] for function in file["functions"]}


def test_muffled_launch(sandbox, programs):
    """What a process hands on by exec: a full mask, ignored and pending signals, an alarm; also through a restart."""
    program = programs.test_program("process_state", "--steps", 100, ranks=2)
    program = dataclasses.replace(program, argv=(os.path.join(programs.build, "muffle"), *program.argv))
    run_and_recover(sandbox, program, seconds=3)


def test_profiled_program(sandbox, programs, monkeypatch):
    """gprof, gcov, and a library whose constructor begins with a timer and a thread; it runs once."""
    steps, ranks = 150, 2
    coverage = os.path.join(sandbox.base, "coverage")
    monkeypatch.setenv("GCOV_PREFIX", os.path.join(sandbox.base, "native"))  # the run to compare with counts, too
    monkeypatch.setenv("GCOV_PREFIX_STRIP", "99")
    program = dataclasses.replace(programs.test_program("profiled", "--steps", steps, ranks=ranks), outputs="early-*")
    job = run_and_recover(sandbox, program, seconds=3, GMON_OUT_PREFIX="profile", GCOV_PREFIX=coverage,
                          GCOV_PREFIX_STRIP="99")
    profiles = glob.glob(job.path("profile.*"))
    assert len(profiles) == ranks
    for profile in profiles:
        calls = calls_in_profile(program.argv[0], profile)
        assert (calls["counted_step"], calls["counted_leaf"]) == (steps, steps * 1000)
    notes = os.path.join(programs.build, "profiled-profiled.gcno")
    calls = calls_in_coverage(notes, os.path.join(coverage, "profiled-profiled.gcda"))
    assert (calls["counted_step"], calls["counted_leaf"]) == (ranks * steps, ranks * steps * 1000)


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("kill", range(5))
@pytest.mark.parametrize("name, mode, steps", [("time_waits", "", 12), ("time_timers", "", 400),
                                               ("time_signals", "pending", 400), ("time_signals", "handlers", 120)])
def test_campaign_of_time(sandbox, programs, name, mode, steps, kill):
    """Three kills in a run."""
    pace = {} if name == "time_waits" else {"seconds": 8}
    job = sandbox.run(programs.test_program(name, "--steps", steps, "--mode", mode, ranks=2), interval="100ms",
                      **pace)
    kill_three_times(job, kill)
