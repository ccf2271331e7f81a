"""What a line costs by how much a program has beside memory: `programs/things`, `programs/issends`."""

import statistics
import time

from environment import BenchError
from lines import MemoryJob
from report import Result

THINGS = {"files": 3000, "mappings": 45000, "issends": 20000, "communicators": 1000}
MORE_MS = 20  # than without
LINES = 5  # of a job; the median of their pauses counts
ISSENDS, ROUNDS, INTERVAL = 20000, 3, "300ms"
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


def _run_s(environment, *prefix):
    begin = time.monotonic()
    told = environment.output_of([*prefix, *environment.launch_line("issends", ISSENDS, ROUNDS)])
    return time.monotonic() - begin, told


def measure_issends(environment, pairs):
    """The run time with many sends pending and lines in short intervals, against native."""
    found = []
    for _ in range(pairs):
        native, expected = _run_s(environment)
        belay, told = _run_s(environment, environment.belay, "run", "--interval", INTERVAL, "--")
        if told != expected:
            raise BenchError(f"issends: {told!r} instead of {expected!r}")
        found.append((native, belay))
    return [Result("issends", "run", "s", found, ISSENDS_TARGET)]
