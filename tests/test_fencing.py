"""Nodes that are cut off, or whose processes stand still: no two epochs run at once, and nothing is written by ranks of one
that is over (docs/line.md, "Epochs and the lease"). Hosts are namespaces (lib/hosts.py)."""

import dataclasses
import os
import re
import signal
import subprocess
import time

import pytest

from belaytest import assert_same_result, newest_line
from nodes import homes, states
from waiting import wait_for
from witness import Witness

pytestmark = pytest.mark.hosts("a", "b")

LEASE_S = 6
# If all stand still but the ranks, nobody else is left to end these.
STOPPED = {"agent": ["belayd"], "relay": ["belay-relay"], "agent and relay": ["belayd", "belay-relay"],
           "not the ranks": ["belayd", "belay-keeper", "belay-relay", "orted"],
           "all": ["belayd", "belay-keeper", "belay-relay", "orted", "programs/apart"]}


@pytest.fixture(name="witness")
def made_witness(hosts):
    seen = Witness(hosts.shared)
    yield seen
    seen.close()


def run(sandbox, programs, hosts, witness, hosts_words="a:2,b:2", options=()):
    """A job whose ranks run apart for some seconds, and have committed lines; the job and its status."""
    undo = os.path.join(hosts.shared, "undo")
    os.mkdir(undo, 0o700)
    program = programs.test_program("apart", "--steps", 4000, "--seconds", 40, "--mode", witness.path)
    job = sandbox.run(dataclasses.replace(program, outputs="apart-*"), hosts=hosts_words, options=["--undo-dir", undo, *options])
    job.wait_lines()
    return job, job.status()


def pids_on(hosts, host, *names):
    """By the ends of their programs' paths; the ranks are "apart"."""
    return [pid for pid, command in hosts.processes(host).items() if command.split()[0].endswith(names)]


def signal_on(hosts, host, name, pids):
    subprocess.run(hosts.on(host, "kill", f"-{name}", *map(str, pids)), check=True)


def let_go_on(hosts, host, pids):
    """Whoever goes on first may end the others before they are told."""
    told = 'for pid; do kill -CONT "$pid" 2> /dev/null || ! test -e "/proc/$pid" || exit 1; done'
    subprocess.run(hosts.on(host, "sh", "-c", told, "sh", *map(str, pids)), check=True)


def assert_gone_on(job, status, before, witness):
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert status["restarts_from_start"] == 0
    assert job.finish() == 0
    witness.assert_one_at_a_time(job.status()["restarts"])
    assert_same_result(job)


def assert_undisturbed(job, witness):
    """For longer than a lease."""
    job.wait_committed(newest_line(job.status()) + 3 * LEASE_S)
    assert job.status()["epoch"] == 1, job.errors
    assert job.finish() == 0
    witness.assert_one_at_a_time(0)
    assert_same_result(job)


@pytest.mark.parametrize("host", ["a", "b"])
def test_a_host_is_cut_off(sandbox, programs, hosts, witness, host):
    """The arbiter's host is a; it goes on alone in both cases."""
    job, before = run(sandbox, programs, hosts, witness)
    hosts.unplug(host)
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 0, 0]
    assert not pids_on(hosts, "b", "programs/apart")
    assert_gone_on(job, status, before, witness)
    hosts.crash("b")  # its agent holds on to the images


SCHEMES = pytest.mark.parametrize("scheme", ["PARTNER", pytest.param("XOR", marks=pytest.mark.campaign)])


