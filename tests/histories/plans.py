"""Which history a seed is, and how it is disturbed."""

import os
import random
from dataclasses import dataclass, replace

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = os.path.join(HERE, "left-out.tsv")

# How a history is disturbed.
LINES = "lines"  # recovery lines all the time
KILLS = "kills"  # the same, and ranks are killed at random
HELD = "held"  # one line between two steps, and a kill between two later ones: the same again each time
WAYS = (LINES, KILLS, HELD)
NATIVELY = "natively"  # not disturbed at all: whether the history itself is the same each time


def read_left_out(*states):
    """The kinds and operations in left-out.tsv that are in one of these states (none: in any)."""
    with open(LEFT_OUT, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    return [row[0] for row in rows if not states or row[1] in states]


@dataclass(frozen=True)
class Plan:
    """A history and how it is disturbed."""

    seed: int
    steps: int = 150
    ranks: int = 2
    way: str = HELD
    only: tuple = ()
    without: tuple = ()
    skipped: tuple = ()  # of (rank, step)
    line_at: int = 0  # HELD: the line is taken before this step,
    kill_at: int = 0  # and the rank is killed before this one
    victim: int = 0
    kills: int = 1
    seconds: float = 0.4
    observe: int = 5
    program: str = "history"

    def arguments(self):
        """The options of the program, but for those that only a disturbed run needs."""
        words = ["--seed", self.seed, "--steps", self.steps, "--observe", self.observe]
        words += ["--only", ",".join(self.only)] if self.only else []
        words += ["--without", ",".join(self.without)] if self.without else []
        words += ["--skip-steps", ranges_of(self.skipped)] if self.skipped else []
        return [str(word) for word in words]

    def disturbed_arguments(self):
        """The options that a disturbed run needs besides."""
        pace = [] if self.way == HELD else ["--seconds", str(self.seconds)]
        return ["--hold", ",".join(map(str, self.holds())), *pace]

    def holds(self):
        if self.way == HELD:
            return [self.line_at, self.kill_at]
        return [self.steps // 2] if self.way == LINES else [self.steps + 1]


def plan_of(seed, way, **settings):
    """What a seed decides beside its history."""
    dice = random.Random(f"{seed} {way}")
    plan = replace(Plan(seed, way=way, ranks=2 + (seed % 5 == 0)), **settings)
    if seed % 8 == 0 and "nested" not in plan.without:
        plan = replace(plan, program="history_nested")
    line_at = dice.randrange(2, plan.steps * 3 // 4)
    return replace(plan, line_at=line_at, kill_at=dice.randrange(line_at + 1, plan.steps + 2),
                   victim=dice.randrange(plan.ranks), kills=dice.choice([1, 1, 1, 2, 3]))


def either_way(seed):
    """One of the two that kill."""
    return ((KILLS, HELD)[seed % 2],)


def ranges_of(skipped):
    """The option's text for a set of (rank, step)."""
    words, run = [], []
    for rank, step in [*sorted(skipped), (-1, 0)]:
        if run and (rank, step) != (run[-1][0], run[-1][1] + 1):
            words.append(f"{run[0][0]}:{run[0][1]}-{run[-1][1]}")
            run = []
        run.append((rank, step))
    return ",".join(words)
