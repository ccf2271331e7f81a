"""Parts of a line that a program does not choose: the roots of its images, and its files that travel."""

import statistics

from environment import BenchError
from lines import MemoryJob
from report import Result

ROOT_MIB = 1024
ROOT_MS = 2  # of a GiB
FILE_MIB, RANKS = 48, 2  # of each rank
LINES = 5  # of a job; the median of their pauses counts


def measure_roots(environment, pairs):
    """The root of an image, against copying as many bytes: `programs/root`."""
    found = []
    for _ in range(pairs):
        told = [line.split() for line in environment.output_of([environment.program("root"), str(ROOT_MIB)]).splitlines()]
        times = {what: min(float(ns) / 1e6 for word, ns in told if word == what) for what in ("copy", "root")}
        found.append((times["copy"], times["root"]))
    return [Result("roots", "min", "ms", found, ROOT_MS, is_absolute=True)]


def _line(environment, *options):
    """The median of the pauses, and how large the images are then."""
    with MemoryJob(environment, 0, "--nodes", "2", "--local", *options, program="things", memory=("rewritten", FILE_MIB),
                   binding="none") as job:
        job.wait_output()
        job.checkpoint()
        lines = [job.checkpoint() for _ in range(LINES)]
    return statistics.median(line["pause_ms"] for line in lines), lines[-1]["image_bytes"]


def measure_travel(environment, pairs):
    """The pause with a file without a name that changes all the time, against a limit that leaves it at home."""
    found = []
    for _ in range(pairs):
        without, small = _line(environment, "--file-limit", "4K")
        pause, large = _line(environment)
        if large - small < RANKS * FILE_MIB << 20:
            raise BenchError(f"the files have not come along: images of {small} and {large} B")
        found.append((without, pause))
    more = [(base, pause - base) for base, pause in found]
    return [Result("travel", "pause", "ms", found), Result("travel", "more", "ms", more)]
