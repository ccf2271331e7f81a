"""The host of `belay run` is lost: `belay restart` on another one of the job's hosts goes on. As root only."""

import os
import shutil
import signal
import subprocess

import pytest

from belaytest import assert_same_result, newest_line
from nodes import homes, is_held_twice, workload
from programs import PACE
from waiting import wait_for

pytestmark = pytest.mark.hosts("a", "b", "c")


LEASE = ["--lease", "3s"]  # a restart waits for its end


def lose_a(sandbox, programs, hosts, places):
    """A job with lines that are held twice, whose first host crashes. Commands run on host b then. Returns job and status."""
    job = sandbox.run(workload(programs), hosts=places, options=LEASE)
    job.wait_lines()
    job.wait_status(is_held_twice, 30, "copies")
    job.wait_committed(newest_line(job.status()) + 1)
    before = job.status()
    hosts.crash("a")
    job.process.kill()
    job.process.wait()
    sandbox.at = "b"
    return job, before


def line_on(job, places):
    return ["mpirun", "--host", places, "-x", PACE, *job.program.argv, "--trace", job.trace_path]


def assert_ended_well(job, shown, before):
    """With all of the output but for what was shown since the line, and is shown again."""
    job.finish()
    reference, output = job.sandbox.programs.reference(job.program), job.read("out")
    assert job.process.returncode == 0, job.errors
    assert output.startswith(shown) and reference.stdout.endswith(output[len(shown):]) and len(output) >= len(reference.stdout)
    status = job.status()
    assert status["state"] == "finished" and status["history"][-1]["restored_line"] >= newest_line(before) >= 1


def test_on_one_of_two_that_are_left(sandbox, programs, hosts):
    """It is the job's first host from then on: tools there see all of it, and it can lose the other one."""
    job, before = lose_a(sandbox, programs, hosts, "a:2,b:1,c:1")
    shown = job.read("out")
    job.restart(line_on(job, "b:2,c:2"))
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= newest_line(before)
    assert sorted(set(homes(status))) == [0, 1]
    job.wait_status(is_held_twice, 30, "copies")
    line = job.wait_committed(newest_line(job.status()) + 1)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    job.wait_committed(line + 2)
    hosts.crash("c")
    assert set(homes(job.wait_epoch(3, 60))) == {0}
    assert_ended_well(job, shown, before)


@pytest.mark.hosts("a", "b")
def test_on_the_only_one_that_is_left(sandbox, programs, hosts):
    """Without a launch line it says that one is needed. A rank is lost there then, and the recorded line serves the next restart."""
    job, before = lose_a(sandbox, programs, hosts, "a:2,b:2")
    done = sandbox.belay("restart", "job")
    assert done.returncode == 64 and "give a launch line for the hosts that are left" in done.stderr, done.stderr
    shown = job.read("out")
    job.restart(line_on(job, "b:4"))
    status = job.wait_epoch(2, 60)
    assert set(homes(status)) == {0}
    job.wait_committed(newest_line(status) + 2)
    job.kill_rank_on("b", 1)
    job.wait_epoch(3, 60)
    assert_ended_well(job, shown, before)


@pytest.mark.hosts("a", "b")
def test_without_any_line(sandbox, programs, hosts):
    """Nothing was committed before the loss: one line says so, and nothing is kept."""
    job = sandbox.run(workload(programs), hosts="a:2,b:2", interval=None)
    job.wait_step(2)
    hosts.crash("a")
    job.process.kill()
    job.process.wait()
    sandbox.at = "b"
    done = sandbox.belay("restart", "job", "--", *line_on(job, "b:4"))
    assert (done.returncode, done.stderr) == (66, 'belay: there is no job "job" (belay list)\n')
    sandbox.belay("clean", "job")  # this host's record of its end
    for folder in sandbox.undo_folders():  # the lost host's agent would have removed it
        shutil.rmtree(folder)


def belay_on(hosts, name):
    return next(pid for pid, command in hosts.processes(name).items() if command.split(" ")[0].endswith("/belay"))


def wait_lost(sandbox):
    """The part of the job on the host where commands run has ended."""
    wait_for(lambda: (sandbox.status("job") or {}).get("state") == "lost", 30, "the end of the ranks")


@pytest.mark.campaign
@pytest.mark.hosts("a", "b")
def test_the_job_has_gone_on_without_this_host(sandbox, programs, hosts):
    """Host b was cut off, and the job went on on host a: it does not go on on b as well, from an older line."""
    job = sandbox.run(workload(programs), hosts="a:2,b:2", options=[*LEASE, "--comeback", "0"])
    job.wait_lines()
    job.wait_status(is_held_twice, 30, "copies")
    hosts.unplug("b")
    job.wait_epoch(2, 60)
    sandbox.at = "b"
    wait_lost(sandbox)
    done = sandbox.belay("restart", "job", "--", *line_on(job, "b:4"))
    assert done.returncode == 64 and "epoch 2 was begun on host a" in done.stderr, done.stderr
    sandbox.belay("clean", "job")
    sandbox.at = "a"
    assert "is not protected" not in job.errors
    hosts.crash("b")
    job.finish()
    assert_same_result(job)


@pytest.mark.hosts("a", "b")
def test_a_former_arbiter_is_there_again(sandbox, programs, hosts):
    """`belay run` stands still until the job has gone on from host b: then it does nothing more."""
    job = sandbox.run(workload(programs), hosts="a:2,b:2", options=LEASE)
    job.wait_lines()
    job.wait_status(is_held_twice, 30, "copies")
    before, first = job.status(), job.process
    pid = belay_on(hosts, "a")
    subprocess.run(hosts.on("a", "kill", "-STOP", str(pid)), check=True)
    hosts.unplug("a")
    sandbox.at = "b"
    wait_lost(sandbox)
    job.restart(line_on(job, "b:4"))
    status = job.wait_epoch(2, 60)
    hosts.plug("a")
    subprocess.run(hosts.on("a", "kill", "-CONT", str(pid)), check=True)
    os.kill(first.pid, signal.SIGCONT)  # nsenter stands still with its child
    assert first.wait(30) == 75
    assert "has gone on with it on host b: this process ends" in job.errors
    job.wait_committed(newest_line(status) + 2)
    job.finish()
    assert job.status()["epoch"] == 2 and job.status()["history"][-1]["restored_line"] >= newest_line(before)
    assert job.process.returncode == 0 and job.sandbox.programs.reference(job.program).stdout == job.read("out")
    sandbox.belay("clean")
    sandbox.at = "a"
    sandbox.belay("clean")
    assert sandbox.undo_folders() == []
