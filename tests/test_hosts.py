"""A job on several hosts, which are namespaces that share nothing but a network and a file system (lib/hosts.py)."""

import dataclasses
import os
import shutil
import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, newest_line
from nodes import homes, is_held_twice
from programs import PACE
from waiting import wait_for

pytestmark = pytest.mark.hosts("a", "b")


def workload(programs, name="ring", seconds=4):
    return programs.test_program(name, "--steps", 100 * seconds, "--seconds", seconds)


def assert_new_processes(job, status, before):
    """The program went on from a line, not from its start, in processes that are all new."""
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert status["restarts_from_start"] == 0


def test_lines_over_two_hosts(sandbox, programs):
    job = sandbox.run(workload(programs))
    job.wait_lines()
    status = job.status()
    assert [node["node"] for node in status["nodes"]] == ["a", "b"]
    assert homes(status) == [0, 0, 1, 1]
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("rank, host", [(0, "a"), (3, "b")])
def test_a_rank_is_killed(sandbox, programs, rank, host):
    job = sandbox.run(workload(programs))
    job.wait_lines()
    before = job.status()
    job.kill_rank_on(host, rank)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 1, 1]
    assert_new_processes(job, status, before)
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("is_silent", [False, True], ids=["crash", "silent"])
def test_a_host_is_lost(sandbox, programs, hosts, is_silent):
    """Its memory is gone with it; its ranks go on on the other host, from the newest line."""
    job = sandbox.run(workload(programs))
    job.wait_lines()
    before = job.status()
    hosts.crash("b", is_silent)
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 0, 0]
    assert [node["state"] for node in status["nodes"]] == ["member", "lost"]
    assert_new_processes(job, status, before)
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.hosts("a", "b", "c")
@pytest.mark.parametrize("lost, expected", [("b", [0, 0, 2, 2]), ("c", [0, 0, 1, 1])])
def test_one_of_three_hosts_is_lost(sandbox, programs, hosts, lost, expected):
    job = sandbox.run(workload(programs, "collmix"), hosts="a:1,b:1,c:2" if lost == "b" else "a:2,b:1,c:1")
    job.wait_lines()
    before = job.status()
    hosts.crash(lost)
    status = job.wait_epoch(2, 60)
    assert_new_processes(job, status, before)
    assert homes(status) == expected
    assert status["history"][-1]["fetch_ms"] > 0
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job, 1)


def spare_line(programs):
    """Of three hosts, the launch leaves the third without ranks."""
    return ["mpirun", "-n", "4", "--host", "a:2,b:2,c:2", "-x", PACE, *workload(programs).argv]


@pytest.mark.hosts("a", "b", "c")
def test_a_spare_host_takes_the_place_of_a_lost_one(sandbox, programs, hosts):
    job = sandbox.run(workload(programs), line=spare_line(programs), options=["--spares", "1"])
    job.wait_lines()
    before = job.status()
    assert [(node["node"], node["state"]) for node in before["nodes"]] == [("a", "member"), ("b", "member"), ("c", "spare")]
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 2, 2]
    assert [node["state"] for node in status["nodes"]] == ["member", "lost", "member"]
    assert status["history"][-1]["fetch_ms"] > 0
    assert_new_processes(job, status, before)
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    assert is_held_twice(job.status())
    job.finish()
    assert_recovered(job, 1)


@pytest.mark.hosts("a", "b", "c")
def test_fewer_hosts_than_spares(sandbox, programs):
    done = sandbox.belay("run", "--spares", "2", "--", *spare_line(programs))
    assert done.returncode == 69
    assert "--spares 2: the launch leaves 1 of them without ranks" in done.stderr


