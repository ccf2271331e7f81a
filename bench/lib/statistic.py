"""The median of a sample, and the interval that holds the true one with 95 %, by order statistics."""

import math
import statistics
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    median: float
    low: float
    high: float


def estimate(values):
    """With fewer than six values the interval is their whole range, and holds less than it should."""
    ordered = sorted(values)
    cut = _cut(len(ordered))
    return Estimate(statistics.median(ordered), ordered[cut], ordered[-1 - cut])


def _cut(count):
    """How many values may be left out on each side: at most so many lie below the median with 2.5 %."""
    cut = 0
    while sum(math.comb(count, k) for k in range(cut + 2)) <= (1 - CONFIDENCE) / 2 * 2 ** count:
        cut += 1
    return cut
