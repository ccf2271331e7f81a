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
from plans import HELD, read_left_out  # noqa: E402

SEEDS = 100
SEEDS_OF_A_TEST = 10
SEEDS_OF_A_LAUNCH = 5
SEALS = ("views.memfd", "views.seal", "views.unmap", "files.write", "files.truncate")


def assert_same(sandbox, programs, seeds, **settings):
    """The seeds, side by side in one launch."""
    judge = Judge(sandbox, os.path.join(os.path.dirname(programs.build), "histories"))
    found, _ = judge.judge(seeds, (HELD,), {"without": tuple(read_left_out()), **settings})
    for seed, ways in found.items():
        for way, lines in ways.items():
            print(f"seed {seed}, {way}:", *lines, sep="\n    ")
    assert found == {}


@pytest.mark.limit(300)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_OF_A_TEST))
def test_histories_are_the_same(sandbox, programs, first):
    for at in range(first, first + SEEDS_OF_A_TEST, SEEDS_OF_A_LAUNCH):
        assert_same(sandbox, programs, range(at, at + SEEDS_OF_A_LAUNCH))


def test_seals_after_the_line_are_gone(sandbox, programs):
    """Seals cannot be taken from a file: it is another one after the restart."""
    assert_same(sandbox, programs, range(1, 9), steps=60, only=SEALS)
