"""Jobs on several local nodes: what their copies cost, and what the loss of a node does."""

import os
import signal
import statistics
import time

import traces
from environment import BenchError
from lines import MemoryJob
from report import Result

NODES = 4  # and ranks, one on each
MIB = 256  # of each rank
PROVIDER = "tcp"
ALL, LITTLE, SOME = 1000, 10, 100  # permille of the pages that are written between lines
FIRST_LINES = 2  # they make the memory of images and of deltas
REST_MS = 4000  # longer than a line takes
PROTECT_TARGET = 1 / 0.8  # time against the fabric's own
ENCRYPT_LINES = 3  # of a job
ENCRYPT_TARGET = 1 / 0.6  # time, with encryption against without
DIRTY_TARGET = 1 / 30
PAUSE_TARGET = 1.1
PAUSE_LINES = 5  # of a job
LOSS_MS, DETECT_MS = 1500, 700  # beyond the start of such a launch; until the next epoch is opened
VICTIM = 2
IDLE_S = 20
IDLE_TARGET = 0.001  # of a processor


class NodesJob(MemoryJob):
    """A job of one rank on each of the nodes. Ranks share processors, and give them up as they wait."""

    def __init__(self, environment, *options, memory=(MIB,), nodes=NODES, max_restarts=0):
        self._rundir = environment.rundir
        environment.variables["OMPI_MCA_mpi_yield_when_idle"] = "1"
        super().__init__(environment, max_restarts, "--nodes", str(nodes), "--local", *options, memory=memory,
                         ranks=nodes, binding="none")

    def __exit__(self, *unused):
        super().__exit__(*unused)
        self._environment.variables.pop("OMPI_MCA_mpi_yield_when_idle")

    def agents(self):
        """The process ids, by node."""
        return {node["number"]: node["agent_pid"] for node in self.status()["nodes"]}

    def lose_node(self, number):
        """Kill agent, keeper and ranks. Returns ms until the next epoch was opened, and until the program's next step."""
        node = next(node for node in self.status()["nodes"] if node["number"] == number)
        doomed = [*traces.service_of(self._rundir, number), *(row["pid"] for row in node["ranks"])]
        before = len(self._rounds)
        at_s, begin = time.time(), time.monotonic()
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: len(self.status()["history"]) > 1, "the next epoch")
        opened_s = self.status()["history"][-1]["begun_at_ms"] / 1e3
        # Steps that were on their way at the loss come before the next epoch.
        self._wait(lambda: len(self._rounds) > before and self._times[-1] - begin > opened_s - at_s, "a step")
        step = next(at for at in self._times[before:] if at - begin > opened_s - at_s)
        epoch = self.status()["history"][-1]
        if not epoch["restored_line"] or epoch["lost_nodes"] != [number]:
            raise BenchError(f"the job did not go on from a line without node {number}: {epoch}")
        return (opened_s - at_s) * 1e3, (step - begin) * 1e3


def measure_protect(environment, pairs):
    """All bytes of all ranks to other nodes, while the ranks rest, against as many streams of the fabric alone."""
    found = []
    with NodesJob(environment, "--granularity", "page", memory=(MIB, ALL, REST_MS)) as job:
        for _ in range(FIRST_LINES):
            job.value()
            job.checkpoint()
        for _ in range(pairs):
            fabric = environment.output_of([environment.program("fabric"), PROVIDER, str(MIB), str(NODES)])
            streams_ms = next(float(line.split()[1]) for line in fabric.splitlines() if line.startswith("mac "))
            job.value()
            line = job.checkpoint()
            if line["sent_bytes"] < NODES * MIB << 20:
                raise BenchError(f"of {NODES} x {MIB} MiB only {line['sent_bytes']} B were sent")
            found.append((streams_ms, line["protect_ms"] * (NODES * MIB << 20) / line["sent_bytes"]))
    return [Result("protect", "time", "ms", found, PROTECT_TARGET)]


def _lines(environment, count, memory, *options):
    """Lines after the first ones."""
    with NodesJob(environment, *options, memory=memory) as job:
        job.value()
        for _ in range(FIRST_LINES):
            job.checkpoint()
        return [job.checkpoint() for _ in range(count)]


