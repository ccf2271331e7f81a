"""How jobs begin and end: exit statuses, signals, and that nothing is left of them."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import traces
from belaytest import assert_recovered, assert_same_result, lines_of_belay
from nodes import on_nodes
from waiting import communicate, wait_for

NOBODY = 65534


def ring(programs, seconds=3):
    return programs.test_program("ring", "--steps", 100 * seconds, "--seconds", seconds)


def assert_gone(sandbox, job, state):
    """No process is left; the status answers until `belay clean`."""
    sandbox.wait_quiet()
    status = job.status()
    assert status["state"] == state, status
    assert sandbox.belay("clean", job.name).returncode == 0
    assert sandbox.status(job.name) is None
    assert traces.files_under(sandbox.rundir) == []


# ---- endings ----

def test_ends_well(sandbox, programs):
    job = sandbox.run(ring(programs, 2))
    assert job.wait() == 0
    assert_same_result(job)
    assert_gone(sandbox, job, "finished")


@pytest.mark.limit(400)
@pytest.mark.parametrize("jobs", [5, pytest.param(30, marks=pytest.mark.campaign)])
def test_ends_while_lines_run(sandbox, programs, jobs):
    """A line every 50 ms and others on demand: whatever the last one meets, it does not keep a job from its end."""
    for number in range(jobs):
        job = sandbox.run(programs.test_program("ring", "--steps", 20 + number, "--seconds", 0.5), name=f"job{number}",
                          interval="50ms", trace=False)
        job.let_end()
        while job.process.poll() is None:
            sandbox.belay("checkpoint", job.name, timeout=20)
        assert job.wait() == 0
        assert_same_result(job)


def test_stop(sandbox, programs, belay):
    job = sandbox.run(ring(programs, 30))
    job.wait_committed()
    looks = belay("top", "job", "--count", "2", "--delay", "100ms")
    assert (looks.returncode, looks.stdout.count("job: running, epoch 1")) == (0, 2)
    assert len(re.findall(r"^ +\d+ +\d+ +all ", looks.stdout, re.M)) == 2 * job.program.ranks
    assert belay("stop", "job").returncode == 0
    assert job.wait(20) == 76
    last = belay("top", "job")  # one look, since it has ended
    assert (last.returncode, last.stdout.count("job: stopped")) == (0, 1)
    assert_gone(sandbox, job, "stopped")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_belay_run(sandbox, programs, number):
    job = sandbox.run(ring(programs, 30))
    job.wait_committed()
    job.process.send_signal(number)
    assert job.wait(20) == 128 + number
    assert_gone(sandbox, job, "stopped")


def test_belay_run_killed(sandbox, programs, belay):
    job = sandbox.run(ring(programs, 30))
    job.wait_committed()
    pids = job.pids[1].values()
    job.process.kill()
    job.process.wait()
    wait_for(lambda: not any(map(traces.is_alive, pids)), 15, "the end of the ranks")
    assert wait_for(lambda: job.status()["state"] == "lost" and job.status(), 10, "the state lost")["restarts"] == 0
    assert belay("clean", "job").returncode == 0
    sandbox.wait_quiet()


def test_belay_run_killed_and_cleaned_at_once(sandbox, programs, belay):
    """Not only once its launch has ended, which takes mpirun a moment: the sandbox looks for what is left."""
    job = sandbox.run(ring(programs, 30))
    job.wait_committed()
    job.process.kill()
    job.process.wait()
    assert belay("clean", "job").returncode == 0
    sandbox.wait_quiet()
    assert job.status() is None


@pytest.mark.parametrize("mode, value", [("exit", 7), ("early", 3), ("abort", 5)])
def test_own_end_is_passed_on_and_not_restarted(sandbox, programs, mode, value):
    """Not compared with a native run: in MPI_Abort Open MPI's mpirun itself crashes or hangs now and then."""
    job = sandbox.run(programs.test_program("exits", "--steps", 100, "--seconds", 1, "--rank", 1, "--mode", mode,
                                            "--value", value))
    assert job.wait() == value
    status = job.status()
    assert status["epoch"] == 1 and status["restarts"] == status["restarts_from_start"] == 0


