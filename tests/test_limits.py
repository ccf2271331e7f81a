"""What the shell sets for a job: it is the job's, never the agent's, and where the agent cannot do with it, it says so."""

import os
import shutil
import signal
import subprocess

import pytest

import traces
from belaytest import assert_recovered, assert_same_result, lines_of_belay, run_and_recover
from nodes import kill_node, on_nodes
from waiting import wait_for

KIB, MIB = 1 << 10, 1 << 20


def ring(programs, *options):
    return programs.test_program("ring", "--steps", 400, *options, ranks=2)


def limits_of(pid):
    """{name of /proc/PID/limits: (soft, hard)}"""
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        rows = [line for line in file.read().splitlines()[1:]]
    return {row[:26].strip(): tuple(row[26:].split()[:2]) for row in rows}


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def signals_of(mask):
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def in_shell(*words, commands=""):
    """Words before a command that set limits and the like for it."""
    return [*words, "sh", "-c", f'{commands} exec "$@"', "sh"]


# ---- nothing of the shell is the agent's ----

SOFT = {"Max open files": 256, "Max file size": 64 * MIB, "Max cpu time": 600, "Max address space": 1 << 40,
        "Max data size": 1 << 40}


def test_agent_has_nothing_from_the_shell_that_started_it(sandbox, programs):
    """Nor has its keeper. The ranks have it all, as without Belay."""
    folder = os.path.join(sandbox.folder, "here")
    os.mkdir(folder)
    one = min(os.sched_getaffinity(0))
    sandbox.user = in_shell("prlimit", "--nofile=256:", f"--fsize={64 * MIB}:", "--cpu=600:", f"--as={1 << 40}:",
                            f"--data={1 << 40}:", "nice", "-n", "3", "taskset", "-c", str(one), "env",
                            "UV_THREADPOOL_SIZE=1", "MALLOC_ARENA_MAX=1", "SECRET=of the job",
                            commands=f"umask 0037; trap '' TERM USR1; cd {folder};")
    job = sandbox.run(ring(programs), seconds=4)
    job.wait_committed(1)
    for pid in sandbox.agent():
        limits, status = limits_of(pid), status_of(pid)
        assert all(limits[name][0] == limits[name][1] for name in SOFT), limits
        assert limits["Max core file size"] == ("0", "0")
        assert not {signal.SIGTERM, signal.SIGUSR1} & signals_of(status["SigIgn"])
        assert {signal.SIGPIPE, signal.SIGXFSZ} <= signals_of(status["SigIgn"])
        assert not signals_of(status["SigBlk"]) and status["Umask"] == "0077"
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
        if os.geteuid() == 0:
            assert os.readlink(f"/proc/{pid}/cwd") == "/"
            assert os.getpriority(os.PRIO_PROCESS, pid) == 0
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)
            assert not {b"MALLOC_ARENA_MAX", b"SECRET", b"LD_PRELOAD"} & set(environment)
            assert environment.get(b"UV_THREADPOOL_SIZE") != b"1"
    rank = job.pids[1][0]
    limits, status = limits_of(rank), status_of(rank)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert {name: int(limits[name][0]) for name in SOFT} == SOFT and status["Umask"] == "0037"
    assert os.getpriority(os.PRIO_PROCESS, rank) == own + 3 and {one} == os.sched_getaffinity(rank)
    job.kill_and_recover()
    assert job.finish() == 0
    assert_recovered(job)


