"""Where files of a job on several hosts are kept as they were, when the user does not say: a folder that all hosts see."""

import dataclasses
import os
import stat
import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, newest_line
from test_hosts_preload import ABOUT_FILES, communicate, on_b, restart, start, wait_lines, wait_lost
from waiting import run, wait_for

pytestmark = pytest.mark.hosts("a", "b")
LEASE = ["--lease", "2s"]


def in_turns(programs, seconds=4):
    program = programs.test_program("files", "--mode", "turns", "--steps", 400, "--seconds", seconds)
    return dataclasses.replace(program, outputs="data-*")


def assert_made(job):
    """One folder above the job's, that nobody else can use, and nothing in the job's."""
    folder, = job.sandbox.undo_folders()
    assert os.path.dirname(folder) == os.path.dirname(job.folder)
    assert os.path.basename(folder).startswith(".belay-undo-job-")
    made = os.lstat(folder)
    assert (stat.S_ISDIR(made.st_mode), stat.S_IMODE(made.st_mode), made.st_uid) == (True, 0o700, os.geteuid())
    assert not [name for name in os.listdir(job.folder) if name.startswith(".")]
    return folder


def test_files_changed_in_turn_when_a_host_is_lost(sandbox, programs, hosts):
    """Without any option: what the lost host's ranks have changed is put back, in the order of the changes."""
    job = sandbox.run(in_turns(programs), options=LEASE)
    job.wait_lines()
    folder = assert_made(job)
    line = newest_line(job.status())
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= line >= 1 and status["restarts_from_start"] == 0
    assert job.finish() == 0
    assert_same_result(job)
    assert "--undo-dir" not in job.errors
    assert not os.path.exists(folder)


def test_files_changed_in_turn_when_a_rank_is_lost(sandbox, programs):
    """Both hosts are left, and put back in one order what ranks of both have changed."""
    job = sandbox.run(in_turns(programs))
    job.wait_lines()
    assert_made(job)
    job.kill_rank_on("b", 2)
    job.wait_epoch(2, 60)
    job.finish()
    assert_recovered(job, 1)
    assert sandbox.undo_folders() == []


def test_belay_run_is_killed(sandbox, programs, hosts):
    """`belay restart` uses the folder that there is, also for a host whose agent was killed; `belay stop` removes it."""
    job = sandbox.run(in_turns(programs, 20))
    job.wait_lines()
    folder = assert_made(job)
    pid = subprocess.run(hosts.on("a", "pgrep", "-x", "belay"), capture_output=True, text=True, check=True).stdout.split()[0]
    subprocess.run(hosts.on("a", "kill", "-9", pid), check=True)
    job.wait()
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 20, "the end of the launch")
    job.restart()
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= 1
    agent = next(pid for pid, command in hosts.processes("a").items() if "belayd" in command)
    subprocess.run(hosts.on("a", "kill", "-9", str(agent)), check=True)
    status = job.wait_epoch(3, 60)
    assert status["history"][-1]["restored_line"] >= 1 and status["restarts_from_start"] == 0
    assert sandbox.undo_folders() == [folder]
    assert sandbox.belay("stop", "job").returncode == 0
    assert job.wait() == 76
    wait_for(lambda: sandbox.undo_folders() == [], 10, "the folder's end")


@pytest.mark.parametrize("how", ["clean", "retention"])
def test_a_job_that_is_given_up(sandbox, programs, hosts, how):
    job = sandbox.run(in_turns(programs, 20), options=["--max-restarts", "0", "--retention", "1s" if how == "retention" else "1h"])
    job.wait_lines()
    folder = assert_made(job)
    job.kill_rank_on("a", 0)
    assert job.wait() != 0
    if how == "clean":
        assert os.path.exists(folder)
        assert sandbox.belay("clean", "job").returncode == 0
    wait_for(lambda: not os.path.exists(folder), 20, "the folder's end")
    on_b(sandbox, "clean", "job")  # what that host knows of the job


def test_without_belay_run(sandbox, programs, hosts):
    program = in_turns(programs, 6)
    process = start(sandbox, "--host", "a:2,b:2", *program.argv)
    status = wait_lines(sandbox)
    folder, = sandbox.undo_folders()
    assert os.path.dirname(folder) == hosts.shared
    hosts.crash("b")
    wait_lost(sandbox)
    process.kill()
    _, stderr = communicate(process, 20)
    assert "--undo-dir" not in stderr.decode()
    after = restart(sandbox, program, "a:4")
    assert after["history"][-1]["restored_line"] >= newest_line(status) >= 2 and after["restarts_from_start"] == 0
    for name, expected in programs.reference(program).files:
        with open(os.path.join(sandbox.folder, name), "rb") as file:
            assert file.read() == expected, name
    assert sandbox.undo_folders() == []


def run_short(sandbox, programs, hosts, before):
    """Standard error of a job that begins where the commands say. They run on host a."""
    argv = programs.test_program("exits").argv
    script = f'{before}; exec "$@"'
    done = run(hosts.on("a", "sh", "-ec", script, "sh", sandbox.command, "run", "--name", "job", "--", "mpirun", "--host",
                        "a:1,b:1", *argv), 60, text=True, cwd=sandbox.folder, env=sandbox.environment,
               stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_folder_that_only_one_host_has(sandbox, programs, hosts):
    """/tmp is each host's own: each host keeps files itself, and one line says what this means."""
    assert run_short(sandbox, programs, hosts, "mkdir /tmp/here /tmp/here/work; cd /tmp/here/work") == ABOUT_FILES + "\n"
    assert subprocess.run(hosts.on("a", "find", "/tmp/here"), capture_output=True, check=True).stdout.split() == \
        [b"/tmp/here", b"/tmp/here/work"]
    subprocess.run(hosts.on("a", "rm", "-r", "/tmp/here"), check=True)


def test_a_file_system_that_is_read_only_above(sandbox, programs, hosts):
    """Only the working directory can be written to, and nothing is put into it."""
    top = hosts.shared
    while os.stat(os.path.dirname(top)).st_dev == os.stat(top).st_dev and os.path.dirname(top) != "/":
        top = os.path.dirname(top)
    before = (f"mount --bind {top} {top}; mount -o remount,bind,ro {top}; mount --bind {sandbox.folder} {sandbox.folder}; "
              f"mount -o remount,bind,rw {sandbox.folder}; cd {sandbox.folder}")
    assert run_short(sandbox, programs, hosts, before) == \
        f"{ABOUT_FILES}; none can be made above the working directory: Read-only file system\n"
    assert not [name for name in os.listdir(sandbox.folder) if name.startswith(".")]
