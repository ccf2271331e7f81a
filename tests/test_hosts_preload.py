"""LD_PRELOAD without `belay run`, over several hosts (lib/hosts.py)."""

import json
import os
import subprocess

import pytest

from belaytest import newest_line
from nodes import homes
from test_hosts import workload
from waiting import communicate, run, wait_for

pytestmark = pytest.mark.hosts("a", "b")

# Said at the start if hosts have no file system in common on which the job begins, unless there is an undo directory.
ABOUT_FILES = ("belay: job: files that ranks of several hosts change are put back rightly only with --undo-dir (BELAY_UNDO_DIR), "
               "a folder that all hosts share")


def folder_of(sandbox):
    return os.path.join(sandbox.prefix, "lib", "belay")


def preload(sandbox):
    settings = {"LD_PRELOAD": os.path.join(folder_of(sandbox), "libbelay.so"), "BELAY_NAME": "job", "BELAY_INTERVAL": "300ms"}
    return [word for name, value in settings.items() for word in ("-x", f"{name}={value}")]


def start(sandbox, *words):
    """mpirun on host a, whose standard output is kept."""
    return subprocess.Popen(sandbox.hosts.on("a", "mpirun", *preload(sandbox), *words), env=sandbox.environment,
                            cwd=sandbox.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def launch(sandbox, *words, deadline_s=60):
    return run(sandbox.hosts.on("a", "mpirun", *preload(sandbox), *words), deadline_s, text=True, cwd=sandbox.folder,
               env=sandbox.environment, stdin=subprocess.DEVNULL)


def wait_lines(sandbox, count=2):
    """Wait until all ranks run and so many lines are committed; the status."""

    def look():
        status = sandbox.status("job")
        return status if status and status["state"] == "running" and newest_line(status) >= count else None

    return wait_for(look, 30, f"line {count}")


def wait_lost(sandbox):
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 30, "the state lost")


def restart(sandbox, program, hosts):
    """`belay restart` to the end of the program; the status."""
    done = sandbox.belay("restart", "job", "--", "mpirun", "--host", hosts, *program.argv, timeout=90)
    assert (done.returncode, done.stdout.encode()) == (0, sandbox.programs.reference(program).stdout), done.stderr
    return sandbox.status("job")


def on_b(sandbox, *arguments):
    return run(sandbox.hosts.on("b", sandbox.command, *arguments), 60, text=True, cwd=sandbox.folder, env=sandbox.environment)


def assert_told_on_b(sandbox, ranks):
    """There each command tells of this host's part, or where it has to be called."""
    there = json.loads(on_b(sandbox, "status", "job", "--json").stdout)
    assert [(node["node"], [row["rank"] for row in node["ranks"]]) for node in there["nodes"]] == [("b", ranks)]
    assert there["state"] == "running"
    assert all(rank["holders"] == [1] for rank in there["nodes"][0]["ranks"])
    assert [job["job"] for job in json.loads(on_b(sandbox, "list", "--json").stdout)["jobs"]] == ["job"]
    for command in ("checkpoint", "stop"):
        done = on_b(sandbox, command, "job")
        assert done.returncode == 66
        assert "is run from another host, on which its first rank is: call belay there" in done.stderr


@pytest.mark.parametrize("mapping, expected", [("slot", [0, 0, 1, 1]), ("node", [0, 1, 0, 1])])
def test_lines_over_two_hosts(sandbox, programs, mapping, expected):
    program = workload(programs)
    process = start(sandbox, "--host", "a:2,b:2", "--map-by", mapping, *program.argv)
    status = wait_lines(sandbox)
    assert [node["node"] for node in status["nodes"]] == ["a", "b"]
    assert homes(status) == expected
    assert_told_on_b(sandbox, [rank for rank in range(4) if expected[rank] == 1])
    # Each host has copies of the other one's images.
    wait_for(lambda: all(rank["holders"] == [0, 1] for node in sandbox.status("job")["nodes"] for rank in node["ranks"]), 10,
             "copies")
    stdout, stderr = communicate(process, 60)
    assert (process.returncode, stdout, stderr.decode()) == (0, programs.reference(program).stdout, "")
    wait_for(lambda: sandbox.status("job")["state"] == "finished", 10, "the state finished")


