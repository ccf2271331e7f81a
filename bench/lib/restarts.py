"""What a restarted program's memory costs: `programs/touch`, killed after a line, touches its memory.

The baseline is measured in the same process before: the image is read to fresh memory first. A restart of
Belay maps it, so its time is that of the restore (`restore_ms`) and of the touching itself.
"""

import json
import os
import signal
import subprocess
import threading

from environment import BenchError
from report import Result

JOB = "bench"
MIB = 1024
TARGETS = {5: 0.4, 100: 1.3}  # percent of the memory: time against reading it first
DEADLINE_S = 60


def measure_touch(environment, rounds):
    return [Result(f"touch-{percent}%", "restart", "ms",
                   [_round(environment, percent) for _ in range(rounds)], target)
            for percent, target in TARGETS.items()]


def _round(environment, percent):
    """(baseline, Belay) in ms of one restart."""
    go = environment.scratch("go")
    command = [environment.belay, "run", "--name", JOB, "--",
               *environment.launch_line("touch", MIB, percent, go, ranks=1)]
    with subprocess.Popen(command, env=environment.variables, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        guard = threading.Timer(DEADLINE_S, process.kill)
        guard.start()
        try:
            baseline_ns = float(process.stdout.readline())
            if process.stdout.readline().strip() != "ready":
                raise BenchError(f"programs/touch: {process.stderr.read()}")
            environment.output_of([environment.belay, "checkpoint", JOB])
            rank = _status(environment)["nodes"][0]["ranks"][0]["pid"]
            os.kill(rank, signal.SIGKILL)
            with open(go, "w", encoding="utf-8"):
                pass
            touched = process.stdout.readline()
            if not touched.strip() or process.wait() != 0:
                raise BenchError(f"programs/touch: {process.stderr.read()}")
        finally:
            guard.cancel()
            process.kill()
    restored = _status(environment)["history"][-1]
    environment.output_of([environment.belay, "clean", JOB])
    os.unlink(go)
    if not restored["restored_line"]:
        raise BenchError("programs/touch was not restored from a line")
    return baseline_ns / 1e6, restored["restore_ms"] + float(touched) / 1e6


def _status(environment):
    return json.loads(environment.output_of([environment.belay, "status", JOB, "--json"]))