@pytest.mark.hosts("a", "b", "c")
@SCHEMES
def test_the_arbiter_is_cut_off_from_what_it_needs(sandbox, programs, hosts, witness, scheme):
    """It lacks images that only other hosts hold, or could make again: it calls them, then the job is held, and nobody else goes on
    with it."""
    job, _ = run(sandbox, programs, hosts, witness, hosts_words="a:1,b:1,c:2", options=["--recall", "3s", "--redundancy", scheme])
    hosts.unplug("a")
    assert job.wait() == 75
    assert "hosts b, c may still hold what is missing: called for 3 s" in job.errors
    last = job.errors.splitlines()[-1]
    why = {"PARTNER": "", "XOR": ", and too few images and parity are left to make them again"}[scheme]
    assert re.search(rf"of line \d+, no node holds the images of rank[^;]* any more{why}; nodes? 0 holds? those of rank", last), last
    assert "hosts b, c may still hold what is missing, and were not reached" in last
    assert "'belay restart job' goes on" in last
    for host in ("b", "c"):
        wait_for(lambda host=host: not pids_on(hosts, host, "programs/apart"), 20, f"the end of the ranks on {host}")
        hosts.crash(host)
    witness.assert_one_at_a_time(0)


@pytest.mark.campaign
@pytest.mark.hosts("a", "b", "c")
@pytest.mark.parametrize("how", ["cut off", "relays", "stopped"])
def test_silent_hosts_are_called_back(sandbox, programs, hosts, witness, how):
    """Two hosts of three are lost for the job at once, and hold what nobody else has: the job goes on once enough of it is there."""
    job, before = run(sandbox, programs, hosts, witness, hosts_words="a:1,b:1,c:2")
    if how == "cut off":
        hosts.unplug("a")
        wait_for(lambda: "may still hold what is missing" in job.errors, 40, "a call")
        hosts.plug("a")
    elif how == "stopped":
        stopped = {host: pids_on(hosts, host, *STOPPED["all"]) for host in ("b", "c")}
        for host, pids in stopped.items():
            signal_on(hosts, host, "STOP", pids)
        wait_for(lambda: "may still hold what is missing" in job.errors, 60, "a call")
        for host, pids in stopped.items():
            let_go_on(hosts, host, pids)
    else:
        for host in ("b", "c"):
            signal_on(hosts, host, "KILL", pids_on(hosts, host, "belay-relay"))
    status = job.wait_epoch(2, 60)
    assert "is there again, with what it holds" in job.errors  # of one of them: the other one may be a spare, if that suffices
    assert_gone_on(job, status, before, witness)


@pytest.mark.campaign
@pytest.mark.hosts("a", "b", "c")
@SCHEMES
def test_a_job_that_was_held_goes_on(sandbox, programs, hosts, witness, scheme):
    """Its hosts were not called for long enough: belay restart does without nothing that they hold."""
    job, before = run(sandbox, programs, hosts, witness, hosts_words="a:1,b:1,c:2", options=["--recall", "1s", "--redundancy", scheme])
    hosts.unplug("a")
    assert job.wait() == 75
    hosts.plug("a")
    job.restart()
    status = job.wait_epoch(2, 60)
    assert_gone_on(job, status, before, witness)


@pytest.mark.campaign
def test_a_host_with_the_only_images_is_called_back(sandbox, programs, hosts, witness):
    job, before = run(sandbox, programs, hosts, witness, options=["--redundancy", "SINGLE"])
    hosts.unplug("b")
    wait_for(lambda: "host b may still hold what is missing" in job.errors, 40, "a call")
    hosts.plug("b")
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 1, 1]
    assert_gone_on(job, status, before, witness)


@pytest.mark.hosts("a", "b", "c")
def test_one_host_of_three_is_cut_off(sandbox, programs, hosts, witness):
    job, before = run(sandbox, programs, hosts, witness, hosts_words="a:2,b:1,c:1")
    hosts.unplug("c")
    status = job.wait_epoch(2, 60)
    assert [node["state"] for node in status["nodes"]] == ["member", "member", "lost"]
    assert_gone_on(job, status, before, witness)
    hosts.crash("c")


def stop_belay_run(hosts):
    signal_on(hosts, "a", "STOP", pids_on(hosts, "a", "bin/belay"))


