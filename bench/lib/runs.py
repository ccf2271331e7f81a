"""The run time of whole programs, under `belay run` without lines or with one every so many seconds, in turn
with native runs. The runs are as long as it takes for lines to happen: the number of steps is measured first.
"""

import json
import os
import time

from environment import BenchError
from report import Result

JOB = "bench"
GRID = 4096  # of heat: 256 MiB on both ranks together
CALIBRATION_S = 8
FIRST_STEPS = 50  # of which that is counted
LIMIT_S = 300
# Strobe in s (None: no lines): length of a run in s, pairs at most, the largest ratio that is wanted.
STROBES = {None: (20, 5, 1.01), 10: (62, 2, 1.02), 60: (80, 2, 1.005)}
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 1000
"""


class Heat:
    """apps/heat, which writes all of its memory in each step."""

    def __init__(self, environment, grid=GRID):
        self._input = environment.scratch("heat.h5")
        self._program = environment.installed("heat")
        environment.output_of([environment.installed("heat-input"), "--nx", str(grid), "--ny", str(grid),
                               "--seed", "7", "--sources", "6", self._input])

    def command(self, steps):
        return [self._program, "--input", self._input, "--steps", str(steps)]


class Lammps:
    """Debian's LAMMPS: 32,000 atoms of a melt, the input of its own benchmark in a larger number of steps."""

    def __init__(self, environment):
        self._program = environment.find_program("lmp", "lammps")
        self._input = environment.scratch("melt.in")

    def command(self, steps):
        with open(self._input, "w", encoding="utf-8") as file:
            file.write(f"{MELT}run {steps}\n")
        return [self._program, "-in", self._input, "-log", "none", "-screen", "none"]


PROGRAMS = {"heat": Heat, "lammps": Lammps}


def _name(program, strobe):
    return program if strobe is None else f"{program}-{strobe}s"


# Name of a benchmark: program and strobe.
NAMES = {_name(program, strobe): (program, strobe) for program in PROGRAMS for strobe in STROBES}


def measure(environment, name, pairs):
    program, strobe = NAMES[name]
    length_s, most_pairs, target = STROBES[strobe]
    subject = PROGRAMS[program](environment)
    native = environment.mpirun(subject.command(count_steps(environment, subject, length_s)))
    options = [] if strobe is None else ["--interval", f"{strobe}s"]
    ours = [environment.belay, "run", "--name", JOB, *options, "--", *native]
    found = []
    for i in range(min(pairs, most_pairs)):
        order = (native, ours) if i % 2 == 0 else (ours, native)
        times = {id(command): seconds(environment, command) for command in order}
        _check_lines(environment, strobe)
        found.append((times[id(native)], times[id(ours)]))
    return [Result(name, "run", "s", found, target)]


def seconds(environment, command):
    begin = time.monotonic()
    environment.output_of(command, LIMIT_S)
    return time.monotonic() - begin


def count_steps(environment, subject, length_s):
    """As many as a native run of that length makes, the start of the program left out."""
    steps, took = 0, 0
    while took < CALIBRATION_S:
        fewer, before = steps, took
        steps = 2 * steps or FIRST_STEPS
        took = seconds(environment, environment.mpirun(subject.command(steps)))
    return int((steps - fewer) * length_s / max(took - before, took / 4))


def _check_lines(environment, strobe):
    status = json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))
    committed = [line for line in status["lines"] if line["state"] == "committed"]
    if strobe is not None and not committed:
        raise BenchError(f"no line was committed in a run with one every {strobe} s")
    environment.output_of([environment.belay, "clean", JOB])
