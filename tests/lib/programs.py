"""The programs that the tests run, and their undisturbed runs to compare with."""

import glob
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

import pytest

from waiting import run

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(TESTS)
NATIVE_LIMIT_S = 120
PYTHON = "/usr/bin/python3"  # Debian's, which its mpi4py belongs to
PACE = "BELAY_TEST_PACE"  # the variable; what it means is told in tests/programs/program.h
HURRY = {PACE: os.path.abspath(__file__)}  # there, and not empty


def lacks(reason):
    """Software that a test needs is not here: in scripts/check, which installs it, that is a failure."""
    if os.environ.get("BELAY_CHECK"):
        pytest.fail(f"{reason}; scripts/install-deps --tests installs it", pytrace=False)
    pytest.skip(reason)


def needs_modules(*names):
    for name in names:
        if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode:
            lacks(f"{name} is not installed (python3-{name})")


def mpi_environment():
    """What tests/env.sh exports."""
    settings = {}
    with open(os.path.join(TESTS, "env.sh"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("export "):
                name, _, value = line[len("export "):].strip().partition("=")
                settings[name] = value
    return settings


@dataclass(frozen=True)
class Program:
    """A command to run under mpirun. Relative paths in it are of the folder it runs in."""

    argv: tuple
    ranks: int = 4
    outputs: str = ""  # pattern of the files that it writes
    ends_by_itself: bool = False  # and does not wait for its test (tests/programs/program.h)

    @property
    def name(self):
        return os.path.basename(self.argv[0])


def pickles(*arguments):
    """Python's objects by mpi4py."""
    needs_modules("mpi4py")
    return Program((PYTHON, os.path.join(TESTS, "programs", "pickles.py"), *arguments))


def pools(*arguments):
    """A pool of processes in each of two ranks."""
    needs_modules("mpi4py")
    return Program((PYTHON, os.path.join(TESTS, "programs", "pools.py"), *arguments), 2)


def science(steps, table_mib=0):
    """Arrays, objects and a file by mpi4py and NumPy."""
    needs_modules("mpi4py", "numpy")
    return Program((PYTHON, os.path.join(TESTS, "programs", "science.py"), "--steps", str(steps), "--table", str(table_mib)), 4,
                   "science.dat")


def melt(*variables):
    """LAMMPS, with variables of its script set as these words say."""
    if not shutil.which("lmp"):
        lacks("LAMMPS is not installed (lammps)")
    return Program((shutil.which("lmp"), "-in", os.path.join(TESTS, "faults", "melt.lammps"), "-log", "none", "-screen", "none",
                    *variables), 4, "melt.*", ends_by_itself=True)


@dataclass(frozen=True)
class Result:
    status: int
    stdout: bytes
    files: tuple  # of (name, contents)


def collect(program, folder, status, stdout):
    names = sorted(glob.glob(os.path.join(folder, program.outputs))) if program.outputs else []
    files = []
    for name in names:
        with open(name, "rb") as file:
            files.append((os.path.basename(name), file.read()))
    return Result(status, stdout, tuple(files))


class Programs:
    """Where the programs are, inputs made for the session, and results of native runs."""

    def __init__(self, prefix, build, folder):
        self.apps = os.path.join(prefix, "lib", "belay", "apps")
        self.build = os.path.join(build, "tests", "programs")
        self.folder = folder
        self._inputs = {}
        self._references = {}

    def test_program(self, name, *arguments, ranks=4):
        return Program((os.path.join(self.build, name), *map(str, arguments)), ranks)

    def heat(self, side=512, steps=8000, snapshot_every=2000, ranks=4):
        """About 2 s on two cores; with snapshots in the folder that it runs in."""
        return Program((os.path.join(self.apps, "heat"), "--input", self._heat_input(side), "--steps", str(steps),
                        "--snapshot-every", str(snapshot_every), "--output", "snapshot"),
                       ranks, "snapshot-*.h5", ends_by_itself=True)

    def concurrent(self, name, mib, rounds, ranks=2):
        """A program of apps/concurrent."""
        return Program((os.path.join(self.apps, name), str(mib), str(rounds)), ranks, ends_by_itself=True)

    def _heat_input(self, side):
        if side not in self._inputs:
            path = os.path.join(self.folder, f"heat-{side}.h5")
            subprocess.run([os.path.join(self.apps, "heat-input"), "--nx", str(side), "--ny", str(side + 13),
                            "--seed", "7", path], check=True, timeout=60)
            self._inputs[side] = path
        return self._inputs[side]

    def reference(self, program):
        """The Result of an undisturbed native run (once per session)."""
        if program not in self._references:
            folder = tempfile.mkdtemp(prefix="native-", dir=self.folder)
            done = run_native(program, folder)
            if done.returncode != 0:
                print(f"---- native {program.name}: status {done.returncode}\n{done.stderr.decode(errors='replace')}")
            self._references[program] = collect(program, folder, done.returncode, done.stdout)
        return self._references[program]


def fixed(path, folder):
    """A copy of a position-independent executable that is to lie at the addresses that it is linked for."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[16] = 2  # e_type: ET_EXEC
    copy = os.path.join(folder, os.path.basename(path))
    with open(copy, "wb") as file:
        file.write(data)
    os.chmod(copy, 0o755)
    return copy


def run_native(program, folder):
    return run_launch(["mpirun", "-n", str(program.ranks), *program.argv], folder)


def run_launch(line, folder):
    """A launch line to its end, undisturbed, and as fast as it can."""
    with tempfile.TemporaryDirectory(prefix="native-") as temporary:
        environment = {**os.environ, **mpi_environment(), **HURRY, "TMPDIR": temporary}
        return run(line, NATIVE_LIMIT_S, cwd=folder, env=environment)
