"""Ranks that move after the loss of a node: with --restore demand, which runs them while their images come, against eager.

The link to the spare that takes the lost node's place is limited by the fault point `fabric.rate`; all others are as fast as
they are. Times count from the kill.
"""

import functools
import os
import re
import signal
import threading
import time

from environment import TOP, BenchError  # first: it makes the modules of tests/lib known
from lines import MemoryJob
from programs import PYTHON
from report import Result
from runs import Heat
from several import LITTLE, NODES, VICTIM
import traces

RATES_MB_S = (10, 100, 1000, None)  # None: no limit
START_MIB = (64, int(os.environ.get("BENCH_DEMAND_LARGE_MIB", "4096")))  # of the moved rank; all others have the former
START_MS = 20  # more at most
PART_MIB, PERCENT = int(os.environ.get("BENCH_DEMAND_MIB", "256")), 5  # of each rank; of that what a step uses
GRID = int(os.environ.get("BENCH_DEMAND_GRID", "8192"))  # of heat, on all ranks together
STEPS = (1, 10)
LATENCY_TARGET, FAULT_TARGET = 0.35, 4
SCHEMES = ("PARTNER", "XOR", "RS:2+2")
DEADLINE_S = 300
POLL_S = 0.002
WAITED = 200  # ranges; nothing else comes before the rank has waited for so many
LOADER_TARGET = 1 / 0.8  # of the time that the image takes when nobody runs
LOADER_RATES_MB_S = (100, None)
PARITY_TARGET = 2  # the first step, against that from a copy
TRACK_MS, TRACK_LINES = 20, 5  # more for a line at most; lines of a job
WHOLE = re.compile(r"has come in ([0-9.]+) ms")
COME = re.compile(r"of ranges that were waited for half came within ([0-9.]+) ms, the fastest within ([0-9.]+) ms")


class MovingJob(MemoryJob):
    """A job of one rank on each of NODES nodes, with a spare. `command` prints a line in each step, or writes one to `trace`."""

    wait_s = DEADLINE_S

    def __init__(self, environment, command, *options, rate=None, trace=None, fault=None):
        self._rundir = environment.rundir
        self._log = os.path.join(self._rundir, f"node-{NODES}", "agent.log")
        self._log_begin = os.path.getsize(self._log) if os.path.exists(self._log) else 0
        self._trace = trace
        self._is_over = False
        variables = {"OMPI_MCA_mpi_yield_when_idle": "1"}
        if rate:
            fault = f"fabric.rate@{NODES}=rate:{rate * 1000}"
        if fault:
            variables["BELAY_FAULT"] = fault
        self._set = variables
        environment.variables.update(variables)
        self._reader = threading.Thread(target=self._follow) if trace else None
        super().__init__(environment, 1, "--nodes", str(NODES), "--local", "--spares", "1", *options, program=command[0],
                         memory=command[1:], ranks=NODES, binding="none")
        if self._reader:
            self._reader.start()

    def __exit__(self, *unused):
        self._is_over = True
        super().__exit__(*unused)
        self._environment.output_of([self._environment.belay, "clean"])  # the next job's agents have other faults
        if self._reader:
            self._reader.join()
        for name in self._set:
            self._environment.variables.pop(name)

    def _follow(self):
        """Lines of the trace, as if the program had printed them."""
        size = 0
        while not self._is_over:
            now = os.path.getsize(self._trace) if os.path.exists(self._trace) else 0
            if now > size:
                self._times.append(time.monotonic())
                self._rounds.append("0")
                size = now
            time.sleep(POLL_S)

    def wait_steps(self, count):
        self._wait(lambda: len(self._rounds) >= count, f"{count} steps")

    def begin_lines(self):
        """The program works, and what is written between two lines is known: the first one tells nothing of it."""
        self.wait_steps(2)
        self.checkpoint()
        self.checkpoint()

    def lose(self):
        """Kill the agent, the keeper and the rank of a node. Returns ms until each of STEPS has been made since."""
        node = next(node for node in self.status()["nodes"] if node["number"] == VICTIM)
        doomed = [*traces.service_of(self._rundir, VICTIM), *(row["pid"] for row in node["ranks"])]
        at_s, begin = time.time(), time.monotonic()
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: len(self.status()["history"]) > 1, "the next epoch")
        opened = self.status()["history"][-1]["begun_at_ms"] / 1e3 - at_s + begin
        # Steps that were on their way at the loss come before the next epoch.
        self._wait(lambda: len(self._since(opened)) >= STEPS[-1], f"{STEPS[-1]} steps")
        steps = self._since(opened)
        epoch = self.status()["history"][-1]
        if not epoch["restored_line"] or epoch["lost_nodes"] != [VICTIM]:
            raise BenchError(f"the job did not go on from a line without node {VICTIM}: {epoch}")
        return {count: (steps[count - 1] - begin) * 1e3 for count in STEPS}

    def _since(self, begin):
        return [at for at in list(self._times) if at > begin]

    def find_in_log(self, pattern):
        """What the spare's agent says once the image of its rank is whole."""
        found = []

        def look():
            with open(self._log, encoding="utf-8") as log:
                log.seek(self._log_begin)
                found[:] = [match.groups() for match in pattern.finditer(log.read())]
            return found
        self._wait(look, "the whole image")
        return [float(number) for number in found[-1]]


def _memory(environment, mib, permille):
    return [environment.program("memory"), str(mib), str(permille)]


def _numpy(environment):
    del environment
    return [PYTHON, os.path.join(TOP, "bench", "programs", "part.py"), str(PART_MIB), str(PERCENT)]


