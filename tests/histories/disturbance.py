"""Takes lines of a running launch of histories and kills its ranks, as the plans say."""

import os
import random
import subprocess
import tempfile
import time

import traces
from belaytest import newest_line
from plans import HELD, KILLS, LINES
from waiting import Late, Patience

LOOK_S = 0.02
LIMIT_S = 40
LIMIT_BESIDE_S = 5  # for each further history of a launch


class Disturbance:
    """One disturbed launch, as it goes on. The first plan says how often it is killed and which of its ranks."""

    def __init__(self, plans):
        self.job = None
        self.plans = plans
        self.way = plans[0].way
        self.dice = random.Random(f"{plans[0].seed} {self.way} disturbance")
        self.interval = None if self.way == HELD else f"{self.dice.randrange(20, 120)}ms"
        self.kills = 0
        self.patience = None

    def run(self, job):
        """Disturb this launch until its end: what went wrong, "" if nothing."""
        self.job = job
        rundir = job.sandbox.rundir
        self.patience = Patience(LIMIT_S + LIMIT_BESIDE_S * (len(self.plans) - 1),
                                 lambda: traces.waited_for_processors(traces.processes_of(rundir)))
        try:
            {LINES: self.take_lines, KILLS: self.kill_at_random, HELD: self.kill_held}[self.way]()
        except (Late, AssertionError) as problem:
            return str(problem).splitlines()[0]
        return ""

    # ---- waiting ----

    def wait(self, condition, what):
        while True:
            has_ended = self.job.process.poll() is not None
            value = condition()
            if value:
                return value
            assert not has_ended, f"the job ended ({self.job.process.returncode}) before {what}"
            if self.patience.is_over():
                raise Late(f"stuck: waited too long for {what}")
            time.sleep(LOOK_S)

    def wait_held(self, place):
        """Until all ranks have come to this one of their histories' holds."""
        paths = [self.job.path(f"{plan.seed}/at-{plan.holds()[place]}.{rank}")
                 for plan in self.plans for rank in range(plan.ranks)]

        def are_there():
            while paths and os.path.exists(paths[-1]):
                paths.pop()
            return not paths
        self.wait(are_there, f"hold {place} of all ranks")

    def go(self, place):
        for plan in self.plans:
            with open(self.job.path(f"{plan.seed}/go-{plan.holds()[place]}"), "wb"):
                pass

    def wait_running(self, condition, what):
        """The status once all ranks run and condition(status) is true."""
        def look():
            status = self.job.status()
            is_running = status and status["state"] == "running" and status["epoch"] in self.job.pids
            return status if is_running and condition(status) else None
        return self.wait(look, what)

    def wait_line(self, at_least):
        return self.wait_running(lambda status: newest_line(status) >= at_least, f"line {at_least}")

    def wait_epoch(self, epoch):
        return self.wait_running(lambda status: status["epoch"] >= epoch, f"the restart ({epoch})")

    # ---- disturbing ----

    def kill(self, rank):
        """The status after the restart."""
        status = self.wait_epoch(1)
        os.kill(self.job.pids[status["epoch"]][rank], 9)
        self.kills += 1
        return self.wait_epoch(status["epoch"] + 1)

    def take_line(self):
        sandbox = self.job.sandbox
        with tempfile.TemporaryFile() as errors, subprocess.Popen(
                [sandbox.command, "checkpoint", self.job.name], cwd=sandbox.folder, env=sandbox.environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors) as process:
            try:
                self.wait(lambda: process.poll() is not None, "a line")
            finally:
                process.kill()
            errors.seek(0)
            assert process.returncode == 0, f"no line: {errors.read().decode().strip()}"

    def finish(self):
        self.wait(lambda: self.job.process.poll() is not None, "its end")

    def take_lines(self):
        self.wait_held(0)
        self.wait_line(newest_line(self.wait_line(1)) + 1)
        self.go(0)
        self.finish()

    def kill_at_random(self):
        newest = 0
        for _ in range(self.plans[0].kills):
            newest = newest_line(self.wait_line(newest + self.dice.choice([1, 1, 2, 3])))
            time.sleep(self.dice.random() * 0.1)
            newest = newest_line(self.kill(self.dice.randrange(self.job.program.ranks)))
        self.go(0)
        self.finish()

    def kill_held(self):
        self.wait_held(0)
        self.wait_epoch(1)
        self.take_line()
        self.go(0)
        self.wait_held(1)
        self.kill(self.plans[0].victim)
        self.go(1)
        self.finish()

    # ---- the end ----

    def what_is_missing(self, status):
        """Proof that it was disturbed: lines, and restarts that came from lines."""
        if status["newest_line"] < 1:
            return "no line was committed"
        if status["restarts"] != self.kills:
            return f"{status['restarts']} restarts after {self.kills} kills"
        if any(entry["restored_line"] < 1 for entry in status["history"][1:]):
            return "a restart that did not come from a line"
        return ""
