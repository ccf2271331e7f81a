"""MPI objects live through lines and restarts: made before, used all along, used by the restarted program."""

import os
import re

import pytest

from belaytest import recover_twice
from programs import TESTS, TOP

PROGRAMS = ["obj_attr", "obj_comms", "obj_ops", "obj_topo", "obj_types"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_recover(sandbox, programs, name):
    """Two kills: what was rebuilt after the first restart is noted and rebuilt again."""
    job = sandbox.run(programs.test_program(name, "--steps", 120, "--seconds", 3), interval="200ms")
    recover_twice(job)


# ---- every function is used by one of them ----

CLASSES = {"attr", "comm", "datatype", "errhandler", "group", "info", "op", "topology"}
# Tested with the Fortran bindings and MPI-IO.
ELSEWHERE = re.compile(r"MPI_\w+_(c2f|f2c|F90)|MPI_[A-Z_]+_FN")


def supported_functions():
    with open(os.path.join(TOP, "mpi-layer", "api", "functions.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.startswith("MPI_")]
    return [row[0] for row in rows
            if row[1] in CLASSES and row[2] in ("generated", "custom") and not ELSEWHERE.fullmatch(row[0])]


def test_every_function_is_used():
    """Of the classes above: each supported function is called by one of the programs."""
    text = ""
    for name in PROGRAMS:
        with open(os.path.join(TESTS, "programs", name + ".c"), encoding="utf-8") as file:
            text += file.read()
    called = set(re.findall(r"\bMPI_\w+(?=\()", text))
    assert [name for name in supported_functions() if name not in called] == []
