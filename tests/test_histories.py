"""What processes do between calls of MPI, in orders that seeds choose, goes on after kills as if nothing had happened.

Each history of tests/histories runs natively and with a kill between two of its steps, and must observe the same. (Kills
at any moment: `make campaign-histories`.) A seed that fails here is
run again by `tests/histories/run --first SEED --count 1`, and reduced by `tests/histories/reduce SEED`.
"""

import os
import sys

import pytest

from programs import TESTS

sys.path.insert(0, os.path.join(TESTS, "histories"))

from judge import Judge  # noqa: E402
from options import settings_of_policy  # noqa: E402
from plans import HELD, read_left_out  # noqa: E402
from waiting import PATIENCE, Patience  # noqa: E402

SEEDS = 100
SEEDS_OF_A_TEST = 10
SEEDS_OF_A_LAUNCH = 5
SEALS = ("views.memfd", "views.seal", "views.unmap", "files.write", "files.truncate")


def assert_same(sandbox, programs, seeds, policy=None, **settings):
    """The seeds, side by side in one launch."""
    judge = Judge(sandbox, os.path.join(os.path.dirname(programs.build), "histories"), settings_of_policy(policy))
    found, _ = judge.judge(seeds, (HELD,), {"without": tuple(read_left_out()), **settings})
    for seed, ways in found.items():
        for way, lines in ways.items():
            print(f"seed {seed}, {way}:", *lines, sep="\n    ")
    assert found == {}


def test_waiting_for_a_processor_is_not_being_stuck():
    """Each second one by a thread that stays, a quarter of the others by threads that come and go."""
    now, waited = [0.0], {(1, 1): 100.0}
    patience = Patience(10 / PATIENCE, lambda: dict(waited), lambda: now[0])
    ends = []
    for second in range(1, 40):
        now[0] = float(second)
        if second % 2:
            waited[1, 1] += 1.0
        waited[2, second] = 0.25
        waited.pop((2, second - 1), None)
        ends.append(patience.is_over())
    assert ends.index(True) == 27, ends  # of two seconds, 0.75 s count
    assert all(ends[27:])


def test_being_stuck_is_found():
    now = [0.0]
    patience = Patience(10 / PATIENCE, dict, lambda: now[0])
    now[0] = 9.0
    assert not patience.is_over()
    now[0] = 10.5
    assert patience.is_over()


@pytest.mark.limit(300)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_OF_A_TEST))
def test_histories_are_the_same(sandbox, programs, first):
    for at in range(first, first + SEEDS_OF_A_TEST, SEEDS_OF_A_LAUNCH):
        assert_same(sandbox, programs, range(at, at + SEEDS_OF_A_LAUNCH))


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("policy", ["sequential", "main_memory", "cow", "cll", "auto"])
def test_histories_under_each_policy(sandbox, programs, policy):
    assert_same(sandbox, programs, range(1, SEEDS_OF_A_LAUNCH + 1), policy)


def test_seals_after_the_line_are_gone(sandbox, programs):
    """Seals cannot be taken from a file: it is another one after the restart."""
    assert_same(sandbox, programs, range(1, 9), steps=60, only=SEALS)
