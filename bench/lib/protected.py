"""The run time of apps/heat with lines that are held on two nodes, against native runs, and against runs whose lines are
written to the disk of the machine.
"""

import itertools
import json
import os
import signal
import subprocess
import threading
import time

import traces
from environment import BenchError
from report import Result
from runs import Heat, count_steps, seconds

JOB = "bench"
RANKS = 2  # and nodes
GRID = 5792  # 256 MiB of each rank
LENGTH_S = 42
INTERVAL_S = 10
LIMIT_S = 300
CHUNK_BYTES = 8 << 20
TARGET = 1.03
DISK_TARGET = 0.5  # of what the lines on disk cost
LEAST_S = 0.001  # of what lines cost, as the baseline of a ratio
IN_MEMORY = ("tmpfs", "ramfs", "overlayfs")


def measure_heat_nodes(environment, pairs):
    require_disk(environment.folder)
    subject = Heat(environment, GRID)
    native = environment.mpirun(subject.command(count_steps(environment, subject, LENGTH_S)), RANKS)
    ours = [environment.belay, "run", "--name", JOB, "--nodes", str(RANKS), "--local", "--interval", f"{INTERVAL_S}s", "--", *native]
    run, extra = [], []
    for i in range(pairs):
        if i % 2 == 0:
            native_s = seconds(environment, native)
        ours_s, lines = seconds(environment, ours), _take_lines(environment)
        if i % 2 == 1:
            native_s = seconds(environment, native)
        disk_s = _seconds_with_disk(environment, native, [line["dirty_bytes"] for line in lines])
        run.append((native_s, ours_s))
        extra.append((max(disk_s - native_s, LEAST_S), max(ours_s - native_s, LEAST_S)))
    return [Result("heat-nodes-10s", "run", "s", run, TARGET), Result("heat-nodes-10s", "extra", "s", extra, DISK_TARGET)]


def require_disk(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
    if kind in IN_MEMORY:
        raise BenchError(f"{folder} is not on a disk ({kind}): set TMPDIR to a folder that is")


def _take_lines(environment):
    status = json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))
    environment.output_of([environment.belay, "clean", JOB])
    lines = [line for line in status["lines"] if line["state"] == "committed"]
    if not lines or any(line["sent_page_bytes"] < line["dirty_bytes"] for line in lines):
        raise BenchError(f"no line was committed, or not all of it was sent: {lines}")
    return lines


def _seconds_with_disk(environment, command, sizes):
    """Every INTERVAL_S all ranks stand still until as much of their memory is on the disk as a line had."""
    begin = time.monotonic()
    with subprocess.Popen(command, env=environment.variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        for number, size in enumerate(sizes, 1):
            try:
                process.wait(begin + number * INTERVAL_S - time.monotonic())
                break
            except subprocess.TimeoutExpired:
                _write_line(environment.folder, list(traces.children_of(process.pid)), size)
        if process.wait(LIMIT_S):
            raise BenchError(f"{command[0]} ended with status {process.returncode}")
    return time.monotonic() - begin


def _write_line(folder, ranks, size):
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    try:
        writers = [threading.Thread(target=_write_rank, args=(folder, pid, size // len(ranks))) for pid in ranks]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
    for pid in ranks:
        path = _path(folder, pid)
        written = os.path.getsize(path)
        os.unlink(path)
        if written != size // len(ranks):
            raise BenchError(f"{path}: {written} B of the memory of a rank could be written, instead of {size // len(ranks)}")


def _path(folder, pid):
    return os.path.join(folder, f"line-{pid}")


def _write_rank(folder, pid, size):
    """So many bytes from the largest mappings of a rank; from the first ones again, if there are no more."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    file = os.open(_path(folder, pid), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for begin, end in itertools.cycle(_mappings(pid)):
            if size == 0:
                break
            while begin < end and size > 0:
                written = os.write(file, os.pread(memory, min(CHUNK_BYTES, end - begin, size), begin))
                begin, size = begin + written, size - written
        os.fsync(file)
    finally:
        os.close(file)
        os.close(memory)


def _mappings(pid):
    """(begin, end) of those that can be written to, the largest first."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            span, rights = line.split()[:2]
            if rights.startswith("rw-p"):
                begin, end = (int(word, 16) for word in span.split("-"))
                found.append((begin, end))
    return sorted(found, key=lambda span: span[0] - span[1])
