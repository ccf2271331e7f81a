"""Seeds on three hosts of namespaces (lib/hosts.py), as root: whole hosts, relays and cables are lost as well."""

import os
import subprocess

import cases
import deeds
import verdicts
import seeds
import trial
from belaytest import lines_of_belay
from hosts import Hosts
from hosts_job import HostsSandbox
from programs import PACE
from waiting import Late

NAMES = "abc"
PLACES = "a:2,b:1,c:1"
RANKS = 4
SMALL = "8m"  # /run of hosts whose disk is filled
RELAY, CABLE, LINK = "relay", "cable", "link"
BOOT_MS = (300, 3000)
LOSSES = (seeds.NODE, RELAY, CABLE, LINK)  # the job may go on without one of the hosts of a link
LINKS = 0.3  # so many plans cut the link between two hosts
LINK_MS = (500, 8000)


def make(seed):
    """The Plan of a seed: that of local nodes, with what hosts have instead of some of its faults."""
    dice = seeds.dice_of(f"hosts {seed}")
    plan = seeds.make(seed, nodes=len(NAMES), ranks=RANKS)
    plan = seeds.replace(plan, spares=0, fault_points=(), nuisances=(), comeback_ms=dice.choice((300, 1000)),
                         rounds=tuple(change_round(each, dice) for each in plan.rounds))
    return add_link(plan)


def add_link(plan):
    """By dice of their own: the other faults of a seed do not depend on them. Both hosts reach that of belay run."""
    dice = seeds.dice_of(f"links {plan.seed}")
    if not plan.rounds or dice.random() >= LINKS:
        return plan
    fault = seeds.Fault(LINK, length_ms=dice.randrange(*LINK_MS))
    chosen = dice.randrange(len(plan.rounds))
    return seeds.replace(plan, rounds=tuple(seeds.replace(each, faults=(fault, *each.faults)) if number == chosen else each
                                            for number, each in enumerate(plan.rounds)))


def change_round(each, dice):
    return seeds.replace(each, faults=tuple(change(fault, dice) for fault in each.faults),
                         amid_restart=tuple(change(fault, dice) for fault in each.amid_restart))


def change(fault, dice):
    kind = fault.kind
    if kind == seeds.NODE:
        kind = dice.choice((seeds.NODE, seeds.NODE, RELAY, CABLE))
    return seeds.replace(fault, kind=kind, length_ms=fault.length_ms or dice.randrange(*BOOT_MS))


