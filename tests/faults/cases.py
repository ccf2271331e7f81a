"""The programs that are disturbed: each takes some seconds, and its output depends on its options alone."""

import os
import shutil
import subprocess

from programs import TESTS, Program

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # Debian's, which its mpi4py belongs to
SECONDS = 3
# Of tests/programs: their options beside steps and seconds, and the files that they write.
OF_TESTS = {
    "ring": ((), ""),
    "collmix": ((), ""),
    "p2pmix": ((), ""),
    "mem_ops": ((), ""),
    "files": (("--mode", "rewrite", "--value", "64"), "data-*"),
    "threads": ((), ""),
}
STEPS = {"mem_ops": 60, "pickles": 90}
USUAL_STEPS = 240
KEEP_A_CHILD = ("mem_ops", )  # which runs at each line
AT_ONCE = ("heat", "melt")  # as fast as they can, to their ends


def has_mpi4py():
    return subprocess.run([PYTHON, "-c", "import mpi4py"], capture_output=True, check=False).returncode == 0


def names():
    """Of all programs, also of those that are not installed here: a seed chooses the same one everywhere."""
    return [*OF_TESTS, "heat", "pickles", "melt"]


def is_here(name):
    if name == "pickles":
        return has_mpi4py()
    return name != "melt" or shutil.which("lmp") is not None


def program(programs, name, ranks):
    """A Program. One that is not installed is replaced by a test program."""
    if not is_here(name):
        name = "ring"
    words = ("--steps", str(STEPS.get(name, USUAL_STEPS)))
    if name == "heat":
        return programs.heat(side=256, steps=6000, ranks=ranks)
    if name == "pickles":
        return Program((PYTHON, os.path.join(TESTS, "programs", "pickles.py"), *words), ranks)
    if name == "melt":
        return Program((shutil.which("lmp"), "-in", os.path.join(HERE, "melt.lammps"), "-log", "none", "-screen", "none"),
                       ranks, "melt.*", ends_by_itself=True)
    options, outputs = OF_TESTS[name]
    found = programs.test_program(name, *words, *options, ranks=ranks)
    return Program(found.argv, ranks, outputs)


def seconds_of(found):
    """For Job: how long its steps are to take; None if it has no such option."""
    return None if found.ends_by_itself else SECONDS