def test_a_rank_is_killed(sandbox, programs):
    """The job is kept, and `belay restart` goes on from its newest line in new processes."""
    program = workload(programs)
    process = start(sandbox, "--host", "a:2,b:2", *program.argv)
    status = wait_lines(sandbox)
    pid = next(row["pid"] for row in status["nodes"][1]["ranks"] if row["rank"] == 3)
    subprocess.run(sandbox.hosts.on("b", "kill", "-9", str(pid)), check=True)
    communicate(process, 60)
    assert process.returncode != 0
    wait_lost(sandbox)
    lost = sandbox.status("job")
    assert f"rank 3 (pid {pid}) was killed" in lost["message"]
    after = restart(sandbox, program, "a:2,b:2")
    assert after["history"][-1]["restored_line"] == lost["newest_line"] >= newest_line(status) >= 2
    assert after["restarts_from_start"] == 0


@pytest.mark.parametrize("is_silent", [False, True], ids=["crash", "silent"])
def test_a_host_is_lost(sandbox, programs, hosts, is_silent):
    """Its ranks go on on the other host, from the copies there."""
    program = workload(programs)
    process = start(sandbox, "--host", "a:2,b:2", *program.argv)
    status = wait_lines(sandbox)
    hosts.crash("b", is_silent)
    wait_lost(sandbox)
    assert sandbox.status("job")["message"] == "host b was lost"
    process.kill()  # it may wait for the host much longer
    process.communicate()
    after = restart(sandbox, program, "a:4")
    assert after["history"][-1]["restored_line"] >= newest_line(status) >= 2
    assert after["restarts_from_start"] == 0


def test_no_belay_on_a_host(sandbox, programs, hosts):
    subprocess.run(hosts.on("b", "mount", "-t", "tmpfs", "none", folder_of(sandbox)), check=True)
    done = launch(sandbox, "--host", "a:2,b:2", *workload(programs).argv)
    assert done.returncode != 0
    assert done.stderr.count("rank 2 on host b does not run with Belay") == 1
    assert f"{folder_of(sandbox)}/libbelay.so must be there" in done.stderr
    assert sandbox.status("job") is None


def test_ranks_without_preload(sandbox):
    """Of a program that never comes to MPI_Init; the launch ends within the time to join."""
    ring = sandbox.programs.test_program("ring").argv
    done = launch(sandbox, "--host", "a:1", "-n", "1", *ring, ":", "--host", "b:1", "-n", "1", "sleep", "100")
    assert done.returncode == 97, done.stderr
    assert done.stderr.count("rank 1 on host b does not run with Belay") == 1
    assert sandbox.status("job") is None


def test_no_partner_can_join(sandbox, programs, hosts):
    """The relay of a host cannot be started: its rank says so, and nothing runs unprotected."""
    relay = os.path.join(folder_of(sandbox), "belay-relay")
    subprocess.run(hosts.on("b", "mount", "--bind", "/dev/null", relay), check=True)
    done = launch(sandbox, "--host", "a:2,b:2", *workload(programs).argv)
    assert done.returncode == 97, done.stderr
    assert f"cannot start {relay}" in done.stderr
    wait_for(lambda: not any("belay-arbiter" in command for command in hosts.processes("a").values()), 20, "the arbiter's end")


@pytest.mark.campaign
def test_a_host_that_does_not_join(sandbox, programs, hosts):
    """Its relay hangs. The launch ends within the time to join."""
    script = os.path.join(hosts.shared, "slow")
    with open(script, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexec sleep 45\n")
    os.chmod(script, 0o755)
    relay = os.path.join(folder_of(sandbox), "belay-relay")
    subprocess.run(hosts.on("b", "mount", "--bind", script, relay), check=True)
    done = launch(sandbox, "--host", "a:2,b:2", *workload(programs).argv)
    assert done.returncode == 97, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("belay:")] == \
        ["belay: host b has not joined within 30 s"]
    assert sandbox.status("job") is None