def measure_encrypt(environment, pairs):
    """Whole lines of two nodes, the same job with --encrypt and without, in turn: medians of its lines."""
    found = {"protect": [], "pause": []}
    for i in range(pairs):
        order = (False, True) if i % 2 == 0 else (True, False)
        lines = {is_on: _full_lines(environment, ENCRYPT_LINES, *(["--encrypt"] if is_on else [])) for is_on in order}
        for what, values in found.items():
            medians = {is_on: statistics.median(line[f"{what}_ms"] for line in lines[is_on]) for is_on in order}
            values.append((medians[False], medians[True]))
    return [Result("encrypt", what, "ms", values, target)
            for (what, values), target in zip(found.items(), (ENCRYPT_TARGET, PAUSE_TARGET), strict=True)]


def _full_lines(environment, count, *options):
    """Lines that send all memory of the ranks, while these rest."""
    with NodesJob(environment, "--granularity", "page", *options, memory=(MIB, ALL, REST_MS), nodes=2) as job:
        for _ in range(FIRST_LINES):
            job.value()
            job.checkpoint()
        lines = []
        for _ in range(count):
            job.value()
            lines.append(job.checkpoint())
            if lines[-1]["sent_bytes"] < 2 * MIB << 20:
                raise BenchError(f"of 2 x {MIB} MiB only {lines[-1]['sent_bytes']} B were sent")
    return lines


def measure_protected_dirty(environment, pairs):
    """Lines of a program of which a hundredth is written all the time, against lines that copy everything."""
    full = _lines(environment, pairs, (MIB, LITTLE), "--tracker", "full")
    dirty = _lines(environment, pairs, (MIB, LITTLE))
    results = []
    for what, target in (("total", DIRTY_TARGET), ("protect", None)):
        found = [(base[f"{what}_ms"], line[f"{what}_ms"]) for base, line in zip(full, dirty, strict=True)]
        results.append(Result("protected-1%", what, "ms", found, target))
    return results


def measure_protected_pause(environment, pairs):
    """The same job with copies and without, in turn: medians of its lines."""
    found = {"pause": [], "felt_pause": []}
    for i in range(pairs):
        order = ("SINGLE", "PARTNER") if i % 2 == 0 else ("PARTNER", "SINGLE")
        lines = {scheme: _lines(environment, PAUSE_LINES, (MIB, SOME), "--redundancy", scheme) for scheme in order}
        for what, values in found.items():
            medians = {scheme: statistics.median(line[f"{what}_ms"] for line in lines[scheme]) for scheme in order}
            values.append((medians["SINGLE"], medians["PARTNER"]))
    return [Result("protected-pause", what.removesuffix("_pause"), "ms", values, PAUSE_TARGET)
            for what, values in found.items()]


def _native_start_ms(environment):
    """Of such a launch without Belay, until its first step."""
    begin = time.monotonic()
    with MemoryJob(environment, 0, memory=(1, LITTLE), ranks=NODES, is_protected=False, binding="none") as job:
        job.wait_output()
        return (job.first_output_s() - begin) * 1e3


def measure_node_loss(environment, pairs):
    """From the kill of a node until the program has made a new step, beyond the start of such a launch."""
    steps, detected, beyond = [], [], []
    for _ in range(pairs):
        with NodesJob(environment, memory=(MIB, LITTLE), max_restarts=1) as job:
            native_ms = _native_start_ms(environment)
            job.value()
            job.checkpoint()
            detect_ms, step_ms = job.lose_node(VICTIM)
        steps.append((native_ms, step_ms))
        detected.append((native_ms, detect_ms))
        beyond.append((native_ms, max(step_ms - native_ms, 0)))
    return [Result("node-loss", "whole", "ms", steps), Result("node-loss", "detect", "ms", detected, DETECT_MS, is_absolute=True),
            Result("node-loss", "more", "ms", beyond, LOSS_MS, is_absolute=True)]


def processor_s(pid):
    """Processor time of all threads of a process."""
    total_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[0])
    return total_ns / 1e9


def measure_idle_agent(environment, pairs):
    """Agents of a job that runs while no line is taken: the processor time of the busiest, against the time."""
    found = []
    with NodesJob(environment, memory=(1, LITTLE)) as job:
        job.value()
        job.checkpoint()
        agents = job.agents().values()
        for _ in range(pairs):
            begin, before = time.monotonic(), {pid: processor_s(pid) for pid in agents}
            time.sleep(IDLE_S)
            used_s = max(processor_s(pid) - before[pid] for pid in agents)
            found.append(((time.monotonic() - begin) * 1e3, used_s * 1e3))
    return [Result("idle-agent", "cpu", "ms", found, IDLE_TARGET)]
