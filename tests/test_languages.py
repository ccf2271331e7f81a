"""Programs that are not plain C, or are not started directly, recover like others."""

import os
import shlex
import shutil
import subprocess

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result
from programs import PYTHON, TESTS, Program, fixed, lacks, needs_modules, pickles


LINKER = "/lib64/ld-linux-x86-64.so.2"

FORTRAN = ["fortran77", "fortran90", "fortran08"]


def built(programs, name, *arguments, **options):
    """A test program that is only built where its compiler is there."""
    program = programs.test_program(name, *arguments, **options)
    if not os.path.exists(program.argv[0]):
        lacks(f"{name} was not built: its compiler is missing")
    return program


@pytest.mark.parametrize("name", FORTRAN)
def test_fortran(sandbox, programs, name):
    job = sandbox.run(built(programs, name, "--steps", 200, "--seconds", 2))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.parametrize("name", [pytest.param("particles", marks=pytest.mark.campaign), "wave"])
def test_fortran_as_scientists_write_it(sandbox, programs, name):
    program = built(programs, name, "--steps", 200)
    job = sandbox.run(Program(program.argv, 4, f"{name}.*"), seconds=2)
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_fortran_with_large_commons(sandbox, programs):
    """3 GiB of them, from below 2 GiB on, and an internal procedure as an argument."""
    job = sandbox.run(built(programs, "integrals", "--steps", 200, "--seconds", 2))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_fortran_twice(sandbox, programs):
    """Integers of handles that were made before the first restart are still good after the second one."""
    job = sandbox.run(built(programs, "fortran77", "--steps", 400, "--seconds", 4))
    for epoch in (1, 2):
        job.wait_committed(2 * epoch)
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.parametrize("name", ["bindings", "bindings_skipped"])
def test_cxx(sandbox, programs, name):
    job = sandbox.run(built(programs, name, "--steps", 200, "--seconds", 2))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_python(sandbox):
    job = sandbox.run(pickles("--steps", "150", "--seconds", "3"))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_python_as_scientists_write_it(sandbox):
    """With numpy, whose BLAS has threads."""
    needs_modules("mpi4py", "numpy")
    program = Program((PYTHON, os.path.join(TESTS, "programs", "science.py"), "--steps", "150"), 4, "science.dat")
    job = sandbox.run(program, seconds=3, OPENBLAS_NUM_THREADS="2")
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


POOL = """
from mpi4py.futures import MPIPoolExecutor
from time import sleep

def work(number):
    sleep(0.01)
    return number * number

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(sum(pool.map(work, range(600), chunksize=2)))
"""


@pytest.mark.campaign
def test_pool_of_processes(sandbox):
    """Among the ranks that there are; one that wants to start others is refused (MPI_Comm_spawn)."""
    needs_modules("mpi4py")
    path = os.path.join(sandbox.folder, "pool.py")
    with open(path, "w", encoding="ascii") as file:
        file.write(POOL)
    job = sandbox.run(Program((PYTHON, "-m", "mpi4py.futures", path), ends_by_itself=True), trace=False)
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def run_in_ways(sandbox, program, ways, **options):
    """One rank for each of the ways to start the program, without its options; one kill."""
    trace = os.path.join(sandbox.folder, "trace")
    line = ["mpirun"]
    for way in ways:
        line += ["-n", "1", *way, *program.argv[1:], "--trace", trace, ":"]
    job = sandbox.run(program, trace=False, line=line[:-1], **options)
    job.trace_path = trace
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


# ---- with threads of OpenMP ----

def test_hybrids(sandbox, programs, monkeypatch):
    """C, C++ and Fortran in one world, two or three threads in each process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # for the native run
    names = ["hybrid_c", "hybrid_cxx", "hybrid_fortran", "hybrid_c"]
    ways = [["env", f"OMP_NUM_THREADS={2 + number % 2}", *built(programs, name).argv]
            for number, name in enumerate(names)]
    run_in_ways(sandbox, programs.test_program("hybrid_c", "--steps", 200, "--seconds", 2), ways,
                OMP_WAIT_POLICY="passive")


def script(folder, text):
    path = os.path.join(folder, "script.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


# ---- started by others ----

PYTHON_WRAPPER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]) % 256)"


def test_wrappers(sandbox, programs):
    """The program is started by others, which stay what they are."""
    ring = programs.test_program("ring").argv[0]
    text = f'/usr/bin/python3 -c "print(1)" > /dev/null\n{shlex.quote(ring)} "$@"\n'
    wrappers = ["env -u NOTHING SOME=thing", "nice -n 1", "setarch -R", "stdbuf -oL", "taskset 1",
                "numactl --localalloc", "strace -f -o /dev/null", "/usr/bin/time", f"{PYTHON} -c {shlex.quote(PYTHON_WRAPPER)}"]
    missing = [words for words in wrappers if not shutil.which(shlex.split(words)[0])]
    if missing:
        lacks(f"{missing} are not installed")
    ways = [[*shlex.split(words), ring] for words in wrappers]
    ways += [[LINKER, ring], [fixed(programs.test_program("placed").argv[0], sandbox.folder)]]
    program = programs.test_program("ring", "--steps", 200, "--seconds", 2, ranks=1 + len(ways))
    run_in_ways(sandbox, program, [[script(sandbox.folder, text)], *ways], BELAY_LATE_MPI="")  # or Python itself would be made the rank


def test_sanitizers(sandbox, programs, monkeypatch):
    """AddressSanitizer and UBSan; 16 TiB of its memory lie at fixed addresses."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # Open MPI has some; for the native run
    sandbox.environment["ASAN_OPTIONS"] = "detect_leaks=0"
    job = sandbox.run(programs.test_program("ring_asan", "--steps", 200, "--seconds", 2))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def real_libmpi():
    path = subprocess.run(["mpicc", "-print-file-name=libmpi.so.40"], capture_output=True, text=True, check=True).stdout
    return os.path.realpath(path.strip())


