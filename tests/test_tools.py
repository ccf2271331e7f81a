"""Profilers (PMPI), debuggers and core dumps; and that a rank's process is what its program expects."""

import os
import resource
import shutil
import signal
import subprocess

import pytest

from belaytest import assert_recovered, assert_same_result, recover_twice
from programs import TOP, lacks
from waiting import wait_for


@pytest.fixture(name="needs_gdb")
def find_gdb():
    if not shutil.which("gdb"):
        lacks("gdb is not installed")



# ---- profilers ----

def counter(programs):
    return os.path.join(programs.build, "libcounter.so")


def reference_with_counter(programs, program):
    """What the program prints natively with the counter preloaded."""
    line = ["-x", f"LD_PRELOAD={counter(programs)}", *program.argv]
    return programs.reference(type(program)(tuple(line), program.ranks)).stdout


def test_preloaded_profiler(sandbox, programs):
    """It is called for each call of the program exactly once, also for those before and after a restart."""
    program = programs.test_program("collmix", "--steps", 100, ranks=2)
    job = sandbox.run(program, line=["mpirun", "-x", f"LD_PRELOAD={counter(programs)}", "-n", "2", *program.argv,
                                     "--seconds", "3"], trace=False)
    job.wait_committed(1)
    job.kill_and_recover()
    assert job.finish() == 0
    assert job.read("out") == reference_with_counter(programs, program)


def test_profiler_before_the_preload(sandbox, programs):
    """LD_PRELOAD as users write it, with the profiler first."""
    program = programs.test_program("collmix", "--steps", 100, ranks=2)
    preload = f"LD_PRELOAD={counter(programs)}:{os.path.join(sandbox.prefix, 'lib', 'belay', 'libbelay.so')}"
    done = subprocess.run(["mpirun", "-x", preload, "-x", f"BELAY_RUNDIR={sandbox.rundir}", "-n", "2", *program.argv],
                          env=sandbox.environment, cwd=sandbox.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, reference_with_counter(programs, program)), done.stderr


def test_linked_profiler(sandbox, programs):
    """A program that is linked with the profiler in front of libmpi."""
    job = sandbox.run(programs.test_program("linked_tool", "--steps", 200, ranks=2), seconds=3)
    job.wait_committed(1)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    assert b"counter: MPI_Isend 400\n" in job.read("out")


# ---- debuggers ----

def gdb(*arguments):
    done = subprocess.run(["gdb", "-nx", "-batch", *arguments, "-x", os.path.join(TOP, "scripts", "gdb-symbols.py"),
                           "-ex", "thread apply all backtrace"], capture_output=True, text=True, timeout=100,
                          stdin=subprocess.DEVNULL, check=False)
    print(done.stdout[-4000:], done.stderr[-2000:])
    return done.stdout


def assert_readable(text):
    """Functions of the program, and the lines of its source."""
    assert " main (" in text and "program_step (" in text and "/ring.c:" in text


@pytest.mark.usefixtures("needs_gdb")
def test_debugger_on_a_rank(sandbox, programs):
    """Before and after a restart. No line is under way then: a rank that has parked stands in Belay's own frames."""
    job = sandbox.run(programs.test_program("ring", "--steps", 400, "--seconds", 400, ranks=2), interval=None)
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    job.wait_committed(1)
    assert_readable(gdb("-p", str(job.pids[1][1])))
    job.kill_and_recover(0)
    assert_readable(gdb("-p", str(job.pids[2][1])))
    assert sandbox.belay("stop", "job").returncode == 0
    job.wait(20)


def core_pattern():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        return file.read().strip()


@pytest.mark.usefixtures("needs_gdb")
@pytest.mark.skipif(core_pattern() != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0,
                    reason="this machine does not write core files named core")
def test_core_file(sandbox, programs):
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        job = sandbox.run(programs.test_program("ring", "--steps", 400, "--seconds", 400, ranks=2),
                          options=["--max-restarts", "0"])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    job.wait_committed(1)
    os.kill(job.pids[1][1], signal.SIGQUIT)
    assert job.wait(30) == 75
    cores = wait_for(lambda: [name for name in os.listdir(job.folder) if name.startswith("core")], 10, "a core file")
    assert_readable(gdb(os.path.join(sandbox.prefix, "lib", "belay", "belay-launch"), job.path(cores[0])))


# ---- the tool information interface ----

def test_tool_interface(sandbox, programs, monkeypatch):
    """Two kills: what was found again after the first restart is noted and found again."""
    monkeypatch.setenv("OMPI_MCA_pml_monitoring_enable", "1")  # for the native run: counters that count
    sandbox.environment["OMPI_MCA_pml_monitoring_enable"] = "1"
    job = sandbox.run(programs.test_program("tool_interface", "--steps", 200, ranks=2), seconds=3, interval="150ms")
    recover_twice(job)


# ---- the process ----

def test_process_state(sandbox, programs):
    """Limits, prctl settings, masks, dispositions: as in a native run, and after a restart."""
    job = sandbox.run(programs.test_program("process_state", "--steps", 200, ranks=2), seconds=3)
    job.wait_committed(1)
    job.kill_and_recover()
    job.finish()
    assert_same_result(job)
