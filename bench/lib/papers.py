"""What papers have measured, measured here on the same axes: the checkpoint of a program by each policy, over its size.

K. Li, J. F. Naughton, J. S. Plank: Low-Latency, Concurrent Checkpointing for Parallel Programs, IEEE TPDS 5(8), 1994. A
run is made with lines and without; what each line adds to its time is the overhead of a checkpoint.
"""

import json
import os
import statistics
import time

from environment import BenchError
from runs import seconds
from svg import draw

JOB = "papers"
LI = "Li, Naughton, Plank 1994"
PROGRAMS = {"merge-sort": "merge sort", "matrix": "matrix multiplication", "travelling-salesman": "travelling salesman",
            "pattern-matching": "pattern matching", "bubble-sort": "bubble sort"}
POLICIES = ("sequential", "main_memory", "cow", "cll", "precopy", "auto")
RANKS = 2
LINES = 8  # about, in a run
# Of a graph: its title, its unit, and where the paper's figures lie: from, to, and in which words. None: it has no figure in
# words that could be drawn beside ours, since its machine had other disks and memory.
GRAPHS = {
    "time": ("checkpoint time", "s", None),
    "relative_time": ("checkpoint time, against sequential", "", (1.0, 1.5, "within 50 % of sequential")),
    "overhead": ("overhead of a checkpoint: what it adds to the run time", "s", None),
    "concurrency": ("concurrency: 1 - overhead / checkpoint time", "", (0.80, 0.97, "80 to 97 %")),
    "stop": ("longest stop", "s", (0.0, 0.1, "less than 0.1 s")),
    "fault": ("longest fault", "s", None),
    "faults": ("faults that met protected memory", "", None),
}


def measure_li(environment, program, sizes, runs, run_s, tell):
    """By policy and size in MiB a rank: the value of each graph, a median over the runs."""
    found = {}
    for size in sizes:
        rounds = _count_rounds(environment, program, size, run_s)
        samples = {policy: [] for policy in POLICIES}
        for _ in range(runs):
            for policy in POLICIES:
                samples[policy].append(_sample(environment, program, size, rounds, policy, run_s / LINES))
                tell(f"{program}, {size} MiB, {policy}: {samples[policy][-1]}")
        for policy in POLICIES:
            found[policy, size] = {graph: statistics.median(sample[graph] for sample in samples[policy])
                                   for graph in samples[policy][0]}
        base = found["sequential", size]["time"]
        for policy in POLICIES:
            found[policy, size]["relative_time"] = found[policy, size]["time"] / base
    return found


def _command(environment, program, size, rounds):
    return environment.mpirun([environment.installed(program), str(size), str(rounds)], RANKS)


def _count_rounds(environment, program, size, run_s):
    """As many as a native run of that length makes, the start of the program left out."""
    start = seconds(environment, _command(environment, program, size, 0))
    rounds, took = 1, 0
    while took < run_s / 4:
        rounds *= 2
        took = seconds(environment, _command(environment, program, size, rounds)) - start
    return max(4, int(rounds * run_s / took))


def _sample(environment, program, size, rounds, policy, interval_s):
    """A run without lines and one with some, both under the policy."""
    command = _command(environment, program, size, rounds)
    without_s, without_out, _ = _run(environment, command, policy, [])
    with_s, with_out, lines = _run(environment, command, policy, ["--interval", f"{int(interval_s * 1e3)}ms"])
    if with_out != without_out:
        raise BenchError(f"{' '.join(command)}: the result differs with lines: {with_out} instead of {without_out}")
    if not lines:
        raise BenchError(f"{' '.join(command)}: no line was committed")
    overhead_s, time_s = (with_s - without_s) / len(lines), statistics.median(line["total_ms"] for line in lines) / 1e3
    return {"time": time_s, "overhead": overhead_s, "concurrency": 1 - overhead_s / time_s,
            "stop": max(line["felt_pause_ms"] for line in lines) / 1e3,
            "fault": max(line["longest_fault_ms"] for line in lines) / 1e3,
            "faults": statistics.median(line["guard_faults"] for line in lines)}


def _run(environment, command, policy, options):
    """How long it took, what it printed, and its lines."""
    begin = time.monotonic()
    output = environment.output_of([environment.belay, "run", "--name", JOB, "--policy", policy, *options, "--", *command])
    took = time.monotonic() - begin
    lines = json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))["lines"]
    environment.output_of([environment.belay, "clean", JOB])
    return took, output, [line for line in lines if line["state"] == "committed"]


def write_graphs(found, program, folder, note):
    """An SVG for each graph; their paths."""
    sizes = sorted({size for _, size in found})
    paths = []
    for graph, (title, unit, paper) in GRAPHS.items():
        curves = {policy: [(size, found[policy, size][graph]) for size in sizes] for policy in POLICIES}
        paths.append(os.path.join(folder, f"li-{program}-{graph}.svg"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(draw(f"{PROGRAMS[program]}: {title}", "MiB a rank", unit, curves,
                            paper and (*paper[:2], f"{LI}: {paper[2]}"), note))
    return paths


def table(found):
    """Rows of Markdown, one for each policy and size."""
    rows = [f"| policy | MiB a rank | {' | '.join(GRAPHS)} |", "|---|---|" + "---|" * len(GRAPHS)]
    rows += [f"| `{policy}` | {size} | {' | '.join(f'{values[graph]:.3g}' for graph in GRAPHS)} |"
             for (policy, size), values in sorted(found.items(), key=lambda item: (item[0][1], POLICIES.index(item[0][0])))]
    papers = [paper[2] if paper else "" for _, _, paper in GRAPHS.values()]
    return "\n".join([*rows, f"| {LI} | | {' | '.join(papers)} |"])