def test_linking(sandbox, programs):
    """However the program is led to a libmpi, it gets ours."""
    if not shutil.which("patchelf"):
        lacks("patchelf is not installed")
    ring = programs.test_program("ring").argv[0]
    copies = os.path.join(sandbox.base, "copies")
    os.mkdir(copies)
    shutil.copy(real_libmpi(), os.path.join(copies, "libmpi.so.40"))

    def patched(name, *change):
        path = os.path.join(sandbox.base, name)
        subprocess.run(["patchelf", *change, "--output", path, ring], check=True)
        return [path]

    ways = [patched("absolute", "--replace-needed", "libmpi.so.40", real_libmpi()),
            patched("absolute-copy", "--replace-needed", "libmpi.so.40", os.path.join(copies, "libmpi.so.40")),
            patched("rpath", "--force-rpath", "--set-rpath", copies),
            patched("runpath", "--set-rpath", copies),
            ["env", f"LD_LIBRARY_PATH={copies}", ring],
            ["env", f"LD_LIBRARY_PATH={os.path.dirname(real_libmpi())}", ring]]
    program = programs.test_program("ring", "--steps", 200, "--seconds", 2, ranks=len(ways))
    run_in_ways(sandbox, program, ways)


@pytest.mark.parametrize("name", ["own_program", "own_in_program"])
def test_names_of_the_program(sandbox, programs, name):
    """Functions of its own that are called like Fortran's of MPI, or like something inside of Open MPI or Belay."""
    job = sandbox.run(programs.test_program(name, "--steps", 100, "--seconds", 1, ranks=2))
    job.wait_committed(1)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_other_names_of_the_library(sandbox, programs):
    """An Open MPI that is not called libmpi.so.40 would run in the wrong half: one line, and no rank."""
    if not shutil.which("patchelf"):
        pytest.skip("patchelf is not installed")
    ring, copy = programs.test_program("ring").argv[0], os.path.join(sandbox.base, "libothermpi.so")
    shutil.copy(real_libmpi(), copy)
    other = os.path.join(sandbox.base, "other")
    subprocess.run(["patchelf", "--replace-needed", "libmpi.so.40", copy, "--output", other, ring], check=True)
    job = sandbox.run(Program((other,), 2), trace=False)
    assert job.wait(30) != 0
    assert "is linked with an Open MPI that is not called libmpi.so.40" in job.errors


def test_names(sandbox, programs):
    """What ps shows and /proc/self tells, under another argv[0], before a restart and after it."""
    program = programs.test_program("names", "--steps", 100, "--seconds", 2, ranks=2)
    called = ["bash", "-c", f'exec -a other {shlex.quote(program.argv[0])} "$@"', "bash", *program.argv[1:]]
    job = sandbox.run(type(program)(tuple(called), 2), trace=False)
    job.wait_committed(1)
    job.kill_and_recover()
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


def test_python_script_in_a_shell_script(sandbox):
    """Not the launcher's child: known by its import."""
    program = pickles("--steps", "150", "--seconds", "3")
    path = script(sandbox.folder, f'{shlex.join(program.argv)} "$@"\n')
    trace = os.path.join(sandbox.folder, "trace")
    job = sandbox.run(program, trace=False, line=["mpirun", "-n", "4", path, "--trace", trace])
    job.trace_path = trace
    job.wait_committed(1)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_libmpi_by_an_absolute_path(sandbox, programs, monkeypatch):
    """Not linked with MPI: it has to be named, and what it loads has to be ours."""
    monkeypatch.setenv("MPI_LIBRARY", real_libmpi())  # for the native run
    sandbox.environment.update(MPI_LIBRARY=real_libmpi(), BELAY_LATE_MPI="late")
    job = sandbox.run(programs.test_program("late"), trace=False)
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_mpi_that_is_loaded_unprotected(sandbox, programs):
    """Said when it begins, once for all ranks, with the setting that helps."""
    sandbox.environment.update(MPI_LIBRARY=real_libmpi(), BELAY_LATE_MPI="R")
    with subprocess.Popen([sandbox.command, "run", "--", "mpirun", "-n", "2", *programs.test_program("late").argv],
                          env=sandbox.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as job:
        said = job.stderr.readline()
        assert said == "belay: late loads MPI while it runs and is not protected: set BELAY_LATE_MPI=R:late\n"
        assert job.poll() is None
        rest = job.stderr.read()
        assert "late loads MPI" not in rest and "nothing was protected" in rest, rest
    assert job.returncode == 0


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("kill", range(10))
@pytest.mark.parametrize("name", FORTRAN)
def test_campaign_of_fortran_kills(sandbox, programs, name, kill):
    job = sandbox.run(built(programs, name, "--steps", 400, "--seconds", 4), interval="150ms", seed=kill)
    job.wait_committed(1 + kill % 5)
    job.wait_step(job.random.randrange(1, 200))
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
