"""The cost of a line and of a restart: `programs/memory` under `belay run`.

Against copying the same bytes: copies and lines are measured in turn in the same processes. The copy is of
all ranks at once, within memory that is warm; a line copies the same bytes, and whatever else the processes
hold, to memory of the agent. Against lines that copy everything: a job with the tracker `full` and one
with the default tracker, one after the other. Against the restart of a small program: a large one.
"""

import json
import os
import signal
import subprocess
import threading
import time

from environment import BenchError
from report import Result
from waiting import Late, wait_for

JOB = "bench"
MIB_PER_RANK = 64
DIRTY_MIB = 1024  # of each of two ranks, for lines of a program that writes a part of it all the time
DIRTY_TARGETS = {1: 1 / 100, 10: 1 / 30, 100: 1 / 6, 1000: None}  # permille: of a line against a full one
PAUSE_TARGETS = {10: 5, 1000: 200}  # permille: ms
RESTART_MIB = (64, 4096)  # of one rank
COPIED_MIB = 512  # of each of two ranks
DEADLINE_S = 60
SAME_LAUNCH_S = 0.1  # shorter than any start of mpirun


class MemoryJob:
    """`belay run` of the program, whose newest round of copying is known. Use it in a `with`."""

    wait_s = DEADLINE_S  # for anything of it

    def __init__(self, environment, max_restarts, *options, program="memory", memory=(MIB_PER_RANK,), ranks=2,
                 is_protected=True, binding="core"):
        self._environment = environment
        self._is_protected = is_protected
        command = environment.launch_line(program, *memory, ranks=ranks, binding=binding)
        if is_protected:
            command = [environment.belay, "run", "--name", JOB, "--max-restarts", str(max_restarts), *options,
                       "--", *command]
        self._process = subprocess.Popen(command, env=environment.variables, cwd=environment.folder, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._rounds, self._times = [], []
        self._said = []
        self._readers = [threading.Thread(target=self._read, args=arguments)
                         for arguments in ((self._process.stdout, self._rounds, self._times),
                                           (self._process.stderr, self._said, []))]
        for reader in self._readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self._is_protected:
            subprocess.run([self._environment.belay, "stop", JOB], env=self._environment.variables,
                           capture_output=True, check=False, timeout=DEADLINE_S)
        else:
            self._process.terminate()
        self._process.wait(timeout=DEADLINE_S)
        for reader in self._readers:
            reader.join()

    @staticmethod
    def _read(stream, lines, times):
        with stream:
            for line in stream:
                times.append(time.monotonic())
                lines.append(line.strip())

    def value(self):
        """What the program prints of a round that begins now."""
        begun = len(self._rounds) + 2  # the first one that ends may have begun before
        self._wait(lambda: len(self._rounds) >= begun, "a round")
        return float(self._rounds[begun - 1])

    def wait_output(self):
        """Until the program has printed a line."""
        self._wait(lambda: self._rounds, "a line of output")

    def first_output_s(self):
        """When that was, of the monotonic clock."""
        return self._times[0]

    def copy_ms(self):
        return self.value() / 1e6

    def checkpoint(self):
        """Take a line now; its object as of `belay status --json`, and how long the command took."""
        begin = time.monotonic()
        self._environment.output_of([self._environment.belay, "checkpoint", JOB])
        took_ms = (time.monotonic() - begin) * 1e3
        return {**self.status()["lines"][-1], "command_ms": took_ms}

    def status(self):
        return json.loads(self._environment.output_of([self._environment.belay, "status", JOB, "--json"]))

    def kill_rank(self):
        """Kill one, and return the entry of the history that its restart makes."""
        status = self.status()
        before = len(status["history"])
        os.kill(status["nodes"][0]["ranks"][-1]["pid"], signal.SIGKILL)
        return self._wait(lambda: self._restored(before), "the restart")

    def first_step_ms(self):
        """Kill a rank; how long it takes until the program has made a step again."""
        rank = self.status()["nodes"][0]["ranks"][-1]["pid"]
        os.kill(rank, signal.SIGKILL)
        begin, before = time.monotonic(), len(self._rounds)
        # What was on its way when the rank died comes at once; the next line is the restarted program's.
        self._wait(lambda: len(self._rounds) > before and self._times[-1] > begin + SAME_LAUNCH_S, "a step")
        return (next(at for at in self._times[before:] if at > begin + SAME_LAUNCH_S) - begin) * 1e3

    def _restored(self, before):
        history = self.status()["history"]
        return history[-1] if len(history) > before and history[-1].get("restore_ms") else None

    def _wait(self, condition, what):
        try:
            return wait_for(lambda: self._process.poll() is not None or condition(), self.wait_s, what)
        except Late as late:
            raise BenchError(self._told(str(late))) from None
        finally:
            if self._process.poll() is not None:
                raise BenchError(self._told("the job has ended"))

    def _told(self, what):
        return "\n".join([f"{self._process.args[-2]}: {what}", *self._said[-10:]])


def measure_line(environment, rounds):
    """Pause and whole duration of a line."""
    pauses, totals = [], []
    with MemoryJob(environment, max_restarts=0) as job:
        job.copy_ms()
        job.checkpoint()  # the first one makes the images
        for _ in range(rounds):
            copy_ms, line = job.copy_ms(), job.checkpoint()
            pauses.append((copy_ms, line["pause_ms"]))
            totals.append((copy_ms, line["total_ms"]))
    return [Result("line", "pause", "ms", pauses), Result("line", "total", "ms", totals)]


def measure_copy_rate(environment, rounds):
    """The agent's copies of all pages, in the pause, against those of the ranks themselves."""
    pauses = []
    with MemoryJob(environment, 0, "--policy", "main_memory", memory=(COPIED_MIB,)) as job:
        job.copy_ms()
        job.checkpoint()
        job.checkpoint()  # the first one has made the images, this one the memory of deltas
        for _ in range(rounds):
            copy_ms, line = job.copy_ms(), job.checkpoint()
            pauses.append((copy_ms, line["pause_ms"]))
    return [Result("copy-rate", "pause", "ms", pauses, 1 / 0.4)]


def measure_restart(environment, rounds):
    """From the end of the new MPI_Init to the first instruction of the application."""
    restores = []
    with MemoryJob(environment, max_restarts=rounds) as job:
        for _ in range(rounds):
            copy_ms = job.copy_ms()
            job.checkpoint()
            restores.append((copy_ms, job.kill_rank()["restore_ms"]))
    return [Result("restart", "restore", "ms", restores)]


def lines_of(environment, rounds, permille, *options):
    """Lines after the first one, of a program that writes so much between them."""
    with MemoryJob(environment, 0, *options, memory=(DIRTY_MIB, permille)) as job:
        job.copy_ms()
        job.checkpoint()
        return [job.checkpoint() for _ in range(rounds)]


def measure_dirty(environment, rounds):
    """Pause and whole duration of lines of a program that never stops writing, against full lines."""
    full = lines_of(environment, rounds, 1, "--tracker", "full")
    results = []
    for permille, target in DIRTY_TARGETS.items():
        lines = lines_of(environment, rounds, permille)
        targets = {"pause": PAUSE_TARGETS.get(permille), "total": target, "command": None}
        for statistic, wanted in targets.items():
            pairs = [(base[f"{statistic}_ms"], line[f"{statistic}_ms"])
                     for base, line in zip(full, lines, strict=True)]
            results.append(Result(f"dirty-{permille / 10:g}%", statistic, "ms", pairs, wanted,
                                  is_absolute=statistic == "pause"))
    return results


def restores_of(environment, rounds, mib):
    """restore_ms of restarts of one rank with so much memory."""
    restores = []
    with MemoryJob(environment, rounds, memory=(mib, 1), ranks=1) as job:
        for _ in range(rounds):
            job.copy_ms()
            job.checkpoint()
            restores.append(job.kill_rank()["restore_ms"])
    return restores


def measure_restart_size(environment, rounds):
    """The restart of a large program against that of a small one."""
    small, large = (restores_of(environment, rounds, mib) for mib in RESTART_MIB)
    return [Result("restart-4GiB", "restore", "ms", list(zip(small, large, strict=True)))]
