"""Waiting for conditions with a deadline; the only place of the tests that sleeps."""

import os
import signal
import time
from contextlib import contextmanager

POLL_S = 0.05
# On a machine that is slower by an order of magnitude (an emulated one), deadlines are longer.
PATIENCE = float(os.environ.get("BELAY_TEST_PATIENCE", "1"))


class Late(AssertionError):
    """A condition did not come true in time."""


def wait_for(condition, deadline_s=30.0, what="a condition"):
    """Return the first true value of condition(); raise Late after deadline_s."""
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Late(f"waited {deadline_s:g} s for {what}")
        time.sleep(POLL_S)


@contextmanager
def deadline(seconds, what):
    """Raise Late in the main thread when the block takes longer (as a last resort: waits have their own)."""

    seconds *= PATIENCE

    def ring(signum, frame):
        raise Late(f"{what} took longer than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
