"""Files that only one host has, open in ranks whose host is lost: they travel, or the restart is refused with their names."""

import dataclasses
import os
import subprocess

import pytest

from belaytest import assert_same_result, newest_line
from nodes import homes
from programs import PACE

pytestmark = pytest.mark.hosts("a", "b")
LEASE = ["--lease", "2s"]


def program_with(programs, mode, ranks=2):
    program = programs.test_program("files_local", "--mode", mode, "--steps", 200, "--seconds", 2, ranks=ranks)
    return dataclasses.replace(program, outputs="data-*")


def run(sandbox, program, *options, hosts="a:1,b:1", **more):
    return sandbox.run(program, hosts=hosts, options=[*LEASE, *options], **more)


def lose(job, host):
    """Returns the status after the ranks of the host have gone on elsewhere, from a line."""
    job.wait_lines()
    line = newest_line(job.status())
    job.sandbox.hosts.crash(host)
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= line >= 1 and status["restarts_from_start"] == 0
    return status


def finish_well(job):
    assert job.finish() == 0
    assert_same_result(job)
    assert "removed or replaced" not in job.errors


def lose_in_vain(job, *words):
    """The restart is refused for the reason that the words tell, and the images are kept."""
    job.wait_lines()
    job.sandbox.hosts.crash("b")
    assert job.wait() == 77
    for part in (*words, "its images are kept: 'belay restart job' goes on"):
        assert part in job.errors, job.errors
    assert "removed or replaced" not in job.errors
    job.sandbox.belay("clean", "job")
    hosts = job.sandbox.hosts
    if "c" in hosts.first:
        hosts.crash("c")  # its agent holds on to the images
    subprocess.run(hosts.on("a", "sh", "-c", "rm -rf /tmp/local-*"), check=True)


def test_open_files_travel(sandbox, programs):
    """Their contents, names, permissions and positions are what they were at the line."""
    job = run(sandbox, program_with(programs, "append+update+deep+input+scratch+unnamed"))
    assert homes(lose(job, "b")) == [0, 0]
    finish_well(job)
    assert "cannot go on" not in job.errors


def test_an_undo_directory_that_all_hosts_have(sandbox, programs, hosts):
    """What is noted there of the lost host's own files is left out: they are made anew."""
    folder = os.path.join(hosts.shared, "undo")
    os.mkdir(folder, 0o700)
    job = run(sandbox, program_with(programs, "append+update+deep"), "--undo-dir", folder)
    lose(job, "b")
    assert "/tmp/local-update-1 is left as it is: only a host that is lost had it" in job.errors
    finish_well(job)


def checkpoint(sandbox, job, steps):
    job.wait_step(max([step for _, step in job.steps()], default=0) + steps)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    job.wait_step(max(step for _, step in job.steps()) + steps)


def test_files_that_have_travelled_are_rolled_back(sandbox, programs, hosts):
    """Ranks are killed before the next line and after it: the files are those of the line each time."""
    job = run(sandbox, program_with(programs, "append+update+scratch"), interval=None)
    checkpoint(sandbox, job, 10)
    hosts.crash("b")
    job.wait_epoch(2, 60)
    job.wait_step(max(step for _, step in job.steps()) + 5)
    job.kill_rank_on("a", 1)
    job.wait_epoch(3, 60)
    checkpoint(sandbox, job, 5)
    job.kill_rank_on("a", 0)
    status = job.wait_epoch(4, 60)
    assert [epoch["restored_line"] for epoch in status["history"]] == [0, 1, 1, 2]
    finish_well(job)


@pytest.mark.hosts("a", "b", "c")
def test_a_file_that_ranks_of_a_host_share(sandbox, programs, hosts):
    """Each has a copy in its image; the newest one is the file, and they go on with one file."""
    program = program_with(programs, "common", ranks=4)
    line = ["mpirun", "-n", "4", "--host", "a:2,b:2,c:2", "-x", PACE, *program.argv]
    job = run(sandbox, program, "--spares", "1", line=line)
    assert homes(lose(job, "b")) == [0, 0, 2, 2]
    finish_well(job)


@pytest.mark.campaign
@pytest.mark.hosts("a", "b", "c")
def test_ranks_that_share_a_file_are_parted(sandbox, programs, hosts):
    """They would have a file each."""
    job = run(sandbox, program_with(programs, "common", ranks=4), hosts="a:1,b:2,c:1")
    job.wait_lines()
    for name in "ac":
        subprocess.run(hosts.on(name, "rm", "/tmp/local-common"), check=True)
    lose_in_vain(job, "had /tmp/local-common open", "different hosts now")


