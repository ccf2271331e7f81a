"""Random faults that seeds choose (tests/faults): the undisturbed result, or a clear end where too much was lost.

A seed that fails here is run again by `tests/faults/run --first SEED --count 1`, one on hosts with `--hosts`.
"""

import os
import sys

import pytest

from hosts import lacking
from programs import TESTS

sys.path.insert(0, os.path.join(TESTS, "faults"))

import hosts_trial  # noqa: E402
import verdicts  # noqa: E402
import trial  # noqa: E402

SEEDS = 50
SEEDS_OF_A_TEST = 5


def assert_well(outcome):
    print(f"{outcome.plan}\n{outcome.verdict}: {outcome.reason}\n{outcome.errors}\n{outcome.log}")
    assert outcome.verdict in (verdicts.RIGHT, verdicts.ENDED), f"seed {outcome.plan.seed}: {outcome.verdict}: {outcome.reason}"


@pytest.mark.limit(200)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_OF_A_TEST))
def test_seeds(prefix, programs, first):
    for seed in range(first, first + SEEDS_OF_A_TEST):
        assert_well(trial.run_seed(seed, prefix, programs))


@pytest.mark.skipif(bool(lacking()), reason=lacking())
@pytest.mark.parametrize("seed", [2, 5])
def test_seeds_on_hosts(prefix, programs, seed):
    assert_well(hosts_trial.run_seed(seed, prefix, programs))
