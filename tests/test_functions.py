"""Every supported function of MPI: called before a line, pending across it where it can be, called after a restart.

uses.tsv names for each the program that does so; docs/mpi-support.md shows it. A tool of the profiling interface counts
the calls (programs/calls.c).
"""

import dataclasses
import os
import re

import pytest

from belaytest import assert_recovered, newest_line
from programs import TESTS, TOP

# What they begin is left undone by the call.
PENDING = re.compile(r"MPI_I(?!m?probe|mrecv|n[fit]|s_)[a-z_]+|MPI_\w+_init|MPI_Start(all)?|MPI_[BR]send|MPI_Cancel|"
                     r"MPI_Request_free|MPI_Grequest_\w+")

# Called by the bindings of Fortran alone (test_languages.py).
BINDINGS = re.compile(r"MPI_\w+_(FN|F90|NULL)|MPI_F_\w+")

# Called once by every program, at its beginning or its end; one ends a job (test_life.py). The last is what the tool
# is told by.
NOT_COUNTED = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Abort", "MPI_Pcontrol"}


def read_table(*path):
    with open(os.path.join(*path), encoding="ascii") as file:
        return [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]


def supported_functions():
    """{name: class}"""
    return {row[0]: row[1] for row in read_table(TOP, "mpi-layer", "api", "functions.tsv")
            if row[2] in ("generated", "custom") and row[1] != "tool" and  # test_tools.py
            not BINDINGS.fullmatch(row[0]) and row[0] not in NOT_COUNTED}


STEPS = {"io_calls": 40, "io_update": 40, "req_functions": 40}
USES = dict(read_table(TESTS, "uses.tsv"))


def test_every_function_has_a_program():
    assert sorted(USES) == sorted(supported_functions())


def read_counts(job):
    """{function: [before, after, pending]} of all ranks together."""
    counts = {}
    for rank in range(job.program.ranks):
        for line in job.read(f"calls-{rank}").decode().splitlines():
            name, *numbers = line.split()
            counts[name] = [a + int(b) for a, b in zip(counts.get(name, [0, 0, 0]), numbers)]
    return counts


def launch_words(program, sandbox, is_paced):
    pace = ["--seconds", "3"] if is_paced else []
    return ["-n", str(program.ranks), *program.argv, *pace, "--trace", os.path.join(sandbox.folder, "trace")]


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("words", sorted(set(USES.values())))
def test_used_before_and_after(sandbox, programs, words):
    name, *arguments = words.split()
    is_paced = name != "req_functions"
    program = programs.test_program(name, *arguments, "--steps", STEPS.get(name, 120))
    program = dataclasses.replace(program, outputs="io-*" if name.startswith("io_") else "")
    tool = ["-x", "LD_PRELOAD=" + os.path.join(programs.build, "libcalls.so")]
    job = sandbox.run(program, interval="200ms", line=["mpirun", *tool, *launch_words(program, sandbox, is_paced)],
                      trace=False)
    job.trace_path = os.path.join(sandbox.folder, "trace")
    job.wait_step(12 if is_paced else 20)
    job.wait_committed(newest_line(job.status()) + 2)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    counts = read_counts(job)
    mine = [function for function, words_of_it in USES.items() if words_of_it == words]
    assert [function for function in mine if 0 in counts[function][:2]] == []
    if name == "req_functions":
        assert [function for function in mine if PENDING.fullmatch(function) and not counts[function][2]] == []