def let_belay_run_go_on(hosts, job):
    """And its guard, and nsenter, which stops with its child."""
    let_go_on(hosts, "a", pids_on(hosts, "a", "bin/belay"))
    os.kill(job.process.pid, signal.SIGCONT)


def test_belay_run_stands_still(sandbox, programs, hosts, witness):
    """For longer than the lease: all ranks are ended, and it goes on with the next epoch."""
    job, before = run(sandbox, programs, hosts, witness)
    stop_belay_run(hosts)
    for host in ("a", "b"):
        wait_for(lambda host=host: not pids_on(hosts, host, "programs/apart"), 20, f"the end of the ranks on {host}")
    let_belay_run_go_on(hosts, job)
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 1, 1]
    assert_gone_on(job, status, before, witness)


def test_belay_run_stands_still_for_a_short_time(sandbox, programs, hosts, witness):
    job, _ = run(sandbox, programs, hosts, witness)
    stop_belay_run(hosts)
    time.sleep(LEASE_S / 4)  # that is what is tested
    let_belay_run_go_on(hosts, job)
    assert_undisturbed(job, witness)


@pytest.mark.campaign
def test_an_agent_is_killed_alone(sandbox, programs, hosts, witness):
    """Its ranks run on until the next agent ends them, before it answers: the lease need not be waited for."""
    job, before = run(sandbox, programs, hosts, witness)
    signal_on(hosts, "b", "KILL", pids_on(hosts, "b", "belayd"))
    status = job.wait_epoch(2, 60)
    assert states(status) == ["member", "member"]
    assert "s for the end of the leases" not in job.errors
    assert_gone_on(job, status, before, witness)


@pytest.mark.parametrize("what", [what if what in ("all", "agent") else pytest.param(what, marks=pytest.mark.campaign)
                                  for what in STOPPED])
def test_processes_of_a_host_stand_still(sandbox, programs, hosts, witness, what):
    """For longer than the lease. What they do when they go on is nothing that anybody sees."""
    job, before = run(sandbox, programs, hosts, witness)
    pids = pids_on(hosts, "b", *STOPPED[what])
    signal_on(hosts, "b", "STOP", pids)
    status = job.wait_epoch(2, 60)
    count = len(witness.rows)
    wait_for(lambda: len(witness.rows) > count + 20, 20, "more steps")
    let_go_on(hosts, "b", pids)
    wait_for(lambda: not [pid for pid in pids_on(hosts, "b", "programs/apart") if pid in pids], 20, "the end of old ranks")
    assert_gone_on(job, status, before, witness)
    hosts.crash("b")


@pytest.mark.parametrize("what", ["all", *(pytest.param(what, marks=pytest.mark.campaign) for what in ("agent", "relay"))])
def test_processes_of_a_host_stand_still_for_a_short_time(sandbox, programs, hosts, witness, what):
    job, _ = run(sandbox, programs, hosts, witness)
    pids = pids_on(hosts, "b", *STOPPED[what])
    signal_on(hosts, "b", "STOP", pids)
    time.sleep(LEASE_S / 4)  # that is what is tested
    let_go_on(hosts, "b", pids)
    assert_undisturbed(job, witness)


@pytest.mark.campaign
@pytest.mark.limit(200)
@pytest.mark.hosts("a", "b", "c")
def test_two_hosts_do_not_reach_each_other(sandbox, programs, hosts, witness):
    """Both reach a, the arbiter's: the job begins again once, and then goes on without one of the two."""
    job, before = run(sandbox, programs, hosts, witness, hosts_words="a:1,b:2,c:1")
    hosts.cut("b", "c")
    status = job.wait_epoch(3, 90)
    assert "the job goes on without node 2" in job.errors
    assert states(status) == ["member", "member", "lost"] and 2 not in homes(status)
    assert not pids_on(hosts, "c", "programs/apart")
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert job.finish() == 0
    witness.assert_no_two_at_a_time()
    assert_same_result(job)
