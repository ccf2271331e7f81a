"""Watches a job from outside and notes what happens when, for the story and the picture of scripts/demo.

All times of a recording are in seconds since `belay run` was started. Lines and epochs are told by `belay status
--json`; beginnings and ends of processes are read from /proc, at most PERIOD_S late; steps are those that the program
notes in its trace file. This file is followed, since a restart rolls it back to the line. timeline.py tells what a
recording holds.
"""
import json
import os
import subprocess
import threading
import time
from collections import namedtuple

PERIOD_S = 0.02
STATUS_PERIOD_S = 0.2
STATE, START_TICKS = 0, 19  # fields of /proc/PID/stat behind the name
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


Step = namedtuple("Step", "step seconds process")  # of a trace file; seconds of the monotonic clock


class Recorder:
    """Watches until stop(). What it has noted by then is in recording()."""

    def __init__(self, ask_status, trace):
        """ask_status: a function, the job's status as an object, or None; trace: the path of the program's trace file."""
        self._ask_status = ask_status
        self._trace = Trace(trace)
        self._begun_s = time.time()
        self._boot_s = self._begun_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._monotonic_s = self._begun_s - time.monotonic()
        self._processes, self._lines, self._epochs = {}, {}, {}
        self._messages = []
        self._lost = None
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=arguments, daemon=True)
                         for arguments in ((self._look, PERIOD_S), (self._ask, STATUS_PERIOD_S))]
        for thread in self._threads:
            thread.start()

    def since_begun(self, at_s):
        """at_s: as of time.time()."""
        return round(at_s - self._begun_s, 4)

    def now(self):
        return self.since_begun(time.time())

    def note_message(self, text):
        self._messages.append([self.now(), text])

    def note_loss(self, node, ranks):
        """Its processes are killed now."""
        self._lost = {"node": node, "at_s": self.now(), "ranks": ranks}

    def stop(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._ask()
        self._look()
        for process in self._processes.values():
            process["ended_s"] = process["ended_s"] or self.now()

    def last_step(self):
        """0: none yet."""
        return self._trace.steps[-1].step if self._trace.steps else 0

    def recording(self, undisturbed):
        """undisturbed: the Steps of the run without Belay."""
        first_s = undisturbed[0].seconds
        return {"lost": self._lost, "ended_s": max(process["ended_s"] for process in self._processes.values()),
                "processes": sorted(self._processes.values(), key=lambda row: (row["node"], row["begun_s"], row["rank"])),
                "lines": [self._lines[line] for line in sorted(self._lines)],
                "epochs": [self._epochs[epoch] for epoch in sorted(self._epochs)],
                "steps": [[self.since_begun(row.seconds + self._monotonic_s), row.step] for row in self._trace.steps],
                "undisturbed": [[round(row.seconds - first_s, 4), row.step] for row in undisturbed],
                "messages": self._messages}

    # ---- the threads ----

    def _repeat(self, function, period_s):
        while not self._is_over.wait(period_s):
            function()

    def _look(self):
        self._trace.follow()
        for pid, process in list(self._processes.items()):
            if process["ended_s"] is None and not started_s(pid, self._boot_s):
                process["ended_s"] = self.now()

    def _ask(self):
        status = self._ask_status()
        if status:
            self.take_status(status)

    def take_status(self, status):
        """Note what this status tells."""
        for node in status["nodes"]:
            self._note_process(node["agent_pid"], None, node["number"])
            for row in node["ranks"]:
                self._note_process(row["pid"], row["rank"], node["number"])
        # The coordinator has them: with its node those of its epoch are lost.
        for line in status["lines"]:
            self._lines[line["line"]] = {**line, "begun_s": self.since_begun(line["begun_at_ms"] / 1e3)}
        for epoch in status["history"]:
            self._epochs[epoch["epoch"]] = {**epoch, "begun_s": self.since_begun(epoch["begun_at_ms"] / 1e3)}

    def _note_process(self, pid, rank, node):
        """rank: None for an agent."""
        begun_s = started_s(pid, self._boot_s) if pid else None
        if begun_s and pid not in self._processes:
            self._processes[pid] = {"rank": rank, "node": node, "begun_s": self.since_begun(begun_s), "ended_s": None}


class Trace:
    """A trace file, in which each row is written at once, as it is followed."""

    def __init__(self, path):
        self._path, self._offset = path, 0
        self.steps = []

    def follow(self):
        """Take the rows that are new."""
        try:
            with open(self._path, "rb") as file:
                self._offset = file.seek(min(self._offset, os.fstat(file.fileno()).st_size))  # it may be shorter than it was
                rows = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._offset += len(rows[0]) + len(rows[1])
        for row in rows[0].splitlines():
            process, step, seconds = row.split()
            self.steps.append(Step(int(step), float(seconds), int(process)))


def read_steps(path):
    trace = Trace(path)
    trace.follow()
    return trace.steps


def started_s(pid, boot_s):
    """When a process began, as of time.time(); None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[STATE] in "ZX" else boot_s + int(fields[START_TICKS]) / TICKS_PER_S


def ask_status(command, environment):
    """What `belay status JOB --json` prints, or None while nothing is known of the job."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None