def test_crash_loop_stops_after_the_second_time(sandbox, programs):
    job = sandbox.run(programs.test_program("exits", "--steps", 20, "--mode", "crash", "--rank", 2), interval=None,
                      options=["--max-restarts", "10"])
    assert job.wait() == 79
    status = job.status()
    assert status["restarts"] + status["restarts_from_start"] == 1
    assert any("rank 2" in line and "signal 11" in line for line in lines_of_belay(job.errors)), job.errors


def test_restarts_exhausted_then_restart(sandbox, programs):
    job = sandbox.run(ring(programs, 6), options=["--max-restarts", "1"])
    job.wait_committed(1)
    status = job.kill_and_recover()
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.kill_rank()
    assert job.wait(20) == 75
    job.restart()
    job.wait_epoch(3)
    assert job.finish() == 0
    assert_recovered(job, restarts=2)


def halted(job, option):
    """The number of the line at which an option has ended the job, which tells how to go on."""
    wait_for(lambda: job.process.poll() is not None, 60, "the halt")
    found = re.search(rf"belay: job: halted at line (\d+) \({option}\)", job.errors)
    assert job.process.returncode == 82 and found, job.errors
    assert "belay: job: its images are kept: 'belay restart job' goes on" in job.errors
    status = job.status()
    assert (status["state"], status["message"]) == ("stopped", f"halted at line {found[1]} ({option})")
    return int(found[1])


def assert_goes_on(job, line):
    job.restart()
    assert job.wait_epoch(2)["history"][-1]["restored_line"] == line
    assert job.finish() == 0
    assert_same_result(job)


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_halt_after_lines(sandbox, programs, nodes):
    """The restart has no such condition any more."""
    job = sandbox.run(ring(programs, 5), options=[*(on_nodes(nodes) if nodes > 1 else []), "--halt-after-lines", "2"])
    line = halted(job, "--halt-after-lines")
    assert line >= 2
    assert_goes_on(job, line)


@pytest.mark.campaign
def test_halt_at_a_time(sandbox, programs):
    """Without an interval: the line is taken for the halt."""
    at_s = time.time() + 8
    job = sandbox.run(ring(programs, 5), interval=None,
                      options=["--halt-at", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))])
    line = halted(job, "--halt-at")
    assert line == 1 and time.time() >= at_s - 1
    assert_goes_on(job, line)


def test_images_go_when_their_time_is_over(sandbox, programs, belay):
    job = sandbox.run(ring(programs, 30), options=["--max-restarts", "0", "--retention", "1s"])
    job.wait_committed(1)
    job.kill_rank()
    assert job.wait(20) == 75
    sandbox.wait_quiet()  # the agent leaves once it holds nothing
    assert job.status()["state"] == "lost"
    assert belay("restart", "job").returncode == 66


def test_a_new_job_of_a_kept_ones_name(sandbox, programs):
    """The images of the earlier one go, and the user is told."""
    lost = sandbox.run(ring(programs, 30), options=["--max-restarts", "0"])
    line = lost.wait_committed(1)
    lost.kill_rank()
    assert lost.wait(20) == 75
    again = sandbox.run(ring(programs, 1), interval=None)
    assert again.wait() == 0
    assert again.status()["history"][0]["restored_line"] == 0
    told = re.search(r"belay: job: takes the place of an earlier job .* line (\d+)", again.read("err").decode())
    assert int(told[1]) >= line


# ---- ways to start ----

def test_detach(sandbox, programs):
    job = sandbox.run(ring(programs, 3), options=["--detach"])
    assert job.wait(30) == 0
    assert job.read("out") == b"job\n"
    wait_for(lambda: sandbox.status("job")["state"] == "finished", 60, "the end of the detached job")
    assert job.read("job.out") == programs.reference(job.program).stdout