@pytest.mark.parametrize("mode, name", [
    ("update", "/tmp/local-update-1"),
    pytest.param("scratch", "/tmp/local-scratch-1 (deleted)", marks=pytest.mark.campaign),
    pytest.param("moved", "/tmp/local-moved-1/local-moved-1 (deleted)", marks=pytest.mark.campaign),
])
def test_what_does_not_travel(sandbox, programs, mode, name):
    """One line says so when a line finds it, and names the file; so does the end."""
    job = run(sandbox, program_with(programs, mode), "--file-limit", "64K")
    job.wait_lines()
    assert f"rank 1: {name} is open, and no other host has it" in job.errors
    assert job.errors.count("no other host has it") == 2
    lose_in_vain(job, f"the program had {name} open", "has not come along")


def test_another_file_is_in_the_place(sandbox, programs, hosts):
    """It is not touched, whatever it contains."""
    subprocess.run(hosts.on("a", "sh", "-c", "echo other > /tmp/local-append-1"), check=True)
    job = run(sandbox, program_with(programs, "append"))
    job.wait_lines()
    text = hosts.read("a", "/tmp/local-append-1")
    lose_in_vain(job, "had /tmp/local-append-1 open", "this host has another file there")
    assert text == "other\n"


@pytest.mark.campaign
def test_a_link_is_in_the_way(sandbox, programs, hosts):
    """Somebody has made a link where the program had a folder: nothing is written through it."""
    subprocess.run(hosts.on("a", "sh", "-c", "mkdir /tmp/elsewhere; ln -s elsewhere /tmp/local-deep-1"), check=True)
    lose_in_vain(run(sandbox, program_with(programs, "deep")), "had /tmp/local-deep-1/local-deep-1 open")
    assert hosts.files("a", "/tmp/elsewhere") == []
    subprocess.run(hosts.on("a", "rm", "-r", "/tmp/elsewhere"), check=True)


def copy_inputs(hosts, change=""):
    """The input of b's rank, on a as well."""
    path = "/tmp/local-input-1"
    text = subprocess.run(hosts.on("b", "cat", path), capture_output=True, check=True).stdout
    subprocess.run(hosts.on("a", "sh", "-c", f"umask 037; cat > {path}; touch -d @1 {path}; {change}"), input=text, check=True)


def look(hosts):
    return subprocess.run(hosts.on("a", "stat", "-c", "%i %Y %s", "/tmp/local-input-1"), capture_output=True, check=True).stdout


@pytest.mark.parametrize("limit", ["64K", pytest.param("64M", marks=pytest.mark.campaign)])
def test_an_input_that_both_hosts_have(sandbox, programs, hosts, limit):
    """The same contents will do, whatever its times are, within the limit and beyond it."""
    job = run(sandbox, program_with(programs, "input"), "--file-limit", limit)
    job.wait_lines()
    copy_inputs(hosts)
    before = look(hosts)
    lose(job, "b")
    assert look(hosts) == before
    finish_well(job)


@pytest.mark.campaign
@pytest.mark.parametrize("limit", ["64K", "64M"])
def test_an_input_that_differs(sandbox, programs, hosts, limit):
    """Of the same length, and one byte is another one."""
    job = run(sandbox, program_with(programs, "input"), "--file-limit", limit)
    job.wait_lines()
    copy_inputs(hosts, "printf x | dd of=/tmp/local-input-1 bs=1 seek=70000 conv=notrunc status=none")
    lose_in_vain(job, "had /tmp/local-input-1 open", "this host has another file there")


def test_files_that_all_hosts_have(sandbox, programs, hosts):
    """They are found, whatever the limit: nothing is said of them."""
    folders = [os.path.join(hosts.shared, name) for name in ("files", "undo")]
    for folder in folders:
        os.mkdir(folder, 0o700)
    program = program_with(programs, "update")
    line = ["mpirun", "--host", "a:1,b:1", "-x", PACE, "-x", f"TMPDIR={folders[0]}", *program.argv]
    job = run(sandbox, program, "--file-limit", "4K", "--undo-dir", folders[1], line=line)
    lose(job, "b")
    assert "no other host has it" not in job.errors
    finish_well(job)
