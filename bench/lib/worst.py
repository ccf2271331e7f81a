"""The worst of many lines, and what a restart takes: `programs/memory` under `belay run`."""

import os
import signal
import statistics
import subprocess
import time

from environment import BenchError
from lines import DEADLINE_S, JOB, MemoryJob
from report import Result

MIB = 512  # of each of two ranks
ALL = 1000  # permille of the pages that are written all the time
LITTLE = 10
LINES = 30
LINES_AFTER = 5  # the first ones after a restart
LINES_BUSY = 100
BUSY_LIMIT_MS = 250
FIRST_STEP_MS = {LITTLE: 300, ALL: 600}  # permille: more than the native start takes
CREW_MIB = 1024
HUGE = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
HUGE_MIB = 1024  # of each of two ranks


def measure_longest(environment, pairs):
    """The longest of some lines, and of the first after a restart, against the median of the former."""
    longest, after = [], []
    for _ in range(pairs):
        with MemoryJob(environment, 1, memory=(MIB, ALL)) as job:
            job.copy_ms()
            job.checkpoint()
            job.checkpoint()  # the first one has made the images, this one the memory of deltas
            totals = [job.checkpoint()["total_ms"] for _ in range(LINES)]
            job.kill_rank()
            first = [job.checkpoint()["total_ms"] for _ in range(LINES_AFTER)]
        longest.append((statistics.median(totals), max(totals)))
        after.append((statistics.median(totals), max(first)))
    return [Result("longest-line", "total", "ms", longest, 2),
            Result("after-restart", "total", "ms", after, 2)]


def _native_start_ms(environment):
    """From the start of the launch until the program has made its first step, with next to no memory."""
    begin = time.monotonic()
    with subprocess.Popen(environment.launch_line("memory", 1, LITTLE), env=environment.variables,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        took_ms = (time.monotonic() - begin) * 1e3
        process.terminate()
        process.communicate(timeout=DEADLINE_S)
    return took_ms


def measure_first_step(environment, pairs):
    """From the kill of a rank until the first step that is new, against the native start of such a launch."""
    results = []
    for permille, more_ms in FIRST_STEP_MS.items():
        found, beyond = [], []
        with MemoryJob(environment, pairs, memory=(MIB, permille)) as job:
            job.copy_ms()
            job.checkpoint()
            for _ in range(pairs):
                native_ms = _native_start_ms(environment)
                job.checkpoint()
                found.append((native_ms, job.first_step_ms()))
                beyond.append((native_ms, found[-1][1] - native_ms))
        name = f"first-step-{permille / 10:g}%"
        results += [Result(name, "whole", "ms", found),
                    Result(name, "more", "ms", beyond, more_ms, is_absolute=True)]
    return results


def _start_busy(environment):
    """As many processes as there are processors, which never rest."""
    return [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], env=environment.variables)
            for _ in range(os.cpu_count())]


def measure_busy(environment, pairs):
    """The worst pauses and convergences while other processes keep every processor busy, against the medians."""
    del pairs
    busy = _start_busy(environment)
    environment.variables["OMPI_MCA_mpi_yield_when_idle"] = "1"
    try:
        with MemoryJob(environment, 0, memory=(64, 100)) as job:
            job.copy_ms()
            job.checkpoint()
            lines = [job.checkpoint() for _ in range(LINES_BUSY)]
    finally:
        del environment.variables["OMPI_MCA_mpi_yield_when_idle"]
        for process in busy:
            process.kill()
            process.wait()
    results = []
    for what in ("pause", "drain"):
        values = sorted(line[f"{what}_ms"] for line in lines)
        pair = (statistics.median(values), values[int(len(values) * 0.99) - 1])
        results += [Result("busy-p99", what, "ms", [pair], 3),
                    Result("busy-p99", f"{what} ms", "ms", [pair], BUSY_LIMIT_MS, is_absolute=True)]
    return results


def _pauses_ms(environment, binding, lines):
    with MemoryJob(environment, 0, "--policy", "main_memory", memory=(CREW_MIB, ALL), ranks=1,
                   binding=binding) as job:
        job.copy_ms()
        job.checkpoint()
        job.checkpoint()
        return [job.checkpoint()["pause_ms"] for _ in range(lines)]


def measure_crew(environment, pairs):
    """A rank that may use two processors, which the agent may use while it stands still, against one."""
    one, two = (_pauses_ms(environment, binding, pairs) for binding in ("core", "none"))
    return [Result("copying-threads", "pause", "ms", list(zip(one, two, strict=True)), 0.6)]


def _full_line_ms(environment):
    with MemoryJob(environment, 0, memory=(HUGE_MIB, LITTLE)) as job:
        job.copy_ms()
        return job.checkpoint()["total_ms"]


def measure_full_huge(environment, pairs):
    """The first line, which copies everything to new memory, with and without huge pages for shared memory."""
    try:
        with open(HUGE, encoding="ascii") as setting:
            before = setting.read().split("[")[1].split("]")[0]
        found = []
        for _ in range(pairs):
            times = []
            for value in ("never", "advise"):
                with open(HUGE, "w", encoding="ascii") as setting:
                    setting.write(value)
                times.append(_full_line_ms(environment))
            found.append(tuple(times))
        with open(HUGE, "w", encoding="ascii") as setting:
            setting.write(before)
    except (OSError, IndexError) as error:
        raise BenchError(f"full-huge: {HUGE} cannot be set: {error}") from None
    return [Result("full-huge", "total", "ms", found, 0.6)]
