"""Runs the history of a seed undisturbed and disturbed, and tells in what the two differ."""

import glob
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace

import traces
from belaytest import lines_of_belay, newest_line
from programs import Program, run_native
from waiting import PATIENCE, Late

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = os.path.join(HERE, "left-out.tsv")
LOOK_S = 0.005
LIMIT_S = 40
SAID = re.compile(r"rank \d+, step ")  # lines of the program

# How a history is disturbed.
LINES = "lines"  # recovery lines all the time
KILLS = "kills"  # the same, and ranks are killed at random
HELD = "held"  # one line between two steps, and a kill between two later ones: the same again each time
WAYS = (LINES, KILLS, HELD)
NATIVELY = "natively"  # not disturbed at all: whether the history itself is the same each time


def read_left_out(*states):
    """The kinds and operations in left-out.tsv that are in one of these states (none: in any)."""
    with open(LEFT_OUT, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    return [row[0] for row in rows if not states or row[1] in states]


@dataclass(frozen=True)
class Plan:
    """A history and how it is disturbed."""

    seed: int
    steps: int = 150
    ranks: int = 2
    way: str = HELD
    only: tuple = ()
    without: tuple = ()
    skipped: tuple = ()  # of (rank, step)
    line_at: int = 0  # HELD: the line is taken before this step,
    kill_at: int = 0  # and the rank is killed before this one
    victim: int = 0
    kills: int = 1
    seconds: float = 0.4
    observe: int = 5
    program: str = "history"

    def arguments(self):
        """The options of the program, but for those that only a disturbed run needs."""
        words = ["--seed", self.seed, "--steps", self.steps, "--observe", self.observe]
        words += ["--only", ",".join(self.only)] if self.only else []
        words += ["--without", ",".join(self.without)] if self.without else []
        words += ["--skip-steps", ranges_of(self.skipped)] if self.skipped else []
        return [str(word) for word in words]

    def holds(self):
        if self.way == HELD:
            return [self.line_at, self.kill_at]
        return [self.steps // 2] if self.way == LINES else [self.steps + 1]


def plan_of(seed, way, **settings):
    """What a seed decides beside its history."""
    dice = random.Random(f"{seed} {way}")
    plan = replace(Plan(seed, way=way, ranks=2 + (seed % 5 == 0)), **settings)
    if seed % 8 == 0 and "nested" not in plan.without:
        plan = replace(plan, program="history_nested")
    line_at = dice.randrange(2, plan.steps * 3 // 4)
    return replace(plan, line_at=line_at, kill_at=dice.randrange(line_at + 1, plan.steps + 2),
                   victim=dice.randrange(plan.ranks), kills=dice.choice([1, 1, 1, 2, 3]))


def either_way(seed):
    """One of the two that kill."""
    return ((KILLS, HELD)[seed % 2],)


def ranges_of(skipped):
    """The option's text for a set of (rank, step)."""
    words, run = [], []
    for rank, step in [*sorted(skipped), (-1, 0)]:
        if run and (rank, step) != (run[-1][0], run[-1][1] + 1):
            words.append(f"{run[0][0]}:{run[0][1]}-{run[-1][1]}")
            run = []
        run.append((rank, step))
    return ",".join(words)


@dataclass
class Outcome:
    """What a run has left: its journals by name, its output, and what went wrong with running it."""

    folder: str
    status: int = 0
    output: list = field(default_factory=list)
    said: list = field(default_factory=list)  # on standard error, by the program itself
    journals: dict = field(default_factory=dict)
    trouble: str = ""  # the run did not go as planned
    errors: str = ""
    restarts: int = 0
    lines: int = 0


def collect(folder, status, output, errors, **more):
    journals = {}
    errors = errors.decode(errors="replace")
    said = sorted(line for line in errors.splitlines() if SAID.match(line))
    for path in sorted(glob.glob(os.path.join(folder, "journal-*"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            journals[os.path.basename(path)] = file.read().splitlines()
    output = sorted(output.decode(errors="replace").splitlines())
    return Outcome(folder, status, output, said, journals, errors=errors, **more)


def remove_ipc(folder):
    """What a killed rank could not remove: it has written down its semaphores and queues of System V."""
    for path in glob.glob(os.path.join(folder, "ipc-*")):
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file.read().splitlines()]
        for kind, number in {tuple(row) for row in rows if len(row) == 2}:
            option = {"sem": "--semaphore-id", "msg": "--queue-id"}[kind]
            subprocess.run(["ipcrm", option, number], check=False, stderr=subprocess.DEVNULL)


class Judge:
    """Runs histories in a Sandbox."""

    def __init__(self, sandbox, programs):
        self.sandbox = sandbox
        self.programs = programs  # the folder that they are in
        self.number = 0

    def words(self, plan, *more):
        return [os.path.join(self.programs, plan.program), *plan.arguments(), *map(str, more)]

    def command(self, plan, *more):
        return Program(tuple(self.words(plan, *more)), plan.ranks)

    def native(self, plan, *more):
        folder = tempfile.mkdtemp(prefix=f"native-{plan.seed}-", dir=self.sandbox.folder)
        done = run_native(self.command(plan, *more), folder)
        remove_ipc(folder)
        return collect(folder, done.returncode, done.stdout, done.stderr)

    def disturbed(self, plan, *more):
        self.number += 1
        pace = [] if plan.way == HELD else ["--seconds", plan.seconds]
        program = self.command(plan, "--hold", ",".join(map(str, plan.holds())), *pace, *more)
        dice = random.Random(f"{plan.seed} {plan.way} disturbance")
        interval = None if plan.way == HELD else f"{dice.randrange(20, 120)}ms"
        job = self.sandbox.run(program, name=f"h{self.number}-{plan.seed}", interval=interval, trace=False,
                               options=["--max-restarts", "9"])
        run = Run(job, plan, dice)
        trouble = ""
        try:
            {LINES: run.take_lines, KILLS: run.kill_at_random, HELD: run.kill_held}[plan.way]()
        except (Late, AssertionError) as problem:
            trouble = str(problem).splitlines()[0]
        status = job.status() or {"restarts": 0, "lines": [], "newest_line": 0}
        job.destroy()
        remove_ipc(job.folder)
        outcome = collect(job.folder, job.process.returncode, job.read("out"), job.read("err"), trouble=trouble,
                          restarts=status["restarts"], lines=status["newest_line"])
        outcome.trouble = outcome.trouble or run.what_is_missing(status)
        self.sandbox.belay("stop", job.name)
        self.sandbox.belay("clean", job.name)
        self.sandbox.jobs.remove(job)
        return outcome

    def judge_seed(self, seed, ways, settings):
        """{way: what differs}, with "native" for a history that is unsound by itself; the folders of such runs."""
        found, folders, reference = {}, [], None
        for way in ways:
            plan = plan_of(seed, way, **settings)
            reference = reference or self.native(plan)
            if not is_sound(reference):
                found["native"] = [f"status {reference.status}", reference.errors[-500:]]
                break
            outcome = self.native(plan) if way == NATIVELY else self.disturbed(plan)
            differences = difference(reference, outcome)
            if differences:
                found[way] = differences
                folders.append(outcome.folder)
            else:
                shutil.rmtree(outcome.folder)
        if found:
            folders.append(reference.folder)
        else:
            shutil.rmtree(reference.folder)
        return found, folders

    def close(self):
        """End and remove everything, without a word."""
        traces.kill_processes_of(self.sandbox.rundir)
        for job in self.sandbox.jobs:
            job.destroy()
        for path in (self.sandbox.base, self.sandbox.shared_memory):
            shutil.rmtree(path, ignore_errors=True)


class Run:
    """One disturbed run, as it goes on."""

    def __init__(self, job, plan, dice):
        self.job = job
        self.plan = plan
        self.dice = dice
        self.kills = 0
        self.end = time.monotonic() + LIMIT_S * PATIENCE

    def wait(self, condition, what):
        while True:
            has_ended = self.job.process.poll() is not None
            value = condition()
            if value:
                return value
            assert not has_ended, f"the job ended ({self.job.process.returncode}) before {what}"
            if time.monotonic() > self.end:
                raise Late(f"stuck: waited too long for {what}")
            time.sleep(LOOK_S)

    def wait_held(self, step):
        def are_there():
            return all(os.path.exists(self.job.path(f"at-{step}.{rank}")) for rank in range(self.plan.ranks))
        self.wait(are_there, f"step {step} of all ranks")

    def go(self, step):
        with open(self.job.path(f"go-{step}"), "wb"):
            pass

    def wait_line(self, at_least):
        """The status once all ranks run and this line is committed."""
        def is_committed():
            status = self.job.status()
            is_there = status and status["state"] == "running" and newest_line(status) >= at_least
            return status if is_there and status["epoch"] in self.job.pids else None
        return self.wait(is_committed, f"line {at_least}")

    def wait_epoch(self, epoch):
        def has_begun():
            status = self.job.status()
            is_there = status and status["epoch"] >= epoch and status["state"] == "running"
            return status if is_there and status["epoch"] in self.job.pids else None
        return self.wait(has_begun, f"the restart ({epoch})")

    def kill(self, rank):
        """The status after the restart."""
        status = self.wait_epoch(1)
        os.kill(self.job.pids[status["epoch"]][rank], 9)
        self.kills += 1
        return self.wait_epoch(status["epoch"] + 1)

    def take_line(self):
        left = max(1.0, self.end - time.monotonic())
        try:
            done = self.job.sandbox.belay("checkpoint", self.job.name, timeout=left)
        except subprocess.TimeoutExpired:
            raise Late("stuck: no line came about") from None
        assert done.returncode == 0, f"no line: {done.stderr.strip()}"

    def finish(self):
        self.wait(lambda: self.job.process.poll() is not None, "its end")

    def take_lines(self):
        self.wait_held(self.plan.holds()[0])
        self.wait_line(newest_line(self.wait_line(1)) + 1)
        self.go(self.plan.holds()[0])
        self.finish()

    def kill_at_random(self):
        newest = 0
        for _ in range(self.plan.kills):
            newest = newest_line(self.wait_line(newest + self.dice.choice([1, 1, 2, 3])))
            time.sleep(self.dice.random() * 0.1)
            newest = newest_line(self.kill(self.dice.randrange(self.plan.ranks)))
        self.go(self.plan.steps + 1)
        self.finish()

    def kill_held(self):
        line_at, kill_at = self.plan.holds()
        self.wait_held(line_at)
        self.wait_epoch(1)
        self.take_line()
        self.go(line_at)
        self.wait_held(kill_at)
        self.kill(self.plan.victim)
        self.go(kill_at)
        self.finish()

    def what_is_missing(self, status):
        """Proof that it was disturbed: lines, and restarts that came from lines."""
        if status["newest_line"] < 1:
            return "no line was committed"
        if status["restarts"] != self.kills:
            return f"{status['restarts']} restarts after {self.kills} kills"
        if any(entry["restored_line"] < 1 for entry in status["history"][1:]):
            return "a restart that did not come from a line"
        return ""


# ---- judgements ----

def first_difference(mine, theirs):
    """The first line in which two journals differ: (number, theirs, mine), or None."""
    for number in range(max(len(mine), len(theirs))):
        pair = [journal[number] if number < len(journal) else "(nothing)" for journal in (theirs, mine)]
        if pair[0] != pair[1]:
            return number, *pair
    return None


def difference(reference, outcome):
    """What is not as natively, as lines of text; none if nothing."""
    found = []
    for name in sorted({*reference.journals, *outcome.journals}):
        place = first_difference(outcome.journals.get(name, []), reference.journals.get(name, []))
        if place:
            found += [f"{name}, line {place[0] + 1}:", f"  natively  {place[1]}", f"  disturbed {place[2]}"]
    if outcome.trouble:
        found.append(outcome.trouble)
    if outcome.status != reference.status:
        found.append(f"status {outcome.status} instead of {reference.status}")
    for what, mine, theirs in (("output", outcome.output, reference.output), ("error", outcome.said, reference.said)):
        if mine != theirs and not found:
            found.append(f"standard {what}: {sorted(set(mine) ^ set(theirs)) or 'lines twice'}")
    said = lines_of_belay(outcome.errors)
    return found + [f"  {line}" for line in said[-6:]] if found else []


def is_sound(reference):
    """A native run that is fit for a comparison: it ended well and found nothing wrong with itself."""
    wrong = [line for journal in reference.journals.values() for line in journal if "WRONG" in line]
    return reference.status == 0 and not wrong
