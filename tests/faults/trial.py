"""One seed: its program runs under Belay, is disturbed as the plan says, and is restarted as a user would."""

import os
import subprocess
import time
from contextlib import contextmanager

import cases
import verdicts
import seeds
import points
from belaytest import Sandbox, lines_of_belay, newest_line
from deeds import Deeds
from waiting import Late, POLL_S, machine_s, PATIENCE

WAIT_S = 60
RESTARTS = 4  # of belay restart
LINES_WITHOUT_RESTART = 5  # after these a restart will not come: what was done does not need one


class Ended(Exception):
    """`belay run` has ended, as its process tells."""


class Outcome:
    def __init__(self, plan, verdict, reason="", deeds=(), errors=""):
        self.plan, self.verdict, self.reason, self.deeds, self.errors = plan, verdict, reason, deeds, errors


class Trial:
    """One run, in a sandbox of its own."""

    has_one_space = True  # of process ids: no two processes of a run have the same

    def __init__(self, plan, sandbox, programs):
        self.plan = plan
        self.sandbox = sandbox
        self.program = cases.program(programs, plan.program, plan.ranks)
        self.reference = programs.reference(self.program)
        self.exposure = verdicts.Exposure(plan)
        self.least_lines = {}  # epoch: the line that it has to go on from at least
        self.restarts = 0
        self.job = self.deeds = None

    def run(self):
        """The Outcome."""
        try:
            return self.run_to_end()
        except Late as problem:
            return self.outcome(verdicts.HUNG, str(problem).splitlines()[0])
        finally:
            if self.deeds:
                self.deeds.wait_ends()

    def run_to_end(self):
        self.start()
        try:
            for each in self.plan.rounds:
                self.disturb(each)
        except Ended:
            pass
        self.end()
        return self.judge()

    def outcome(self, verdict, reason=""):
        deeds = self.deeds.done if self.deeds else []
        return Outcome(self.plan, verdict, reason, deeds, self.job.errors if self.job else "")

    # ---- the beginning ----

    @contextmanager
    def small_disk(self):
        """The run directory is on a small file system if the plan fills it. As root only."""
        is_wanted = os.geteuid() == 0 and any(fault.kind == seeds.DISK for fault in self.plan.faults())
        if is_wanted:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "small", self.sandbox.rundir], check=True)
        try:
            yield
        finally:
            if is_wanted:
                subprocess.run(["umount", "--lazy", self.sandbox.rundir], check=True)

    def start(self):
        variables = {}
        of_launch = [fault.specification() for fault in self.plan.fault_points if fault.point not in points.OF_AGENTS]
        if of_launch:
            variables["BELAY_FAULT"] = ",".join(of_launch)
        for fault in self.plan.fault_points:
            self.exposure.note_point(fault)
        agents = self.start_agents()
        self.deeds = self.launch(variables)
        try:
            self.wait(lambda: self.job.status(), "the first epoch")
        except Ended:
            pass
        for agent in agents:
            agent.close()

    def launch(self, variables):
        """Begin the job; what does faults to it."""
        self.job = self.sandbox.run(self.program, interval=f"{self.plan.interval_ms}ms", options=self.options(), seed=self.plan.seed,
                                    trace=False, seconds=cases.seconds_of(self.program), **variables)
        return Deeds(self.sandbox, self.job)

    def options(self):
        plan = self.plan
        nodes = ["--nodes", str(plan.nodes), "--local"] if plan.nodes > 1 else []
        spares = ["--spares", str(plan.spares)] if plan.spares else []
        tree = ["--fan-out", str(plan.fan_out)] if plan.fan_out else []
        children = ["--children", "lose"] if self.program.name in cases.KEEP_A_CHILD else []
        return [*nodes, *spares, *tree, *children, "--max-restarts", "20", "--comeback", f"{plan.comeback_ms}ms"]

    def start_agents(self):
        """Those of nodes whose faults no other agent has. They stay as long as these connections are open."""
        by_node = {}
        for node, item in self.plan.nuisances:
            by_node.setdefault(node, []).append(item)
        for fault in self.plan.fault_points:
            if fault.point in points.OF_AGENTS:
                by_node.setdefault(fault.number, []).append(fault.specification())
        return [self.sandbox.start_agent_of(node, BELAY_FAULT=",".join(words)) for node, words in by_node.items()]

    # ---- waiting ----

    def wait(self, condition, what):
        """The first true value of condition(). Raises Ended, or Late."""
        end = machine_s() + WAIT_S * PATIENCE
        while True:
            has_ended = self.job.process.poll() is not None
            value = condition()
            if value:
                return value
            if has_ended:
                raise Ended
            if machine_s() > end:
                raise Late(f"waited {WAIT_S} s for {what}")
            time.sleep(POLL_S)

    def wait_running(self, at_least, what):
        """The status once all ranks run and this line is committed."""
        def look():
            status = self.job.status()
            is_up = status and status["state"] == "running" and status["epoch"] in self.job.pids
            return status if is_up and newest_line(status) >= at_least else None
        return self.wait(look, what)

    def wait_progress(self):
        """Until the job ends, as long as it goes on: on a busy machine a program takes its time."""
        while True:
            before = self.place()
            self.wait(lambda: self.place() != before, f"anything but {before}")

    def place(self):
        status = self.job.status()
        return (status["epoch"], status["state"], status["newest_line"]) if status else None

    # ---- disturbing ----

    def disturb(self, each):
        try:
            status = self.wait_running(0, "all ranks")
            status = self.wait_running(verdicts.least_line(status) + each.lines, f"{each.lines} lines")
        except Ended:
            if not self.go_on():
                raise
            return
        time.sleep(each.delay_ms / 1000)
        self.do(each.faults, status, False)
        if each.amid_restart:
            self.disturb_restart(each, status["epoch"])
        if self.job.process.poll() is not None and not self.go_on():
            raise Ended

    def do(self, faults, status, is_amid_restart):
        latest = self.job.status() or status
        self.note_exposure(faults, latest, is_amid_restart)
        self.least_lines[latest["epoch"] + 1] = max(newest_line(latest), newest_line(status))
        self.deeds.do(faults, latest)

    def note_exposure(self, faults, status, is_amid_restart):
        self.exposure.note(faults, status, is_amid_restart)

    def disturb_restart(self, each, epoch):
        done = newest_line(self.job.status() or {"lines": []}) + LINES_WITHOUT_RESTART

        def look():
            status = self.job.status()
            is_over = status and (status["epoch"] > epoch or status["state"] != "running" or newest_line(status) >= done)
            return status if is_over else None
        try:
            status = self.wait(look, "the restart")
        except Ended:
            return
        if status["epoch"] == epoch and status["state"] == "running":
            return  # nothing had to be restarted
        time.sleep(each.amid_delay_ms / 1000)
        self.do(each.amid_restart, status, True)

    # ---- the end ----

    def go_on(self):
        """`belay run` or `belay restart` has ended: restart the job if it was lost. Returns whether it goes on."""
        if self.job.process.returncode == 0 or self.restarts == RESTARTS:
            return False
        self.wait_lost()
        self.deeds.wait_ends()  # a user makes room first
        if not self.may_restart():
            return False
        self.restarts += 1
        self.job.variables.pop("BELAY_FAULT", None)  # of belay run; ranks have it from the recorded launch
        self.job.restart(options=["--max-restarts", "20"])
        return True

    def may_restart(self):
        said = "".join(lines_of_belay(self.job.errors)[-3:])
        status = self.job.status()
        return "'belay restart" in said or (status is not None and status["state"] == "lost")

    def wait_lost(self):
        """The agents end the launch of a `belay run` that was killed."""
        end = machine_s() + WAIT_S * PATIENCE
        while True:
            status = self.job.status()
            if not status or status["state"] not in ("running", "restarting", "starting"):
                return
            if machine_s() > end:
                raise Late(f"waited {WAIT_S} s for the end of a launch without belay run; it is {status['state']}")
            time.sleep(POLL_S)

    def end(self):
        """Let the job come to its end."""
        while True:
            try:
                self.job.let_hurry()
                self.wait_progress()
            except Ended:
                if not self.go_on():
                    return

    def judge(self):
        job = self.job
        code = job.process.returncode
        wrong = verdicts.wrong_in(self) if code == 0 else ""
        if code == 0 and not wrong:
            return self.outcome(verdicts.RIGHT)
        if verdicts.has_told_of_files(self):
            return self.outcome(verdicts.ENDED, verdicts.FILES)
        if code == 0:
            return self.outcome(verdicts.WRONG, wrong)
        reason = verdicts.reason_of(job.errors)
        if not reason:
            return self.outcome(verdicts.WRONG, f"it ended with {code}, and no last word tells why")
        if not self.exposure.excuses(reason):
            return self.outcome(verdicts.WRONG, f"it ended with {code}, which the faults do not justify: {reason}")
        return self.outcome(verdicts.ENDED, reason)