def test_an_agent_of_another_host_hangs(sandbox, programs, hosts):
    """It does not answer: its relay kills it, and another one goes on with what the host holds."""
    job = sandbox.run(workload(programs))
    job.wait_lines()
    before = job.status()
    agent = next(pid for pid, command in hosts.processes("b").items() if "belayd" in command)
    subprocess.run(hosts.on("b", "kill", "-STOP", str(agent)), check=True)
    status = job.wait_epoch(2, 60)
    assert "the agent of node 1 does not answer: it is ended" in job.errors
    assert agent not in hosts.processes("b")
    assert homes(status) == [0, 0, 1, 1]
    assert [node["state"] for node in status["nodes"]] == ["member", "member"]
    assert_new_processes(job, status, before)
    job.finish()
    assert_recovered(job, 1)


def test_no_belay_on_a_host(sandbox, programs, hosts):
    folder = os.path.join(sandbox.prefix, "lib", "belay")
    subprocess.run(hosts.on("b", "mount", "-t", "tmpfs", "none", folder), check=True)
    done = sandbox.belay("run", "--", "mpirun", "--host", "a,b", "true")
    assert done.returncode == 69
    assert "the hosts of the launch (a,b) cannot be used" in done.stderr
    assert "has to have Belay at the same place" in done.stderr


def test_this_host_is_none_of_them(sandbox, programs):
    done = sandbox.belay("run", "--", "mpirun", "--host", "b", *workload(programs).argv)
    assert done.returncode == 69, done.stderr
    assert "none of them is this host, a" in done.stderr


@pytest.mark.parametrize("mode", ["shared", "truncate"])
def test_files_of_lost_ranks_are_put_back(sandbox, programs, hosts, mode):
    """What they had to be put back to is where all hosts see it."""
    folder = os.path.join(hosts.shared, "undo")
    os.mkdir(folder, 0o700)
    program = programs.test_program("files", "--mode", mode, "--steps", 200, "--seconds", 2)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*"), options=["--undo-dir", folder])
    job.wait_lines()
    hosts.crash("b")
    job.wait_epoch(2)
    job.finish()
    assert_recovered(job, 1)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("has_line", [True, False])
def test_a_host_that_was_cut_off_leaves_files_to_the_others(sandbox, programs, hosts, has_line):
    """It forgets the job after the retention time, or at once if it holds nothing. What the others put back after that is there."""
    folder = os.path.join(hosts.shared, "undo")
    os.mkdir(folder, 0o700)
    program = programs.test_program("files", "--mode", "truncate", "--steps", 400, "--seconds", 30)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*"), options=["--undo-dir", folder, "--retention", "1s"],
                      interval="300ms" if has_line else "1h")
    job.wait_step(20)
    if has_line:
        job.wait_lines()
    hosts.unplug("b")
    status = job.wait_epoch(2, 60)
    wait_for(lambda: not any("belay" in command.split()[0] for command in hosts.processes("b").values()), 30, "the end of its agent")
    assert os.listdir(folder) != []
    if has_line:
        job.wait_committed(status["history"][-1]["restored_line"] + 1)
        job.kill_rank_on("a", 0)
        job.wait_epoch(3, 60)
    job.let_hurry()
    assert job.wait() == 0
    assert_same_result(job)
    hosts.crash("b")


def test_standard_streams_of_a_rank_that_moves(sandbox, programs, hosts):
    """Rank 0 runs on the host that is lost: on the other one it reads on where it was, and no output appears twice."""
    path = os.path.join(hosts.shared, "input")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"input {number}\n" for number in range(1, 2001))
    program = programs.test_program("lines", "--mode", "stdin", "--steps", 2000, "--seconds", 4, ranks=2)
    job = sandbox.run(program, hosts="b:1,a:1", piped=True, stdin=path)
    job.wait_lines()
    hosts.crash("b")
    job.wait_epoch(2)
    assert job.finish() == 0
    for rank in range(2):
        rows = [row.split() for row in job.read("out").decode().splitlines() if row.startswith(f"{rank} out")]
        assert rows == [[str(rank), "out", str(number), "input", str(number)] for number in range(1, 2001)]