def _pairs(count, measure):
    """Of so many pairs, what measure("eager") and measure("demand") give; in turn the one or the other comes first."""
    for i in range(count):
        order = ("eager", "demand") if i % 2 == 0 else ("demand", "eager")
        given = {restore: measure(restore) for restore in order}
        yield given["eager"], given["demand"]


def measure_demand_start(environment, pairs):
    """What comes before the first instruction of a moved rank, beside the launch: fetching tables, and restoring."""
    found = []
    for i in range(pairs):
        order = START_MIB if i % 2 == 0 else START_MIB[::-1]
        times = {mib: _first_ms(environment, mib) for mib in order}
        found.append(tuple(times[mib] for mib in START_MIB))
    return [Result("demand-start", "first", "ms", found), Result("demand-start", "more", "ms", [
        (small, large - small) for small, large in found], START_MS, is_absolute=True)]


def _first_ms(environment, mib):
    sizes = ",".join(str(mib if rank == VICTIM else START_MIB[0]) for rank in range(NODES))
    with MovingJob(environment, _memory(environment, sizes, LITTLE), "--restore", "demand") as job:
        job.wait_steps(2)
        job.checkpoint()
        job.lose()
        epoch = job.status()["history"][-1]
        return epoch["fetch_ms"] + epoch["restore_ms"]


def _latency(environment, program, rate, restore):
    """Until the program has made one step and ten, of a job that loses a node after a line."""
    trace = environment.scratch("trace") if program == "heat" else None
    if program == "heat":
        command = [*Heat(environment, GRID).command(10**6), "--trace", trace]
    else:
        command = {"part": _memory(environment, PART_MIB, PERCENT * 10), "numpy": _numpy(environment)}[program]
    with MovingJob(environment, command, "--restore", restore, rate=rate, trace=trace) as job:
        job.begin_lines()
        took_ms = job.lose()
    if trace:
        os.unlink(trace)
    return took_ms


def measure_demand(environment, pairs):
    """Until a program has made as many steps after the loss as with --restore eager, over links of several rates."""
    results = []
    for program in ("part", "numpy", "heat"):
        for rate in RATES_MB_S:
            found = {count: [] for count in STEPS}
            for eager, demand in _pairs(pairs, functools.partial(_latency, environment, program, rate)):
                for count in STEPS:
                    found[count].append((eager[count], demand[count]))
            name = f"{program}-{rate or 'max'}"
            results += [Result(name, f"step {count}", "ms", found[count], LATENCY_TARGET) for count in STEPS]
    return results


def measure_demand_faults(environment, pairs):
    """Ranges that the moved rank waits for, from a copy and from parity: half of them against the fastest of all."""
    results = []
    for scheme in SCHEMES:
        found = []
        for _ in range(pairs):
            with MovingJob(environment, _memory(environment, PART_MIB, PERCENT * 10), "--restore", "demand", "--redundancy", scheme,
                           "--touched-window", "0", fault=f"agent.load.others#0-{WAITED}=error") as job:
                job.wait_steps(2)
                job.checkpoint()
                job.lose()
                half_ms, fastest_ms = job.find_in_log(COME)
                if fastest_ms <= 0:
                    raise BenchError("the moved rank has waited for nothing")
                found.append((fastest_ms, half_ms))
        results.append(Result("demand-faults", scheme, "ms", found, FAULT_TARGET))
    return results


def measure_demand_loader(environment, pairs):
    """Until the whole image of a rank has come that runs meanwhile, against --restore eager, with which nobody runs."""
    results = []
    for rate in LOADER_RATES_MB_S:
        found = list(_pairs(pairs, functools.partial(_whole_ms, environment, rate)))
        results.append(Result("demand-loader", str(rate or "max"), "ms", found, LOADER_TARGET))
    return results


def _whole_ms(environment, rate, restore):
    with MovingJob(environment, _memory(environment, PART_MIB, LITTLE), "--restore", restore, rate=rate) as job:
        job.begin_lines()
        job.lose()
        return job.status()["history"][-1]["fetch_ms"] if restore == "eager" else job.find_in_log(WHOLE)[0]


def measure_demand_parity(environment, pairs):
    """The first step after the loss with an image that comes from parity, against one that comes from a copy."""
    found = {scheme: [] for scheme in SCHEMES}
    for i in range(pairs):
        for scheme in SCHEMES if i % 2 == 0 else SCHEMES[::-1]:
            with MovingJob(environment, _memory(environment, PART_MIB, PERCENT * 10), "--restore", "demand", "--redundancy",
                           scheme) as job:
                job.begin_lines()
                found[scheme].append(job.lose()[STEPS[0]])
    return [Result("demand-parity", scheme, "ms", list(zip(found[SCHEMES[0]], found[scheme])), PARITY_TARGET) for scheme in SCHEMES[1:]]


def measure_demand_track(environment, pairs):
    """Lines of a job that notes what is touched, and has a window to ask for it, against one that restarts eagerly."""
    found = [line for lines in _pairs(pairs, functools.partial(_lines_ms, environment)) for line in zip(*lines)]
    more = [(base, ours - base) for base, ours in found]
    return [Result("demand-track", "line", "ms", found), Result("demand-track", "more", "ms", more, TRACK_MS, is_absolute=True)]


def _lines_ms(environment, restore):
    with MovingJob(environment, _memory(environment, PART_MIB, PERCENT * 10), "--restore", restore) as job:
        job.begin_lines()
        return [job.checkpoint()["total_ms"] for _ in range(TRACK_LINES)]
