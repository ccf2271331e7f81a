"""What a launch of histories has left, and in what two such outcomes differ."""

import glob
import os
import re
from dataclasses import dataclass, field

from belaytest import lines_of_belay

SAID = re.compile(r"rank \d+, step ")  # lines of the program


@dataclass
class Outcome:
    """The journals, by seed and name, the output, and what went wrong with running the launch."""

    folder: str
    status: int = 0
    output: list = field(default_factory=list)
    said: list = field(default_factory=list)  # on standard error, by the program itself
    journals: dict = field(default_factory=dict)
    trouble: str = ""  # the launch did not go as planned
    errors: str = ""


def collect(folder, seeds, status, output, errors, trouble=""):
    errors = errors.decode(errors="replace")
    said = sorted(line for line in errors.splitlines() if SAID.match(line))
    journals = {seed: read_journals(os.path.join(folder, str(seed))) for seed in seeds}
    output = sorted(output.decode(errors="replace").splitlines())
    return Outcome(folder, status, output, said, journals, trouble, errors)


def read_journals(folder):
    journals = {}
    for path in sorted(glob.glob(os.path.join(folder, "journal-*"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            journals[os.path.basename(path)] = file.read().splitlines()
    return journals


def first_difference(mine, theirs):
    """The first line in which two journals differ: (number, theirs, mine), or None."""
    for number in range(max(len(mine), len(theirs))):
        pair = [journal[number] if number < len(journal) else "(nothing)" for journal in (theirs, mine)]
        if pair[0] != pair[1]:
            return number, *pair
    return None


def journal_pairs(reference, outcome, seed):
    """(name, the native journal, the first difference) of each journal of the seed that differs."""
    theirs, mine = reference.journals[seed], outcome.journals[seed]
    for name in sorted({*theirs, *mine}):
        place = first_difference(mine.get(name, []), theirs.get(name, []))
        if place:
            yield name, theirs.get(name, []), place


def journal_difference(reference, outcome, seed):
    """In what the journals of a seed differ, as lines of text; none if in nothing."""
    found = []
    for name, _, (number, theirs, mine) in journal_pairs(reference, outcome, seed):
        found += [f"{name}, line {number + 1}:", f"  natively  {theirs}", f"  disturbed {mine}"]
    return found


def launch_difference(reference, outcome):
    """In what the launches differ as wholes: how they ended, and what they have printed."""
    found = [outcome.trouble] if outcome.trouble else []
    if outcome.status != reference.status:
        found.append(f"status {outcome.status} instead of {reference.status}")
    for what, mine, theirs in (("output", outcome.output, reference.output), ("error", outcome.said, reference.said)):
        if mine != theirs and not found:
            found.append(f"standard {what}: {sorted(set(mine) ^ set(theirs)) or 'lines twice'}")
    return found


def difference(reference, outcome):
    """What is not as natively, of a launch of one history, as lines of text; none if nothing."""
    found = [line for seed in reference.journals for line in journal_difference(reference, outcome, seed)]
    if not found or outcome.trouble or outcome.status != reference.status:
        found += launch_difference(reference, outcome)
    return found + said_by_belay(outcome) if found else []


def said_by_belay(outcome):
    return [f"  {line}" for line in lines_of_belay(outcome.errors)[-6:]]


def is_sound(reference):
    """A native launch that is fit for a comparison: it ended well and found nothing wrong with itself."""
    wrong = [line for journals in reference.journals.values() for journal in journals.values() for line in journal
             if "WRONG" in line]
    return reference.status == 0 and not wrong