def test_belay_run_is_killed(sandbox, programs, hosts):
    """Nothing of the job runs on on any host, and `belay restart` goes on from what their agents hold."""
    job = sandbox.run(workload(programs))
    job.wait_lines()
    before = job.status()
    pid = subprocess.run(hosts.on("a", "pgrep", "-x", "belay"), capture_output=True, text=True, check=True).stdout.split()[0]
    subprocess.run(hosts.on("a", "kill", "-9", pid), check=True)
    job.wait()
    for name in ("a", "b"):
        wait_for(lambda name=name: not any("ring" in command or "belay-relay" in command
                                           for command in hosts.processes(name).values()), 30, f"the end of the ranks on {name}")
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 20, "the end of the launch")
    job.restart()
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 1, 1]
    assert_new_processes(job, status, before)
    job.finish()
    assert_same_result(job)


def test_tools_see_all_hosts(sandbox, programs):
    job = sandbox.run(workload(programs), interval=None)
    job.wait_step(2)
    done = sandbox.belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    assert job.wait_committed(1) == 1
    assert [sorted(row["rank"] for row in node["ranks"]) for node in job.status()["nodes"]] == [[0, 1], [2, 3]]
    done = sandbox.belay("stop", "job")
    assert done.returncode == 0, done.stderr
    assert job.wait() == 76


def test_a_host_that_mpirun_cannot_reach(sandbox, programs, hosts):
    hosts.unplug("b")
    done = sandbox.belay("run", "--", "mpirun", "--host", "a,b", *workload(programs).argv)
    assert done.returncode == 69
    assert "the hosts of the launch (a,b) cannot be used: mpirun has failed to start" in done.stderr


def stall(sandbox, hosts, calls):
    """The remote shell works so often, and does not answer then."""
    path = os.path.join(hosts.shared, "stall")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\necho >> {path}.calls\n[ $(wc -l < {path}.calls) -gt {calls} ] && exec sleep 45 >&- 2>&-\n"
                   f'exec {hosts.rsh} "$@"\n')
    os.chmod(path, 0o755)
    sandbox.environment["OMPI_MCA_plm_rsh_agent"] = path


@pytest.mark.parametrize("calls, words", [
    pytest.param(0, "the hosts of the launch (a,b) cannot be used: they do not answer within 30 s", marks=pytest.mark.campaign),
    pytest.param(1, "host b has not joined within 30 s", marks=pytest.mark.campaign),
])
def test_a_host_that_does_not_answer(sandbox, programs, hosts, calls, words):
    stall(sandbox, hosts, calls)
    done = sandbox.belay("run", "--", "mpirun", "--host", "a,b", *workload(programs).argv)
    assert done.returncode == 69, done.stderr
    assert words in done.stderr


def test_a_host_that_is_cut_off(sandbox, programs, hosts):
    """It runs on, and nobody hears of it: its ranks are ended before others take their place."""
    job = sandbox.run(workload(programs))
    job.wait_lines()
    before = job.status()
    hosts.unplug("b")
    wait_for(lambda: not any("ring" in command for command in hosts.processes("b").values()), 20, "the end of b's ranks")
    assert job.status()["epoch"] == 1
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, 0, 0, 0]
    assert_new_processes(job, status, before)
    job.finish()
    assert_recovered(job, 1)
    hosts.crash("b")  # its agent holds on to the images


def test_heat_on_a_host_that_is_lost_and_comes_back(sandbox, programs, hosts):
    """A real program with parallel output; the host that comes back is empty, and the next job has it again."""
    program = programs.heat()
    source = os.path.join(hosts.shared, "heat.h5")
    shutil.copy(program.argv[2], source)
    program = dataclasses.replace(program, argv=(*program.argv[:2], source, *program.argv[3:]))
    hostfile = os.path.join(hosts.shared, "hostfile")
    with open(hostfile, "w", encoding="ascii") as file:
        file.write("a slots=2\nb slots=2\n")
    line = ["mpirun", "-n", "4", "--hostfile", hostfile, *program.argv]
    job = sandbox.run(program, line=line, trace=False)
    job.wait_committed(2)
    before = job.status()
    hosts.crash("b")
    hosts.boot("b")
    assert hosts.files("b", "/run") == []
    job.wait_epoch(2, 60)
    job.wait()
    assert_new_processes(job, job.status(), before)
    assert_recovered(job, 1)
    again = sandbox.run(workload(programs, seconds=2), name="again")
    again.wait_lines()
    assert homes(again.status()) == [0, 0, 1, 1]
    again.finish()
    assert_same_result(again)


