"""What cannot be done is refused with one clear line, and nothing is lost."""

import os
import re
import shutil
import stat
import subprocess

import pytest

from belaytest import Job, assert_same_result, lines_of_belay
from programs import fixed, lacks


def only_line(text):
    """The one line that Belay said, without the launcher's own words."""
    lines = lines_of_belay(text)
    assert len(lines) == 1, text
    return lines[0]


def assert_refused(done, *words):
    assert done.returncode != 0
    line = only_line(done.stderr)
    for word in words:
        assert word in line, line


def lost_job(sandbox, programs):
    """A job that was lost and whose images are kept: one kill, no restart."""
    job = sandbox.run(programs.test_program("ring", "--steps", 500, "--seconds", 5), options=["--max-restarts", "0"])
    job.wait_committed(1)
    job.kill_rank()
    assert job.wait() == 75
    return job


@pytest.mark.parametrize("interval", ["0", "-1s", "soon", "10 parsecs", "99999999999999h"])
def test_bad_interval(belay, interval):
    assert_refused(belay("run", "--interval", interval, "--", "mpirun", "-n", "1", "true"), interval)


def with_preload(sandbox, programs, setting):
    """A short program under mpirun with the preload and one setting."""
    preload = os.path.join(sandbox.prefix, "lib", "belay", "libbelay.so")
    return subprocess.run(["mpirun", "-x", f"LD_PRELOAD={preload}", "-x", setting, "-n", "1",
                           *programs.test_program("exits").argv], env=sandbox.environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


@pytest.mark.parametrize("interval, hint", [("0", "leave --interval out"), ("1ms", "10ms"), ("soon", "not a time")])
def test_bad_interval_with_the_preload(sandbox, programs, interval, hint):
    done = with_preload(sandbox, programs, f"BELAY_INTERVAL={interval}")
    assert done.returncode == 97 and f"BELAY_INTERVAL={interval}" in only_line(done.stderr), done.stderr
    assert hint in only_line(done.stderr)


@pytest.mark.parametrize("command", ["status", "checkpoint", "stop", "restart"])
def test_unknown_job(belay, command):
    assert_refused(belay(command, "nosuchjob"), "nosuchjob")


def test_static_executable(sandbox, programs, belay):
    program = programs.test_program("static")
    assert_refused(belay("run", "--", "mpirun", "-n", "2", *program.argv), "static")


def test_executable_in_the_way(sandbox, programs, belay):
    """Linked to lie where Belay's own half of the process is."""
    path = fixed(programs.test_program("misplaced").argv[0], sandbox.folder)
    done = belay("run", "--", "mpirun", "-n", "1", path)
    assert done.returncode == 77
    lines = lines_of_belay(done.stderr)
    assert len(lines) == 2 and path in lines[0] and "link it to lie elsewhere" in lines[0], lines


def test_memory_in_the_way(sandbox, programs, belay):
    """The program learns of it by ENOMEM, the user by a line; the job goes on."""
    argv = programs.test_program("mem_fixed", "--mode", "taken").argv
    done = belay("run", "--", "mpirun", "-n", "1", *argv)
    assert done.returncode == 0 and "fixed: Cannot allocate memory" in done.stdout
    assert "wants to map memory" in only_line(done.stderr)


@pytest.mark.parametrize("words", [["valgrind", "-q"], ["gdb", "-q", "-batch", "-ex", "run", "--args"]])
def test_tools_that_would_lose_the_program(programs, belay, words):
    """It would be out of their control, without a word."""
    if not shutil.which(words[0]):
        lacks(f"{words[0]} is not installed")
    done = belay("run", "--", "mpirun", "-n", "1", *words, *programs.test_program("exits").argv)
    assert f"runs under {words[0]}" in done.stderr and "run it without belay" in done.stderr, done.stderr


def test_sanitizer_without_room(programs, belay):
    done = belay("run", "--", "mpirun", "-n", "1", *programs.test_program("ring_tsan").argv)
    assert done.returncode == 97 and "-fsanitize=thread" in lines_of_belay(done.stderr)[0], done.stderr


def test_agent_that_cannot_be_started(sandbox, belay):
    in_the_way = os.path.join(sandbox.folder, "file")
    with open(in_the_way, "x", encoding="utf-8"):
        pass
    done = belay("run", "--", "mpirun", "-n", "1", "true", env={**sandbox.environment, "BELAY_RUNDIR": in_the_way})
    assert_refused(done, in_the_way)


def test_run_directory_open_to_others(sandbox, belay):
    folder = os.path.join(sandbox.folder, "open")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    done = belay("run", "--", "mpirun", "-n", "1", "true", env={**sandbox.environment, "BELAY_RUNDIR": folder})
    assert_refused(done, folder)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o777 and os.listdir(folder) == []


def test_several_hosts_of_another_launcher(sandbox, programs):
    """As srun starts a rank of a step on two hosts; a job of it could not be restarted."""
    preload = os.path.join(sandbox.prefix, "lib", "belay", "libbelay.so")
    step = {"LD_PRELOAD": preload, "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "2"}
    done = subprocess.run(programs.test_program("ring").argv, env={**sandbox.environment, **step}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert_refused(done, f"host {os.uname().nodename} is one of several", "srun --checkpoint-interval")


def test_installation_that_cannot_be_preloaded(sandbox, tmp_path):
    """LD_PRELOAD is split at blanks: the program would run, unprotected."""
    prefix = tmp_path / "a blank"
    for folder, name in (("bin", "belay"), ("lib/belay", "libbelay.so")):
        (prefix / folder).mkdir(parents=True)
        shutil.copy(os.path.join(sandbox.prefix, folder, name), prefix / folder)
    done = subprocess.run([prefix / "bin" / "belay", "run", "--", "true"], env=sandbox.environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert_refused(done, str(prefix), "blank")


@pytest.mark.parametrize("part", ["libbelay.so", "belay-arbiter", "belay-launch", "belay-relay", "belay-vdso.so", "belayd", "belay-keeper", "libmpi.so.40"])
def test_installation_that_lacks_a_part(sandbox, tmp_path, part):
    """It is named before anything is launched."""
    prefix = tmp_path / "prefix"
    for folder in ("bin", os.path.join("lib", "belay")):
        (prefix / folder).mkdir(parents=True)
        for entry in os.scandir(os.path.join(sandbox.prefix, folder)):
            if entry.is_file() and entry.name != part:
                shutil.copy(entry.path, prefix / folder)
    done = subprocess.run([prefix / "bin" / "belay", "run", "--", "touch", tmp_path / "launched"],
                          env=sandbox.environment, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert_refused(done, part, "install Belay again")
    assert not (tmp_path / "launched").exists()


def test_memory_that_the_images_do_not_fit(sandbox, programs, belay):
    """The line is aborted with its reason; the job goes on."""
    job = sandbox.run(programs.test_program("ring", "--steps", 400, "--seconds", 4), interval=None,
                      options=["--memory", "1M"])
    job.wait_epoch(1)
    done = belay("checkpoint", "job")
    assert_refused(done, "--memory")
    line = job.status()["lines"][-1]
    assert line["state"] == "aborted" and "--memory" in line["reason"]
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("ranks, name", [(3, "ring"), (4, "collmix")])
def test_image_of_another_launch(sandbox, programs, belay, ranks, name):
    """Another number of ranks, another binary: refused, and the right one still goes on from its line."""
    job = lost_job(sandbox, programs)
    argv = programs.test_program(name).argv if name != job.program.name else job.program.argv
    done = belay("restart", "job", "--", "mpirun", "-n", ranks, *argv)
    assert done.returncode == 77
    assert any("line" in line for line in lines_of_belay(done.stderr)), done.stderr
    job.restart()
    assert job.wait() == 0
    assert_same_result(job)
    status = job.status()
    assert status["history"][-1]["restored_line"] >= 1


def other_libc(folder):
    """A folder with a C library that is as good as this machine's, but of another build."""
    path = os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6")
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    build = bytes.fromhex(re.search(r"Build ID: (\w+)", notes)[1])
    with open(path, "rb") as file:
        data = file.read()
    assert build in data
    with open(os.path.join(folder, "libc.so.6"), "wb") as file:
        file.write(data.replace(build, bytes([build[0] ^ 1]) + build[1:]))
    return folder


def test_image_of_another_libc(sandbox, programs, belay):
    """Refused by one line that names it, and with the right one the job still goes on from its line."""
    job = lost_job(sandbox, programs)
    libraries = other_libc(sandbox.folder)
    done = belay("restart", "job", "--", "mpirun", "-x", f"LD_LIBRARY_PATH={libraries}", "-n", "4",
                 *job.program.argv)
    assert done.returncode == 77
    assert any("libc" in line and libraries in line for line in lines_of_belay(done.stderr)), done.stderr
    job.restart()
    assert job.wait() == 0
    assert_same_result(job)
    assert job.status()["history"][-1]["restored_line"] >= 1


def test_name_in_use(sandbox, programs, belay):
    job = sandbox.run(programs.test_program("ring", "--steps", 300, "--seconds", 3))
    job.wait_epoch(1)
    assert_refused(belay("run", "--name", "job", "--", "mpirun", "-n", "1", "true"), "job")
    assert job.finish() == 0
    assert_same_result(job)


def test_name_in_use_with_the_preload(sandbox, programs):
    job = sandbox.run(programs.test_program("ring", "--steps", 300, "--seconds", 3))
    job.wait_epoch(1)
    done = with_preload(sandbox, programs, f"BELAY_NAME={job.name}")
    assert done.returncode == 97 and "choose another BELAY_NAME" in only_line(done.stderr)
    assert job.finish() == 0
    assert_same_result(job)


def test_function_refused_by_name(sandbox, programs):
    job = sandbox.run(programs.test_program("refused"), trace=False)
    assert job.wait() == 0
    text = job.read("out").decode()
    assert "MPI_ERR_UNSUPPORTED_OPERATION" in text and "MPI_Win_create" in text


def test_function_refused_with_the_default_handler(sandbox, programs):
    job = sandbox.run(programs.test_program("refused", "--mode", "fatal"), trace=False)
    assert job.wait() != 0
    assert "MPI_Win_create" in job.errors
    assert job.status()["epoch"] == 1  # it ended by itself: no restart


def test_names_with_strange_letters(sandbox, programs):
    for name in ("../job", "a/b", ".hidden", "two\nlines", "x" * 65, ""):
        job = Job(sandbox, programs.test_program("exits"), name="good")
        done = sandbox.belay("run", "--name", name, "--", *job.line)
        assert done.returncode == 64 and done.stderr.count("\n") == 1, name