def make(seed):
    return seeds.make(seed)


def run_seed(seed, prefix, programs):
    """The Outcome of a seed; what is left behind is wrong as well."""
    plan = seeds.make(seed)
    sandbox = Sandbox(prefix, programs)
    try:
        trial = Trial(plan, sandbox, programs)
        with trial.small_disk():
            outcome = trial.run()
            if outcome.verdict in (verdicts.RIGHT, verdicts.ENDED):
                check_clean(sandbox, outcome)
            outcome.log = read_logs(sandbox)
        return outcome
    finally:
        sandbox.destroy()


def check_clean(sandbox, outcome):
    done = sandbox.belay("clean")
    try:
        sandbox.wait_quiet()
    except Late as problem:
        outcome.verdict, outcome.reason = verdicts.WRONG, f"after belay clean ({done.returncode}): {problem}"
        return
    left = [path for path in sandbox.left_behind() if not is_of_library(outcome.plan, path)]
    if left:
        outcome.verdict, outcome.reason = verdicts.WRONG, f"left behind: {' '.join(left)}"


def is_of_library(plan, path):
    """Of a rank that was killed while MPI_Init made the segment, before Open MPI has noted that: it stays without Belay as well."""
    is_possible = any(each.amid_restart for each in plan.rounds) or plan.fault_points
    return is_possible and os.path.basename(path).startswith("vader_segment.")


def read_logs(sandbox):
    parts = []
    for folder in (sandbox.rundir, *(os.path.join(sandbox.rundir, f"node-{number}") for number in range(1, 8))):
        path = os.path.join(folder, "agent.log")
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                parts.append(f"---- {path}\n{file.read()}")
    return "\n".join(parts)