def preload_line(sandbox, program, name):
    preload = os.path.join(sandbox.prefix, "lib", "belay", "libbelay.so")
    settings = [f"LD_PRELOAD={preload}", f"BELAY_NAME={name}", "BELAY_INTERVAL=300ms",
                f"BELAY_RUNDIR={sandbox.rundir}"]
    return ["mpirun", *[word for setting in settings for word in ("-x", setting)], "-n", str(program.ranks),
            *program.argv]


def test_preload_without_belay_run(sandbox, programs):
    program = ring(programs, 3)
    process = subprocess.Popen(preload_line(sandbox, program, "alone"), env=sandbox.environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=sandbox.folder)
    wait_for(lambda: any(line["state"] == "committed" for line in (sandbox.status("alone") or {"lines": []})["lines"]),
             30, "a line")
    stdout, _ = communicate(process, 60)
    assert (process.returncode, stdout) == (0, programs.reference(program).stdout)
    wait_for(lambda: sandbox.status("alone")["state"] == "finished", 10, "the state finished")
    sandbox.wait_quiet()


def test_preload_and_belay_restart(sandbox, programs, belay):
    """A job without arbiter is lost with a rank; its images are kept and `belay restart` goes on from them."""
    program = ring(programs, 4)
    process = subprocess.Popen(preload_line(sandbox, program, "alone"), env=sandbox.environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = wait_for(lambda: any(line["state"] == "committed"
                                  for line in (sandbox.status("alone") or {"lines": []})["lines"]) and
                      sandbox.status("alone"), 30, "a line")
    os.kill(status["nodes"][0]["ranks"][1]["pid"], signal.SIGKILL)
    process.wait(30)
    wait_for(lambda: sandbox.status("alone")["state"] == "lost", 10, "the state lost")
    done = belay("restart", "alone", "--", "mpirun", "-n", program.ranks, *program.argv)
    assert (done.returncode, done.stdout.encode()) == (0, programs.reference(program).stdout), done.stderr
    assert sandbox.status("alone")["history"][-1]["restored_line"] >= 1


def test_app_file(sandbox, programs):
    """Open MPI takes -x from the lines of the file only, which is the user's."""
    program = ring(programs)
    path = os.path.join(sandbox.folder, "app")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"-n {program.ranks} {' '.join(program.argv)}\n")
    job = sandbox.run(program, trace=False, line=["mpirun", "--app", path])
    job.wait_committed()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_no_mpi_program(belay):
    done = belay("run", "--", "mpirun", "-n", "2", "sh", "-c", "echo here; exit 4")
    assert (done.returncode, done.stdout) == (4, "here\nhere\n")
    lines = lines_of_belay(done.stderr)
    assert len(lines) == 1 and "nothing was protected" in lines[0]


