"""How fast a program in Python takes its steps: --seconds and BELAY_TEST_PACE, as program.h tells."""

import os
import time

LAST_STEPS = 2
HELD_LOOK_S = 0.01
HELD_MAX_S = 1200  # the test has been killed


def _is_held(path):
    return path is not None and not os.path.exists(path)


def _is_hurried(path):
    return path is not None and os.path.exists(path) and os.path.getsize(path) > 0


def rest_after(step, steps, seconds):
    """Sleep for the step's part of the seconds, and hold the last steps as long as the test wants it."""
    path = os.environ.get("BELAY_TEST_PACE")
    if not _is_hurried(path):
        time.sleep(seconds / steps)
    end = time.monotonic() + HELD_MAX_S
    while step >= steps - LAST_STEPS and _is_held(path) and time.monotonic() < end:
        time.sleep(HELD_LOOK_S)


def incarnation() -> int:
    """Which process this is as the machine knows it: another one after a restart, other than os.getpid()."""
    with open("/proc/self/stat", encoding="ascii") as stat:
        return int(stat.read().split()[0])