class HostsDeeds(deeds.Deeds):
    """A process is named by its host and its number there."""

    def _find(self, fault, status):
        finders = {RELAY: self._relay, CABLE: self._cable, LINK: self._link}
        return finders[fault.kind](fault, status) if fault.kind in finders else super()._find(fault, status)

    def _signal(self, pids, number):
        for name, pid in pids:
            if name in self.sandbox.hosts.first:
                subprocess.run(self.sandbox.hosts.on(name, "kill", f"-{int(number)}", str(pid)), stderr=subprocess.DEVNULL, check=False)

    def _pids_of_rank(self, status, rank):
        rows = [(NAMES[node["number"]], row) for node in (status["nodes"] if status else []) for row in node["ranks"]]
        return [(name, row["pid"]) for name, row in rows if row["rank"] == rank and row["pid"]]

    def _named(self, host, part):
        if host not in self.sandbox.hosts.first:
            return []
        return [(host, pid) for pid, command in self.sandbox.hosts.processes(host).items()
                if os.path.basename(command.split(" ")[0]) == part]

    def _service(self, node, name):
        return self._named(NAMES[node["number"]], name) if node else []

    def _all_of(self, node):
        ranks = [(NAMES[node["number"]], row["pid"]) for row in node["ranks"] if row["pid"]] if node else []
        return self._service(node, "belayd") + self._service(node, "belay-keeper") + ranks

    def _run(self, fault, status):
        return self._killing([(host, pid) for host, pid in self._named("a", "belay")])

    @staticmethod
    def _other(fault):
        """Not the host of belay run, with which the job ends."""
        return NAMES[1 + fault.number % (len(NAMES) - 1)]

    def _node(self, fault, status):
        name, hosts = self._other(fault), self.sandbox.hosts

        def crash():
            if name in hosts.first:  # a fault before this one may have crashed it
                hosts.crash(name)
                self._end_in(fault.length_ms, lambda: hosts.boot(name))
        return crash if name in hosts.first else None

    def _relay(self, fault, status):
        return self._killing(self._named(self._other(fault), "belay-relay"))

    def _cable(self, fault, status):
        name, hosts = self._other(fault), self.sandbox.hosts

        def cut():
            if name in hosts.first:  # a fault before this one may have crashed it
                hosts.unplug(name)
                self._end_in(fault.length_ms, lambda: hosts.plug(name))
        return cut if name in hosts.first else None

    def _link(self, fault, status):
        names, hosts = NAMES[1:], self.sandbox.hosts

        def cut():
            if all(name in hosts.first for name in names):  # as above
                hosts.cut(*names)
                self._end_in(fault.length_ms, lambda: hosts.mend(*names))
        return cut if all(name in hosts.first for name in names) else None

    def _limit(self, pid, room):
        name, number = pid
        if name not in self.sandbox.hosts.first:
            return
        bytes_now = "$(($(cut -d' ' -f1 /proc/$1/statm) * $(getconf PAGESIZE) + $2))"
        most = "unlimited" if room is None else bytes_now
        subprocess.run(self.sandbox.hosts.on(name, "sh", "-c", f'prlimit --pid "$1" --as="{most}":', "sh", str(number), str((room or 0) << 20)),
                       stderr=subprocess.DEVNULL, check=False)

    def _disk(self, fault, status):
        name, hosts = self._other(fault), self.sandbox.hosts

        def fill():
            subprocess.run(hosts.on(name, "sh", "-c", "cat /dev/zero > /run/filler"), stderr=subprocess.DEVNULL, check=False)
            self._end_in(fault.length_ms, lambda: name in hosts.first and
                         subprocess.run(hosts.on(name, "rm", "-f", "/run/filler"), check=False))
        return fill if name in hosts.first else None


class HostsTrial(trial.Trial):
    """One run, on hosts of its own."""

    has_one_space = False

    def launch(self, variables):
        seconds = cases.seconds_of(self.program)
        pace = ["--seconds", str(seconds)] if seconds else []
        line = ["mpirun", "--host", PLACES, "-x", PACE, *self.program.argv, *pace]
        options = ["--max-restarts", "20", "--comeback", f"{self.plan.comeback_ms}ms"]
        self.job = self.sandbox.run(self.program, line=line, interval=f"{self.plan.interval_ms}ms", options=options,
                                    seed=self.plan.seed, trace=False)
        return HostsDeeds(self.sandbox, self.job)

    def note_exposure(self, faults, status, is_amid_restart):
        lost = [seeds.replace(fault, kind=seeds.NODE) if fault.kind in LOSSES else fault for fault in faults]
        self.exposure.note(lost, status, is_amid_restart)

    def may_restart(self):
        """belay restart needs all hosts of the line, and says so: a user repairs them first."""
        said = "".join(lines_of_belay(self.job.errors)[-3:])
        return super().may_restart() or "cannot be used" in said or "cannot join" in said or "has not joined" in said


def run_seed(seed, prefix, programs):
    """The Outcome of a seed; what is left behind is wrong as well."""
    plan = make(seed)
    is_small = any(fault.kind == seeds.DISK for fault in plan.faults())
    hosts = Hosts(*NAMES, run_sizes={name: SMALL for name in NAMES} if is_small else None)
    try:
        sandbox = HostsSandbox(prefix, programs, hosts)
        try:
            outcome = HostsTrial(plan, sandbox, programs).run()
            if outcome.verdict in (verdicts.RIGHT, verdicts.ENDED):
                check_clean(sandbox, outcome)
            outcome.log = "\n".join(hosts.read(name, "/run/belay/agent.log") for name in hosts.first)
            return outcome
        finally:
            sandbox.destroy()
    finally:
        hosts.destroy()


def check_clean(sandbox, outcome):
    try:
        sandbox.assert_clean()
    except (AssertionError, Late) as problem:
        outcome.verdict, outcome.reason = verdicts.WRONG, f"left behind: {problem}"