def test_no_mpi_program_so_far(sandbox):
    """Told while it runs: nobody waits for days to learn it."""
    with subprocess.Popen([sandbox.command, "run", "--", "mpirun", "-n", "1", "sleep", "60"], env=sandbox.environment,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
        said = job.stderr.readline()
        assert "nothing is protected so far" in said and "(sleep)" in said and "BELAY_LATE_MPI" in said
        assert job.poll() is None
        job.terminate()
        communicate(job, 30)


def script_of(sandbox, text):
    path = os.path.join(sandbox.folder, "script")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return ["sh", path]


def test_second_program_of_a_script(sandbox, programs):
    """The first one is protected; what comes after it runs as without Belay, and the user knows it."""
    rings = [programs.test_program("ring", "--steps", steps, ranks=2) for steps in (200, 20)]
    lines = [f"mpirun -n 2 {' '.join(program.argv)}" for program in rings]
    job = sandbox.run(rings[0], trace=False, line=script_of(sandbox, f"{lines[0]} --seconds 2\n{lines[1]}\nexit 5\n"))
    job.wait_lines()
    job.kill_and_recover()
    assert job.wait() == 5
    assert job.read("out") == b"".join(programs.reference(program).stdout for program in rings)
    assert job.status()["history"][-1]["restored_line"] >= 2
    assert [line for line in lines_of_belay(job.errors) if "second" in line] == [
        f"belay: a second MPI program, {rings[1].argv[0]}, runs without lines: give each mpirun a belay run of its own"]


@pytest.mark.parametrize("at", ["start", "late"])
def test_second_program_at_the_same_time(sandbox, programs, at):
    """Refused at the start; a job that has come far goes on, but is no success. Far is a line: at the start there is
    none, however late the second mpirun comes.
    """
    first = programs.test_program("ring", "--steps", 200, ranks=2)
    second = " ".join(["mpirun -n 2", *programs.test_program("sleepy").argv])
    go_on = os.path.join(sandbox.folder, "go_on")
    wait = f"while [ ! -e {go_on} ]; do sleep 0.1; done" if at == "late" else "true"
    seconds, interval = (3, "300ms") if at == "late" else (60, None)
    # Two mpiruns that make their session directories at the same moment may fail over the folder that is common to both.
    job = sandbox.run(first, trace=False, interval=interval, line=script_of(
        sandbox, f"mkdir one two\nTMPDIR=$PWD/one mpirun -n 2 {' '.join(first.argv)} --seconds {seconds} &\n{wait}\n"
        f"TMPDIR=$PWD/two {second}\nwait\n"))
    if at == "late":
        job.wait_committed(2)
        with open(go_on, "x", encoding="ascii"):
            pass
    assert job.wait() == 77
    assert (job.read("out") == programs.reference(first).stdout) == (at == "late")
    assert "at the same time" in lines_of_belay(job.errors)[0] and "a belay run of its own" in job.errors


def test_clean_while_the_agent_leaves(sandbox, belay):
    """It holds its lock until its images are given back; the test has the lock in its place."""
    assert belay("run", "--name", "j", "--", "true").returncode == 0
    sandbox.wait_quiet()
    path = os.path.join(sandbox.rundir, "agent.lock")
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([sandbox.command, "clean", "j"], env=sandbox.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as clean:
            assert "waiting for it" in clean.stderr.readline()
            os.unlink(path)  # as an agent does it
            fcntl.flock(lock, fcntl.LOCK_UN)
            out, err = communicate(clean, 30)
    assert (clean.returncode, out, err) == (0, "1 job cleaned\n", "")


def age_record(sandbox, job, seconds):
    path = os.path.join(sandbox.rundir, "jobs", f"{job}.status")
    os.utime(path, (time.time() - seconds,) * 2)


def test_list_shows_the_last_and_records_have_an_age(sandbox, belay):
    for number in range(12):
        assert belay("run", "--name", f"j{number:02}", "--", "true").returncode == 0
        age_record(sandbox, f"j{number:02}", 3600 - 60 * number)
    listed = belay("list").stdout.splitlines()
    assert [row.split()[0] for row in listed[1:-1]] == [f"j{number:02}" for number in range(2, 12)]
    assert listed[-1] == "2 more that ended earlier: belay list --all"
    assert [row.split()[0] for row in belay("list", "--all").stdout.splitlines()[1:]] == [
        f"j{number:02}" for number in range(12)]
    assert len(json.loads(belay("list", "--json").stdout)["jobs"]) == 12
    sandbox.wait_quiet()
    environment = {**sandbox.environment, "BELAY_RECORD_AGE": "56m"}
    assert belay("run", "--name", "last", "--", "true", env=environment).returncode == 0
    assert [job["job"] for job in json.loads(belay("list", "--json").stdout)["jobs"]] == [
        *(f"j{number:02}" for number in range(5, 12)), "last"]


def test_standard_input_is_passed_on(sandbox, belay):
    done = subprocess.run([sandbox.command, "run", "--", "mpirun", "-n", "1", "cat"], input="some\nlines\n", text=True,
                          capture_output=True, timeout=60, env=sandbox.environment)
    assert (done.returncode, done.stdout) == (0, "some\nlines\n")


def test_two_jobs_at_once(sandbox, programs, belay):
    jobs = []
    for name in ("ring", "collmix"):  # at once, mpirun itself fails: one finds the other's session folder half made
        jobs.append(sandbox.run(programs.test_program(name, "--steps", 300, "--seconds", 5, ranks=2), name=name))
        jobs[-1].wait_step(2)
    for job in jobs:
        job.wait_committed()
    listed = belay("list", "--json")
    assert listed.returncode == 0 and all(f'"{job.name}"' in listed.stdout for job in jobs)
    jobs[0].kill_and_recover()
    for job in jobs:
        job.finish()
        assert_recovered(job)


# ---- another user ----

def can_execute(user, *paths):
    return all(subprocess.run([*user, "test", "-x", path], check=False).returncode == 0 for path in paths)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become other users")
@pytest.mark.parametrize("nodes", [1, 2])
def test_two_ordinary_users(sandbox, other_sandbox, programs, nodes):
    """Two programs at once, on one node or on two, each with a kill and a recovery, with HOME, TMPDIR and run directory of its user."""
    boxes = {"ring": sandbox, "collmix": other_sandbox}
    jobs = []
    for number, (name, box) in enumerate(boxes.items()):
        program = programs.test_program(name, "--steps", 300, "--seconds", 3, ranks=2)
        box.become(NOBODY - number)
        if not can_execute(box.user, box.command, program.argv[0]):
            pytest.skip("other users cannot execute what was built")
        jobs.append(box.run(program, options=on_nodes(nodes) if nodes > 1 else ()))
    for job in jobs:
        job.wait_lines()
        job.kill_and_recover()
    assert {os.stat(f"/proc/{job.pids[2][0]}").st_uid for job in jobs} == {NOBODY, NOBODY - 1}
    for job in jobs:
        job.finish()
        assert_recovered(job)


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="needs setpriv to become another user")
def test_process_that_hides_its_memory(sandbox, programs):
    """From its own user: no line can be taken, which is said at once, and the job runs."""
    program = programs.test_program("process_settings", "--mode", "hidden", "--steps", 100, "--seconds", 2, ranks=2)
    if os.geteuid() == 0:
        sandbox.become(NOBODY)
        if not can_execute(sandbox.user, sandbox.command, program.argv[0]):
            pytest.skip("other users cannot execute what was built")
    job = sandbox.run(program, trace=False)
    job.wait_epoch(1)
    done = sandbox.belay("checkpoint", "job")
    assert done.returncode != 0 and "cannot be read" in done.stderr, done.stderr
    assert job.wait() == 0
    assert_same_result(job)
    assert "no line can be taken" in job.errors and "PR_SET_DUMPABLE" in job.errors, job.errors


# ---- one after the other ----

def memory_kib(pids):
    """What processes hold, shared memory included."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
    return total


@pytest.mark.limit(600)
@pytest.mark.parametrize("jobs", [3, pytest.param(50, marks=pytest.mark.campaign)])
def test_jobs_one_after_another(sandbox, programs, jobs):
    """Under one agent, which another job keeps: no job leaves it a descriptor, a process, a file, an image."""

    def held():
        return (set(traces.processes_of(sandbox.rundir)), traces.files_under(sandbox.rundir),
                os.listdir(sandbox.shared_memory), [len(os.listdir(f"/proc/{pid}/fd")) for pid in sandbox.agent()])

    other = sandbox.run(programs.test_program("ring", "--steps", 60000, "--seconds", 6000, ranks=2), name="other",
                        interval=None, BELAY_DUMPABLE="1")  # no lines, which come with descriptors
    other.wait_step(2)
    before, memory = held(), None
    for number in range(jobs):
        job = sandbox.run(programs.test_program("collmix", "--steps", 100, "--seconds", 1, ranks=2), interval="200ms",
                          name=f"job{number}", trace=False)
        job.wait_committed(1)
        assert job.finish() == 0
        assert_same_result(job)
        assert sandbox.belay("clean", job.name).returncode == 0
        if number == 1:  # the threads of the first ones have made arenas of their own for what they allocate
            memory = memory_kib(sandbox.agent())
    wait_for(lambda: held() == before, 20, f"the end of what {jobs} jobs held")
    growth = memory_kib(sandbox.agent()) - memory
    assert growth < 100 * jobs, f"{growth} KiB more than after the second job"
    assert sandbox.belay("stop", "other").returncode == 0
    other.wait()
