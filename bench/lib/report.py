"""What is printed: a table for people, JSON for programs."""

import json
import statistics
from dataclasses import dataclass

from statistic import estimate

HEAD = f"{'benchmark':18} {'of':7} {'baseline':>12} {'Belay':>12} {'ratio':>7}  {'95 % interval':17} target"


UNSTEADY = 1.5  # largest baseline over smallest


@dataclass(frozen=True)
class Result:
    name: str
    statistic: str  # what of each run the values are: the minimum of its blocks ...
    unit: str
    pairs: list  # of (baseline, Belay)
    target: float = None  # the largest ratio that is wanted
    is_absolute: bool = False  # the target is of Belay's value, not of the ratio

    def ratio(self):
        return estimate([ours / base for base, ours in self.pairs])

    def is_missed(self):
        value = self.belay() if self.is_absolute else self.ratio().median
        return self.target is not None and value > self.target

    def is_unsteady(self):
        """Did the machine change under the runs (a virtual core moved, say)? Then the ratio says little."""
        bases = [base for base, _ in self.pairs]
        return max(bases) > UNSTEADY * min(bases)

    def baseline(self):
        return statistics.median(base for base, _ in self.pairs)

    def belay(self):
        return statistics.median(ours for _, ours in self.pairs)


def print_table(results):
    print(HEAD)
    for result in results:
        print(_row(result), flush=True)


def _row(result):
    ratio = result.ratio()
    interval = f"{ratio.low:.3f} .. {ratio.high:.3f}"
    target = "" if result.target is None else f"{result.target:g}"
    target += f" {result.unit}" if target and result.is_absolute else ""
    target += " MISSED" if result.is_missed() else ""
    target += " (baseline unsteady)" if result.is_unsteady() else ""
    baseline, belay = (f"{value:.1f} {result.unit}" for value in (result.baseline(), result.belay()))
    return (f"{result.name:18} {result.statistic:7} {baseline:>12} {belay:>12} {ratio.median:7.3f}  "
            f"{interval:17} {target}").rstrip()


def print_json(results):
    print(json.dumps({"results": [_object(result) for result in results]}, indent=1))


def _object(result):
    ratio = result.ratio()
    return {"name": result.name, "statistic": result.statistic, "unit": result.unit,
            "baseline": result.baseline(), "belay": result.belay(), "ratio": ratio.median,
            "interval": [ratio.low, ratio.high], "target": result.target, "is_absolute": result.is_absolute,
            "is_missed": result.is_missed(),
            "is_unsteady": result.is_unsteady(), "pairs": result.pairs}
