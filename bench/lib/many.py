"""What a line costs by how much a program has beside memory: `programs/things`, `programs/issends`."""

import json
import statistics
import time

from environment import BenchError
from lines import JOB, MemoryJob
from report import Result

THINGS = {"files": 3000, "mappings": 45000, "issends": 20000, "communicators": 1000}
MORE_MS = 20  # than without
LINES = 5  # of a job; the median of their pauses counts
ISSENDS = {"first": 20000, "last": 3000}  # which of them is received first: natively, "last" is quadratic
ROUNDS, INTERVAL = 8, "300ms"
ISSENDS_TARGET = 1.3


def _pause_ms(environment, kind, count):
    with MemoryJob(environment, 0, program="things", memory=(kind, count)) as job:
        job.wait_output()
        job.checkpoint()
        return statistics.median(job.checkpoint()["pause_ms"] for _ in range(LINES))


def measure_many(environment, pairs):
    """The pause with many of a kind, and how much more that is than with none."""
    results = []
    for kind, count in THINGS.items():
        found = [(_pause_ms(environment, "none", 0), _pause_ms(environment, kind, count)) for _ in range(pairs)]
        more = [(base, with_many - base) for base, with_many in found]
        results += [Result(f"many-{kind}", "pause", "ms", found),
                    Result(f"many-{kind}", "more", "ms", more, MORE_MS, is_absolute=True)]
    return results


def _run_s(environment, work, *prefix):
    begin = time.monotonic()
    told = environment.output_of([*prefix, *environment.launch_line("issends", *work)])
    return time.monotonic() - begin, told


def _lines_of(environment):
    """How many lines the job that has just ended has committed."""
    status = json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))
    environment.output_of([environment.belay, "clean", JOB])
    return status["lines"][-1]["line"] if status["lines"] else 0


def measure_issends(environment, pairs):
    """The run time with many sends pending and lines in short intervals, against native."""
    results = []
    for order, count in ISSENDS.items():
        found = []
        for _ in range(pairs):
            work = (count, ROUNDS, order)
            native, expected = _run_s(environment, work)
            belay, told = _run_s(environment, work, environment.belay, "run", "--name", JOB, "--interval",
                                 INTERVAL, "--")
            lines = _lines_of(environment)
            if told != expected or lines < ROUNDS // 2:
                raise BenchError(f"issends: {told!r} instead of {expected!r}, {lines} lines")
            found.append((native, belay))
        results.append(Result(f"issends-{order}", "run", "s", found, ISSENDS_TARGET))
    return results