@pytest.mark.parametrize("point", ["arbiter.epoch.recorded", "arbiter.epoch.entered"])
def test_the_arbiter_is_killed_early(sandbox, programs, point):
    """While it opens the first epoch: nothing runs, and one line tells."""
    done = launch(sandbox, "-x", f"BELAY_FAULT={point}=kill", "--host", "a:2,b:2", *workload(programs).argv)
    assert done.returncode == 97, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("belay:")] == \
        ["belay: rank 0: the arbiter of the job has gone"]
    assert programs.reference(workload(programs)).stdout.decode() not in done.stdout
    for look in (sandbox.belay, lambda *words: on_b(sandbox, *words)):
        wait_for(lambda look=look: json.loads(look("status", "job", "--json").stdout)["state"] in ("lost", "failed"), 20, "its end")
    done = on_b(sandbox, "clean", "job")
    assert (done.returncode, done.stdout) == (0, "1 job cleaned\n"), done.stderr


def test_a_name_that_is_taken(sandbox, programs):
    """The second launch ends with one line, and the first one goes on."""
    program = workload(programs)
    process = start(sandbox, "--host", "a:2,b:2", *program.argv)
    wait_lines(sandbox)
    done = launch(sandbox, "--host", "a:2,b:2", *program.argv)
    assert done.returncode == 97, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("belay:")] == \
        ['belay: a job "job" is running already; choose another --name']
    stdout, _ = communicate(process, 60)
    assert (process.returncode, stdout) == (0, programs.reference(program).stdout)


def test_a_program_that_ends_before_mpi_init(sandbox, programs):
    """The launcher takes it for what it is: no failure."""
    done = launch(sandbox, "--host", "a:1,b:1", *programs.test_program("unbegun").argv[:1])
    assert (done.returncode, done.stdout) == (0, "usage: unbegun [PROGRAM [args]]\n" * 2), done.stderr
    wait_for(lambda: sandbox.status("job")["state"] == "finished", 10, "the state finished")


def test_a_program_that_executes_another_one(sandbox, programs):
    """PMIx takes no process back, so what is executed before MPI_Init cannot be a rank. Other programs can be executed."""
    unbegun = programs.test_program("unbegun").argv[0]
    done = launch(sandbox, "--host", "a:1,b:1", unbegun, "/bin/echo", "executed")
    assert (done.returncode, done.stdout) == (0, "executed\n" * 2), done.stderr
    wait_for(lambda: sandbox.status("job")["state"] == "finished", 10, "the state finished")
    done = launch(sandbox, "--host", "a:1,b:1", unbegun, *workload(programs).argv)
    assert done.returncode == 97, done.stderr
    assert "an MPI program that another one executes before MPI_Init runs on several hosts under belay run only" in done.stderr
    done = run(sandbox.hosts.on("a", sandbox.command, "run", "--", "mpirun", "--host", "a:1,b:1", unbegun,
                                *programs.test_program("ring", "--steps", 10).argv), 60, text=True, cwd=sandbox.folder,
               env=sandbox.environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr


def test_belay_stop(sandbox, programs):
    process = start(sandbox, "--host", "a:2,b:2", *workload(programs, seconds=60).argv)
    wait_lines(sandbox)
    done = sandbox.belay("stop", "job")
    assert done.returncode == 0, done.stderr
    communicate(process, 60)
    assert process.returncode != 0
    wait_for(lambda: sandbox.status("job")["state"] == "stopped", 20, "the state stopped")


def test_the_arbiter_is_killed(sandbox, programs, hosts):
    """Nothing runs on without it, and the images are kept."""
    program = workload(programs)
    process = start(sandbox, "--host", "a:2,b:2", *program.argv)
    status = wait_lines(sandbox)
    subprocess.run(hosts.on("a", "pkill", "-9", "-x", "-o", "belay-arbiter"), check=True)
    communicate(process, 60)
    assert process.returncode != 0
    wait_lost(sandbox)
    after = restart(sandbox, program, "a:2,b:2")
    assert after["history"][-1]["restored_line"] >= newest_line(status) >= 2
