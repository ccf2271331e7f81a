"""Waiting for conditions with a deadline; the only place of the tests that sleeps.

Deadlines count the time that the machine had. A virtual machine whose host runs others instead (the kernel calls that
time stolen) stands still meanwhile, and nothing that is waited for can come true. Nor does the time count in which the test itself
was ready to run and did not get a processor: Linux 6.18 may give both processors to ranks that call sched_yield in turn, for
up to a minute, and to nobody else (dmesg then tells of "rcu_preempt kthread starved").
"""

import os
import signal
import subprocess
import time
from contextlib import contextmanager

POLL_S = 0.05
LEAST_REST_S = 0.1
COMMUNICATE_S = 5
# On a machine that is slower by an order of magnitude (an emulated one), deadlines are longer.
PATIENCE = float(os.environ.get("BELAY_TEST_PATIENCE", "1"))


class Late(AssertionError):
    """A condition did not come true in time."""


class Patience:
    """How much of a limit is left to processes that share the processors with others.

    The time in which one of them waits for a processor does not count. So a campaign of the lowest priority is as patient as it
    has to be, and still finds out what is stuck: that waits for something else.
    """

    def __init__(self, limit_s, waited, clock=time.monotonic, look_s=1.0):
        """waited(): a dictionary of seconds, as traces.waited_for_processors() gives."""
        self.waited = waited
        self.clock = clock
        self.look_s = look_s
        self.left_s = limit_s * PATIENCE
        self.before = waited()
        self.looked = clock()

    def is_over(self):
        """Looks at the processes once in a while."""
        passed_s = self.clock() - self.looked
        if passed_s >= self.look_s:
            now = self.waited()
            most_s = max((seconds - self.before.get(key, 0.0) for key, seconds in now.items()), default=0.0)
            self.left_s -= max(0.0, passed_s - most_s)
            self.before, self.looked = now, self.looked + passed_s
        return self.left_s <= 0


def machine_s():
    """Seconds for which the processors ran or were idle since the machine began, without those that were stolen."""
    with open("/proc/stat", encoding="ascii") as file:
        lines = file.read().splitlines()
    processors = sum(line.startswith("cpu") for line in lines) - 1
    ticks = [int(word) for word in lines[0].split()[1:8]]  # user, nice, system, idle, iowait, irq, softirq; then: steal
    return sum(ticks) / os.sysconf("SC_CLK_TCK") / processors


def starved_s():
    """Seconds for which this process was ready to run, and others ran; 0 where the kernel does not count them."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def counted_s():
    """What deadlines count."""
    return machine_s() - starved_s()


def wait_for(condition, deadline_s=30.0, what="a condition"):
    """Return the first true value of condition(); raise Late after deadline_s."""
    deadline_s *= PATIENCE
    end = counted_s() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if counted_s() > end:
            raise Late(f"waited {deadline_s:g} s for {what}")
        time.sleep(POLL_S)


def communicate(process, deadline_s, text=None):
    """Popen.communicate(text) with such a deadline, after which the process is killed."""
    end = counted_s() + deadline_s * PATIENCE
    while True:
        try:
            return process.communicate(text, timeout=COMMUNICATE_S)
        except subprocess.TimeoutExpired:
            if counted_s() > end:
                process.kill()
                out, err = process.communicate()
                raise Late(f"{process.args} took longer than {deadline_s:g} s:\n{out}\n{err}") from None


def run(arguments, deadline_s, **options):
    """subprocess.run(), both outputs captured, with such a deadline."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(arguments, **options) as process:
        out, err = communicate(process, deadline_s)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@contextmanager
def deadline(seconds, what):
    """Raise Late in the main thread when the block takes longer (as a last resort: waits have their own)."""

    seconds *= PATIENCE
    end = counted_s() + seconds

    def ring(signum, frame):
        if counted_s() >= end:
            raise Late(f"{what} took longer than {seconds:g} s")
        signal.setitimer(signal.ITIMER_REAL, max(end - counted_s(), LEAST_REST_S))

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
