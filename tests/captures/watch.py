"""A job whose memory is written to all the time, and whose every capture is compared with a full copy at the same line."""

import os
import re
import time

from belaytest import assert_recovered
from waiting import PATIENCE, POLL_S, Late, counted_s

# As docs/capture.md has them; the first ones are compared with by the others.
POLICIES = ("sequential", "main_memory", "cow", "cll", "precopy", "auto")
PROTECTING = ("cow", "cll", "auto")  # those that copy after the pause
# What of mem_race runs, and how much of the campaign is its part. Where ranks write to one another, nothing is protected.
MODES = {"alone": 0.5, "shared": 0.25, "others": 0.25}
STUCK_S = 60  # without a capture
KILL_EVERY = 100  # captures
INTERVAL = "20ms"
# Half of the lines stand still before the first protected page is copied: all writers meet the protection.
FAULTS = "agent.witness=error,agent.guarded%50=delay:20"
# One rank stands longer than the other, which writes to it as soon as it may.
ONE_STANDS = "agent.witness@1=delay:50"
POOL = ("--pool", "1M")  # smaller than what a rank writes


class Watched:
    """What a job's captures were."""

    def __init__(self, equal=0, differing=(), guarded=0, kills=0, unseen=0):
        self.equal, self.differing, self.guarded, self.kills, self.unseen = equal, list(differing), guarded, kills, unseen

    def __add__(self, other):
        return Watched(self.equal + other.equal, self.differing + other.differing, self.guarded + other.guarded,
                       self.kills + other.kills, self.unseen + other.unseen)

    @property
    def captures(self):
        return self.equal + len(self.differing)


def read_log(sandbox):
    path = os.path.join(sandbox.rundir, "agent.log")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as log:
        return log.read()


def count(sandbox, job=None, kills=0):
    log = read_log(sandbox)
    return Watched(log.count("its capture is what a full copy is"),
                   re.findall(r"line \d+, rank \d+: its capture differs from a full copy.*", log),
                   len(re.findall(r"line \d+: \d+ bytes of rank \d+ were copied while it ran", log)), kills,
                   job.errors.count("process_vm_writev") if job else 0)


def wait_captures(sandbox, job, captures):
    """Until so many were compared, as long as there is a new one once in a while."""
    seen, end = -1, 0
    while seen < captures:
        now = count(sandbox).captures
        if now > seen:
            seen, end = now, counted_s() + STUCK_S * PATIENCE
        assert job.process.poll() is None, f"the job has ended:\n{job.errors}"
        if counted_s() > end:
            raise Late(f"no capture for {STUCK_S} s after {seen}; {job.errors[-400:]}")
        time.sleep(POLL_S)


def arm(sandbox):
    """Before the first command of the sandbox: the agent takes its environment from that."""
    sandbox.environment.update(BELAY_LOG="debug", BELAY_FAULT=FAULTS)


def watch(sandbox, programs, policy, mode, captures, kill_every=KILL_EVERY, tracker=None, mib=16):
    """A Watched of so many captures at least. After each `kill_every` of them a rank is killed, and all go on from a line; what
    the program then finds in its memory, it checks itself. In the end it has the result of an undisturbed run."""
    arm(sandbox)
    if mode == "others":
        sandbox.environment["BELAY_FAULT"] += f",{ONE_STANDS}"
    program = programs.test_program("mem_race", "--mode", mode, "--value", mib, "--steps", 40, "--seconds", 2, ranks=2)
    options = ["--policy", policy, "--children", "lose", *(POOL if policy == "cll" else ()),
               *(["--tracker", tracker] if tracker else [])]
    job = sandbox.run(program, interval=INTERVAL, options=options)
    job.wait_lines()
    kills = 0
    while (kills + 1) * kill_every <= captures:
        wait_captures(sandbox, job, (kills + 1) * kill_every)
        job.kill_and_recover()
        kills += 1
    wait_captures(sandbox, job, captures)
    found = count(sandbox, job, kills)
    job.finish()
    assert_recovered(job)
    return found
