"""Hosts that differ: their clocks, the times of their files, the room on their disks."""

import dataclasses
import os
import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, newest_line
from nodes import homes
from test_hosts import workload

pytestmark = pytest.mark.hosts("a", "b")

DAY_S = 86400


def lose_b(job):
    """Its ranks go on on a, from a line."""
    job.wait_lines()
    line = newest_line(job.status())
    job.sandbox.hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0] * len(homes(status))
    assert status["history"][-1]["restored_line"] >= line >= 1 and status["restarts_from_start"] == 0
    job.finish()
    assert_same_result(job)


def clock_of(hosts, name):
    """CLOCK_MONOTONIC of the host, in seconds."""
    say = "import time; print(time.monotonic())"
    return float(subprocess.run(hosts.on(name, "/usr/bin/python3", "-c", say), capture_output=True, check=True).stdout)


@pytest.mark.parametrize("hosts", [{"clocks": {"a": 400 * DAY_S}}, {"clocks": {"b": 400 * DAY_S}}], indirect=True,
                         ids=["a is ahead", "b is ahead"])
@pytest.mark.parametrize("name", ["time_timers", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("ring", "sleepy"))])
def test_clocks_that_differ(sandbox, programs, hosts, name):
    """A host was started long before the other one; ranks that move find another clock. Timed waits and timers last as long as they should."""
    assert abs(clock_of(hosts, "a") - clock_of(hosts, "b")) > 300 * DAY_S
    lose_b(sandbox.run(workload(programs, name)))


@pytest.mark.parametrize("hosts", [{"clocks": {"a": 400 * DAY_S}}, {"clocks": {"b": 400 * DAY_S}}], indirect=True,
                         ids=["a is ahead", "b is ahead"])
def test_files_that_ranks_of_several_hosts_change_in_turn(sandbox, programs, hosts):
    """What was first since the line is undone last, whatever the clocks of the hosts say."""
    folder = os.path.join(hosts.shared, "undo")
    os.mkdir(folder, 0o700)
    program = programs.test_program("files", "--mode", "turns", "--steps", 400, "--seconds", 4)
    lose_b(sandbox.run(dataclasses.replace(program, outputs="data-*"), options=["--undo-dir", folder]))
    assert os.listdir(folder) == []


@pytest.mark.parametrize("hosts", [{"clocks": {"a": 400 * DAY_S}}], indirect=True, ids=["a is ahead"])
def test_files_that_were_changed_in_turn_when_a_rank_is_lost(sandbox, programs, hosts):
    """Both hosts are left, and put back in one order what ranks of both have changed."""
    folder = os.path.join(hosts.shared, "undo")
    os.mkdir(folder, 0o700)
    program = programs.test_program("files", "--mode", "turns", "--steps", 400, "--seconds", 4)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*"), options=["--undo-dir", folder])
    job.wait_lines()
    job.kill_rank_on("b", 2)
    job.wait_epoch(2, 60)
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.parametrize("hosts", [{"touched": {"b": ["/usr/lib/x86_64-linux-gnu/libmpi.so.40",
                                                      "/usr/lib/x86_64-linux-gnu/libopen-pal.so.40"]}}], indirect=True)
def test_libraries_with_other_times(sandbox, programs, hosts):
    """The same libraries, installed at another time: ranks go on with those of the other host."""
    path = os.path.realpath("/usr/lib/x86_64-linux-gnu/libmpi.so.40")
    times = {subprocess.run(hosts.on(name, "stat", "-c", "%Y", path), capture_output=True, check=True).stdout for name in "ab"}
    assert len(times) == 2
    lose_b(sandbox.run(workload(programs)))


@pytest.mark.parametrize("hosts", [{"run_sizes": {"b": "64k"}}], indirect=True)
def test_a_disk_without_room(sandbox, programs, hosts):
    """Nothing can be written where a host's agent has its records: lines are in memory all the same."""
    done = subprocess.run(hosts.on("b", "sh", "-c", "cat /dev/zero > /run/full"), capture_output=True, check=False)
    assert b"No space left" in done.stderr
    lose_b(sandbox.run(workload(programs)))
