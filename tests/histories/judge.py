"""Runs histories undisturbed and disturbed, several side by side in one launch, and tells in what the two differ."""

import glob
import os
import shutil
import subprocess
import tempfile

import traces
from disturbance import Disturbance
from outcomes import collect, difference, is_sound, journal_difference, launch_difference, said_by_belay
from plans import NATIVELY, plan_of
from programs import Program, run_launch


def remove_ipc(folder):
    """What a killed rank could not remove: it has written down its semaphores and queues of System V."""
    for path in glob.glob(os.path.join(folder, "*", "ipc-*")):
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file.read().splitlines()]
        for kind, number in {tuple(row) for row in rows if len(row) == 2}:
            option = {"sem": "--semaphore-id", "msg": "--queue-id"}[kind]
            subprocess.run(["ipcrm", option, number], check=False, stderr=subprocess.DEVNULL)


class Judge:
    """Runs histories in a Sandbox."""

    def __init__(self, sandbox, programs, settings=()):
        self.sandbox = sandbox
        self.settings = settings  # of `belay run`
        self.programs = programs  # the folder that they are in
        self.number = 0

    def words(self, plan, *more):
        return [os.path.join(self.programs, plan.program), *plan.arguments(), *map(str, more)]

    def line(self, plans, folder, more):
        """One launch: each history is an application context with a folder and a communicator of its own."""
        contexts = []
        for part, plan in enumerate(plans):
            place = os.path.join(folder, str(plan.seed))
            os.mkdir(place)
            contexts += [":"] if contexts else []
            contexts += ["-n", str(plan.ranks), "-wdir", place, *self.words(plan, "--part", part, *more(plan))]
        return ["mpirun", *contexts]

    def native(self, plans, *more):
        """The Outcome of an undisturbed launch of these histories."""
        folder = tempfile.mkdtemp(prefix=f"native-{plans[0].seed}-", dir=self.sandbox.folder)
        done = run_launch(self.line(plans, folder, lambda _: more), folder)
        remove_ipc(folder)
        return collect(folder, [plan.seed for plan in plans], done.returncode, done.stdout, done.stderr)

    def disturbed(self, plans, *more):
        self.number += 1
        folder = tempfile.mkdtemp(prefix=f"disturbed-{plans[0].seed}-", dir=self.sandbox.folder)
        line = self.line(plans, folder, lambda plan: [*plan.disturbed_arguments(), *more])
        disturbance = Disturbance(plans)
        job = self.sandbox.run(Program(tuple(line), sum(plan.ranks for plan in plans)), line=line, folder=folder,
                               name=f"h{self.number}-{plans[0].seed}", interval=disturbance.interval, trace=False,
                               options=["--max-restarts", "9", *self.settings])
        trouble = disturbance.run(job)
        status = job.status() or {"restarts": 0, "history": [], "newest_line": 0}
        job.destroy()
        remove_ipc(folder)
        trouble = trouble or disturbance.what_is_missing(status)
        outcome = collect(folder, [plan.seed for plan in plans], job.process.returncode, job.read("out"),
                          job.read("err"), trouble)
        self.sandbox.belay("stop", job.name)
        self.sandbox.belay("clean", job.name)
        self.sandbox.jobs.remove(job)
        return outcome

    # ---- judgements ----

    def judge(self, seeds, ways, settings):
        """{seed: {way: what differs}}, with "native" for a history that is unsound by itself; the folders of such
        launches. The seeds run side by side; what cannot be told of one of them is asked of each alone."""
        found, folders = {}, []
        reference = self.native([plan_of(seed, ways[0], **settings) for seed in seeds])
        if not is_sound(reference):
            shutil.rmtree(reference.folder)
            return self.unsound(reference, seeds, ways, settings)
        for way in ways:
            of_way, more = self.judge_way(reference, [plan_of(seed, way, **settings) for seed in seeds], settings)
            for seed, lines in of_way.items():
                found.setdefault(seed, {}).update(lines)
            folders += more
        if found:
            return found, [*folders, reference.folder]
        shutil.rmtree(reference.folder)
        return found, folders

    def unsound(self, reference, seeds, ways, settings):
        if len(seeds) == 1:
            return {seeds[0]: {"native": [f"status {reference.status}", reference.errors[-500:]]}}, []
        return self.judge_alone(seeds, ways, settings)

    def judge_way(self, reference, plans, settings):
        """The same for one way, beside what was seen natively."""
        way, seeds = plans[0].way, [plan.seed for plan in plans]
        outcome = self.native(plans) if way == NATIVELY else self.disturbed(plans)
        whole = launch_difference(reference, outcome)
        found = {seed: {way: [*lines, *said_by_belay(outcome)]} for seed in seeds
                 if (lines := journal_difference(reference, outcome, seed))}
        if not found and not whole:
            shutil.rmtree(outcome.folder)
            return {}, []
        if len(seeds) == 1:
            return {seeds[0]: {way: difference(reference, outcome)}}, [outcome.folder]
        if whole and (not found or outcome.trouble):
            found, folders = self.judge_alone(seeds, (way,), settings)
            beside = {f"{way}, beside {seeds[1]} to {seeds[-1]}": [*whole, *said_by_belay(outcome)]}
            return found or {seeds[0]: beside}, [*folders, outcome.folder]
        return found, [outcome.folder]

    def judge_alone(self, seeds, ways, settings):
        found, folders = {}, []
        for seed in seeds:
            of_seed, more = self.judge([seed], ways, settings)
            found.update(of_seed)
            folders += more
        return found, folders

    def close(self):
        """End and remove everything, without a word."""
        traces.kill_processes_of(self.sandbox.rundir)
        for job in self.sandbox.jobs:
            job.destroy()
        for path in (self.sandbox.base, self.sandbox.shared_memory):
            shutil.rmtree(path, ignore_errors=True)