def test_two_jobs_at_the_same_time(sandbox, programs, hosts):
    """They share the hosts' agents; the loss of a host is the loss of a host for both."""
    jobs = []
    for name in ("job", "other"):  # at once, mpirun itself fails: one finds the other's session folder half made
        jobs.append(sandbox.run(workload(programs, seconds=8), name=name))
        jobs[-1].wait_step(2)
    for job in jobs:
        job.wait_lines()
        assert [sorted(row["rank"] for row in node["ranks"]) for node in job.status()["nodes"]] == [[0, 1], [2, 3]]
    assert sum("belayd" in command for command in hosts.processes("b").values()) == 1
    done = sandbox.belay("checkpoint", "other")
    assert done.returncode == 0, done.stderr
    hosts.crash("b")
    for job in jobs:
        assert homes(job.wait_epoch(2, 60)) == [0, 0, 0, 0]
        job.finish()
        assert_recovered(job, 1)


def test_detached(sandbox, programs):
    """The command returns at once, whoever reads its messages."""
    program = workload(programs)
    done = sandbox.belay("run", "--name", "job", "--detach", "--", "mpirun", "--host", "a:2,b:2", *program.argv)
    assert (done.returncode, done.stdout) == (0, "job\n"), done.stderr
    assert sandbox.status("job")["state"] in ("starting", "running")
    wait_for(lambda: sandbox.status("job")["state"] == "finished", 60, "the end of the job")
    with open(os.path.join(sandbox.folder, "job.out"), "rb") as file:
        assert file.read() == programs.reference(program).stdout


def test_a_stranger_is_not_heard(sandbox, programs, hosts):
    """Somebody without the key speaks to the port at which hosts join: one line tells, and the job goes on."""
    job = sandbox.run(workload(programs))
    job.wait_lines()
    sockets = subprocess.run(hosts.on("a", "ss", "-Htlnp"), capture_output=True, text=True, check=True).stdout
    port = next(row.split()[3].rsplit(":", 1)[1] for row in sockets.splitlines() if "belay-relay" in row)
    say = ("import socket, sys; end = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10);"
           "end.sendall(b'blyhello' + bytes([2, 0, 0, 0, 1]) + bytes(307)); print(end.recv(100))")
    done = subprocess.run(hosts.on("b", "/usr/bin/python3", "-c", say, hosts.address("a"), port), capture_output=True,
                          text=True, check=True)
    assert done.stdout == "b''\n"
    assert "a connection from another host is refused: its hello is refused: it was not made with the job's key for this epoch" in job.errors
    job.finish()
    assert_recovered(job, 0)


@pytest.mark.campaign
@pytest.mark.hosts("a", "b", "c")
@pytest.mark.parametrize("scheme, agrees", [("PARTNER", "3 images, 3 copies"), ("XOR", "3 images, 3 tables, parity of 3 slots")])
def test_what_hosts_hold_is_compared(sandbox, programs, hosts, scheme, agrees):
    """Also of the hosts that are left after a loss, once all is made again."""
    program = programs.test_program("ring", "--steps", 400, "--seconds", 4, ranks=3)
    job = sandbox.run(program, hosts="a:1,b:1,c:1", interval=None, options=["--redundancy", scheme])
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    done = sandbox.belay("verify", "job")
    assert (done.returncode, done.stderr) == (0, "") and f"on 3 nodes: {agrees}" in done.stdout
    hosts.crash("c")
    job.wait_epoch(2, 60)
    wait_for(lambda: "line 1 is protected again" in job.errors, 30, job.errors)
    done = sandbox.belay("verify", "job")
    assert (done.returncode, done.stderr) == (0, "") and "line 1 on 2 nodes: 3 images, 3" in done.stdout
    job.finish()
    assert_same_result(job)