def test_agent_that_a_bound_rank_has_started(sandbox, programs):
    """With the preload, a rank starts it, which mpirun has bound to a core: the agent is not."""
    lib = os.path.join(sandbox.prefix, "lib", "belay")
    program = programs.test_program("ring", "--steps", 100, "--seconds", 2, ranks=2)
    process = subprocess.Popen(["mpirun", "--bind-to", "core", "-x", f"LD_PRELOAD={lib}/libbelay.so", "-x",
                                "BELAY_NAME=alone", "-x", "BELAY_INTERVAL=200ms", "-n", "2", *program.argv],
                               env={**sandbox.environment, "OMPI_MCA_rmaps_base_oversubscribe": ""},
                               cwd=sandbox.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    wait_for(lambda: any(line["state"] == "committed" for line in (sandbox.status("alone") or {"lines": []})["lines"]),
             30, "a line")
    for pid in sandbox.agent():
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
    assert process.communicate(timeout=60)[0] == programs.reference(program).stdout
    sandbox.wait_quiet()


# ---- limits that the agent cannot do with ----

def test_hard_limit_of_file_sizes_is_refused(sandbox, programs, belay):
    """Images are files in memory. A soft limit is no matter: it is raised for the agent alone."""
    sandbox.user = ["prlimit", f"--fsize={8 * MIB}:{8 * MIB}"]
    done = belay("run", "--", "mpirun", "-n", "2", *ring(programs).argv)
    lines = lines_of_belay(done.stderr)
    assert done.returncode == 69 and len(lines) == 1 and "ulimit -f unlimited" in lines[0], done.stderr
    assert traces.files_under(sandbox.rundir) == []


def test_job_with_a_limit_of_file_sizes(sandbox, programs, belay):
    """With an agent that has none: the job goes on from its lines, and gets all of its standard input."""
    sandbox.start_agent()
    sandbox.user = ["prlimit", f"--fsize={64 * MIB}:{64 * MIB}"]
    run_and_recover(sandbox, ring(programs), seconds=4)
    sandbox.start_agent()  # the first has left after the job, or is the one
    text = "".join(f"line {number} of the input\n" for number in range(20000))
    done = subprocess.run([*sandbox.user, sandbox.command, "run", "--", "mpirun", "-n", "1", "cat"], input=text,
                          text=True, capture_output=True, timeout=60, env=sandbox.environment)
    assert done.returncode == 0 and done.stdout == text, done.stderr


def test_limit_that_an_agent_meets_while_it_serves(sandbox, programs, belay):
    """A line that cannot be stored is aborted with the reason; one that is committed stays so, and is finished later."""
    job = sandbox.run(ring(programs), interval=None, seconds=12)
    job.wait_epoch(1)
    pid = sandbox.agent()[0]

    def limit(size):
        subprocess.run(["prlimit", "--pid", str(pid), f"--fsize={size}:"], check=True)

    def take(state):
        done = belay("checkpoint", "job", timeout=20)
        line = job.status()["lines"][-1]
        assert (line["state"], done.returncode == 0) == (state, state == "committed"), (line, done.stderr)
        assert state == "committed" or "File too large" in line["reason"] and "File too large" in done.stderr
        return line["line"]

    for _ in range(2):  # a whole image, then a delta
        limit(4 * KIB)
        take("aborted")
        limit("unlimited")
        take("committed")
    limit(64 * MIB)
    line = take("committed")  # the delta is written, but the image is larger, though hardly any of it is there
    wait_for(lambda: f"line {line} is committed, but cannot be brought into the images" in job.errors, 20, "the reason")
    with subprocess.Popen([sandbox.command, "checkpoint", "job"], env=sandbox.environment,
                          stdout=subprocess.PIPE) as waiting:
        limit("unlimited")
        assert waiting.wait(20) == 0
    assert job.status()["newest_line"] == line + 1 and sandbox.agent()[0] == pid
    job.kill_and_recover()
    assert job.finish() == 0
    assert_recovered(job)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become another user")
def test_no_threads_for_the_agent(sandbox):
    """Processes and threads of a user are limited together. libuv would abort the agent in its first line."""
    user = 61000 + os.getpid() % 4000  # who has no other process
    sandbox.become(user)
    agent = os.path.join(sandbox.prefix, "lib", "belay", "belayd")
    if subprocess.run([*sandbox.user, "test", "-x", agent], check=False).returncode:
        pytest.skip("other users cannot execute what was built")
    for most in (1, 2, 3, 4, 5):
        done = subprocess.run(["prlimit", f"--nproc={most}:{most}", *sandbox.user, agent, "--rundir", sandbox.rundir],
                              env=sandbox.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        lines = lines_of_belay(done.stderr)
        assert done.returncode == 1 and len(lines) == 1, (most, done.stderr)
        assert "ulimit -u" in lines[0] or most == 1, lines
        sandbox.wait_quiet()
    assert traces.files_under(sandbox.rundir) == []


# ---- descriptors ----

def start_agent(sandbox, most):
    """An agent with this hard limit of descriptors."""
    agent = os.path.join(sandbox.prefix, "lib", "belay", "belayd")
    return subprocess.run(["prlimit", f"--nofile={most}:{most}", agent, "--rundir", sandbox.rundir],
                          env=sandbox.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_more_ranks_than_descriptors(sandbox, programs, belay):
    """Refused before anything begins; as many as fit are protected as ever, through a restart."""
    assert start_agent(sandbox, 72).returncode == 0
    done = belay("run", "--", "mpirun", "-n", "4", *ring(programs).argv)
    reasons = [line for line in lines_of_belay(done.stderr) if "ulimit -Hn" in line]
    assert done.returncode == 77 and "4 ranks may need 90 descriptors" in reasons[-1], done.stderr
    start_agent(sandbox, 72)
    job = sandbox.run(ring(programs), seconds=4)
    job.wait_lines()
    job.kill_and_recover()
    job.wait_committed(job.status()["history"][-1]["restored_line"] + 2)
    assert job.finish() == 0
    assert_recovered(job)


def test_descriptors_of_a_rank(sandbox, programs):
    """Not more than docs/security.md and the refusal say, in the agent and in the keeper; more ranks need more."""
    counts = {}
    for ranks in (2, 6):
        program = programs.test_program("ring", "--steps", 400, ranks=ranks)
        job = sandbox.run(program, name=f"job{ranks}", interval="100ms", seconds=4, BELAY_DUMPABLE="1")
        job.wait_lines(3)
        job.kill_and_recover()
        job.wait_committed(job.status()["history"][-1]["restored_line"] + 2)
        counts[ranks] = [max(descriptors_of(pid) for _ in range(200)) for pid in sandbox.agent()]
        assert sandbox.belay("stop", job.name).returncode == 0
        job.wait()
        sandbox.belay("clean", job.name)
        sandbox.wait_quiet()
    for most, two, six in zip((12, 3), counts[2], counts[6]):
        assert 0 < (six - two) / 4 <= most, counts
        assert six <= 32 + 9 + 6 * most, counts


@pytest.mark.parametrize("who", ["agent", "keeper"])
def test_descriptors_that_run_out(sandbox, programs, belay, who):
    """The line is aborted with the reason; the next one is taken when there are some again."""
    job = sandbox.run(ring(programs), interval=None, seconds=8)
    job.wait_epoch(1)
    assert belay("checkpoint", "job").returncode == 0
    pid = sandbox.agent()[("agent", "keeper").index(who)]
    before = limits_of(pid)["Max open files"][0]
    subprocess.run(["prlimit", "--pid", str(pid), "--nofile=10:"], check=True)
    done = belay("checkpoint", "job", timeout=20)
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={before}:"], check=True)
    if who == "keeper":
        assert done.returncode != 0 and "ulimit -Hn" in done.stderr, done.stderr
        assert job.status()["lines"][-1]["state"] == "aborted"
    else:  # not even a client is served, and hears why
        assert done.returncode != 0 and "no descriptor left" in done.stderr, done.stderr
    assert belay("checkpoint", "job").returncode == 0
    line = job.status()["newest_line"]
    assert job.kill_and_recover()["history"][-1]["restored_line"] == line
    assert job.finish() == 0
    assert_recovered(job)


def test_adoption_that_lacks_descriptors(sandbox, programs, belay):
    """An agent that cannot take up what a killed one has left leaves it where it is."""
    job = sandbox.run(ring(programs), options=["--max-restarts", "0"], seconds=4)
    line = job.wait_committed(2)
    os.kill(sandbox.agent()[0], signal.SIGKILL)
    assert job.wait() != 0
    for most in (16, 39, 40, 45):  # too few at once, then as it takes up what there is
        done = start_agent(sandbox, most)
        refusals = [text for text in lines_of_belay(done.stderr) if "ulimit -Hn" in text or "oo many open" in text]
        assert done.returncode == 1 and refusals, (most, done.stderr)
    for _ in range(2):  # one that has taken it up and is killed leaves it to the next
        assert start_agent(sandbox, 200).returncode == 0
        status = job.status()
        assert (status["state"], status["ranks"]) == ("lost", 2) and status["newest_line"] >= line
        os.kill(sandbox.agent()[0], signal.SIGKILL)
    job.restart()
    assert job.finish() == 0
    assert_same_result(job)
    assert job.status()["history"][-1]["restored_line"] >= line


# ---- room in the run directory ----

@pytest.fixture
def small_rundir(sandbox):
    """The run directory on a file system of its own with hardly any room."""
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "none", sandbox.rundir],
                                           capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield sandbox.rundir
    sandbox.belay("clean")
    sandbox.wait_quiet()
    subprocess.run(["umount", "--lazy", sandbox.rundir], check=True)


def fill(folder):
    with pytest.raises(OSError), open(os.path.join(folder, "full"), "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_run_directory_that_is_full(sandbox, programs, small_rundir):
    """Lines are in memory: the job is protected all the same, and told what could not be written."""
    sandbox.start_agent()
    fill(small_rundir)
    job = sandbox.run(ring(programs), seconds=4)
    job.wait_lines()
    job.kill_and_recover()
    assert job.finish() == 0
    assert_same_result(job)
    told = [line for line in lines_of_belay(job.errors) if "cannot be written" in line]
    assert len(told) == 1 and "No space left on device" in told[0], job.errors
    os.unlink(os.path.join(small_rundir, "full"))


def test_run_directory_that_is_full_when_a_node_is_lost(sandbox, programs, small_rundir):
    """Of several nodes, an epoch that cannot be recorded is not opened: the job is held, and goes on when there is room."""
    job = sandbox.run(ring(programs), seconds=4, options=on_nodes(2))
    job.wait_lines()
    line = job.status()["newest_line"]
    fill(small_rundir)
    kill_node(sandbox, job, 1)
    assert job.wait() == 75
    assert "No space left on device" in job.errors and "'belay restart job' goes on" in job.errors, job.errors
    assert job.status()["state"] == "lost"
    os.unlink(os.path.join(small_rundir, "full"))
    job.restart()
    assert job.wait_epoch(2)["history"][-1]["restored_line"] >= line
    assert job.finish() == 0
    assert_same_result(job)


def test_record_that_cannot_be_written(sandbox, programs):
    """As anybody meets it: the job's end is its own all the same."""
    in_the_way = os.path.join(sandbox.rundir, "jobs")
    with open(in_the_way, "x", encoding="ascii"):
        pass
    job = sandbox.run(ring(programs), seconds=1)
    assert job.wait() == 0
    assert_same_result(job)
    assert any("the final status of job" in line for line in lines_of_belay(job.errors)), job.errors
    os.unlink(in_the_way)


def test_list_of_very_many_jobs(sandbox, programs, belay):
    """More records than a message can hold, beside a job that runs."""
    first = sandbox.run(programs.test_program("exits", "--steps", 1), name="first", line=[
        "mpirun", "-n", "1", *programs.test_program("exits", "--steps", 1).argv], trace=False, interval=None)
    assert first.wait() == 0
    path = os.path.join(sandbox.rundir, "jobs", "{}.status")
    with open(path.format("first"), "rb") as file:
        record = file.read()
    record += b"\x82\x01" + b"\xff\xff\x03" + b"x" * 65535  # message: another text of that field
    for number in range(300):
        name = f"job{number}".encode()
        with open(path.format(name.decode()), "wb") as file:
            file.write(record.replace(b"\x0a\x05first", b"\x0a" + bytes([len(name)]) + name, 1))
    job = sandbox.run(ring(programs), seconds=2)
    job.wait_epoch(1)
    done = belay("list", "--all")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1 + 300 + 2, done.stderr
    assert job.finish() == 0
    assert_same_result(job)
