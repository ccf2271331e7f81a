"""Waits, timers, clocks and signals under frequent lines and across restarts."""

import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, kill_three_times

ANOTHER_BOOT = ["unshare", "--time", "--fork", "--monotonic", "-600", "--boottime", "-600"]


def kill_once(job):
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def test_timed_waits(sandbox, programs):
    """Each lasts as long as it was told, and reports nothing else; no clock steps back."""
    kill_once(sandbox.run(programs.test_program("time_waits", "--steps", 4, ranks=2), interval="200ms"))


def test_waits_on_sockets(sandbox, programs):
    """SO_RCVTIMEO and SO_SNDTIMEO; a restart does not bring sockets back, so nobody is killed."""
    job = sandbox.run(programs.test_program("time_waits", "--steps", 2, "--mode", "sockets", ranks=2),
                      interval="200ms")
    job.wait_committed(3)
    assert job.wait() == 0
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
    job.wait()
    assert_recovered(job)


def test_timers(sandbox, programs):
    """Interval timers and those of timer_create, by signal, in a thread, to a thread, and asked."""
    kill_once(sandbox.run(programs.test_program("time_timers", "--steps", 200, ranks=2), interval="200ms",
                          seconds=4))


def test_pending_signals(sandbox, programs):
    kill_once(sandbox.run(programs.test_program("time_signals", "--steps", 240, ranks=2), interval="200ms",
                          seconds=3))


def test_handlers(sandbox, programs):
    """They end waits, and only they do; calls are restarted; a jump out of one leaves nothing behind."""
    kill_once(sandbox.run(programs.test_program("time_signals", "--steps", 40, "--mode", "handlers", ranks=2),
                          interval="200ms"))


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
