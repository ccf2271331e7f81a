"""What lines of programs send to another node in lines of 64 bytes, against whole pages, and how long that takes."""

import json
import os
import statistics
import subprocess

from environment import BenchError
from report import Result
from runs import PROGRAMS, count_steps

JOB = "bench"
NODES = 2  # and ranks
LENGTH_S, SLOW_LENGTH_S = 20, 60  # of a program, natively; the latter over a slow link, where a first line takes 10 s
INTERVAL = "2s"
LIMIT_S = 600
NPB_VARIABLE = "BENCH_NPB"  # a folder with programs of NPB, bt.B.x or bt.B.2, as tests/campaigns/compatibility builds them
NPB = ("bt", "sp", "lu", "mg", "cg", "ft", "is")
COMPRESSORS = ("lz4", "zstd")
SLOW_LINK = "fabric.chunk=delay:10"  # of each 256 KiB that an agent sends: 25 MB/s
BYTES_TARGET, TIME_TARGET = 1.02, 1.0  # of each program


def measure_lines_bytes(environment, pairs):
    """Bytes, by the agents' own count: of each job with --granularity line, what it sent and what pages would have been."""
    found = []
    for name, native in _commands(environment):
        sent = []
        for _ in range(pairs):
            lines = _run(environment, native, "line")
            sent.append(tuple(sum(line[key] for line in lines) / 2**20 / len(lines) for key in ("sent_page_bytes", "sent_bytes")))
        found.append(Result("lines-bytes", name, "MiB", sent, BYTES_TARGET))
    return found


def measure_lines_time(environment, pairs):
    """The time until a line is held twice, by the model's choice against whole pages: medians of the lines of a job."""
    found = []
    for name, native in _commands(environment):
        times = []
        for i in range(pairs):
            order = ("page", "auto") if i % 2 == 0 else ("auto", "page")
            medians = {which: statistics.median(line["protect_ms"] for line in _run(environment, native, which)) for which in order}
            times.append((medians["page"], medians["auto"]))
        found.append(Result("lines-time", name, "ms", times, TIME_TARGET))
    return found


def measure_compress(environment, pairs):
    """Over a link that is slower than the compressors: medians of the lines of a job, against the same job without --compress."""
    results = []
    for name, native in _commands(environment, SLOW_LENGTH_S):
        found = {word: {"protect_ms": [], "sent_bytes": []} for word in COMPRESSORS}
        for _ in range(pairs):
            medians = {word: _medians(environment, native, word) for word in ("none", *COMPRESSORS)}
            for word, values in found.items():
                for what, list_of in values.items():
                    list_of.append((medians["none"][what], medians[word][what]))
        for word, values in found.items():
            results.append(Result("compress", f"{name} {word}", "ms", values["protect_ms"], TIME_TARGET))
            results.append(Result("compress", f"{name} {word} sent", "MiB",
                                  [(base / 2**20, other / 2**20) for base, other in values["sent_bytes"]], None))
    return results


def _medians(environment, native, word):
    environment.variables["BELAY_FAULT"] = SLOW_LINK
    try:
        lines = _run(environment, native, "line", "--compress", word)
    finally:
        environment.variables.pop("BELAY_FAULT")
    return {what: statistics.median(line[what] for line in lines) for what in ("protect_ms", "sent_bytes")}


def _commands(environment, length_s=LENGTH_S):
    """Name and native command of each program that is here."""
    for name, kind in PROGRAMS.items():
        try:
            subject = kind(environment)
        except BenchError:
            continue  # it is not installed
        steps = count_steps(environment, subject, length_s)
        yield name, environment.mpirun(subject.command(steps), NODES, "none")
    folder = os.environ.get(NPB_VARIABLE, "")
    for name in NPB if folder else ():
        for program in (os.path.join(folder, f"{name}.B.{suffix}") for suffix in ("x", "2")):
            if os.access(program, os.X_OK):
                yield f"{name}.B", environment.mpirun([program], NODES, "none")
                break


def _run(environment, native, granularity, *options):
    """The lines of a job that sent changes."""
    subprocess.run([environment.belay, "clean", JOB], env=environment.variables, capture_output=True, check=False)
    environment.output_of([environment.belay, "run", "--name", JOB, "--nodes", str(NODES), "--local", "--interval", INTERVAL,
                           "--granularity", granularity, *options, "--", *native], LIMIT_S)
    status = json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))
    environment.output_of([environment.belay, "clean", JOB])
    lines = [line for line in status["lines"] if line["state"] == "committed" and line["page_parts"] + line["line_parts"] > 0]
    if not lines:
        raise BenchError(f"no line of {native[-1]} sent changes with --granularity {granularity}")
    return lines
