"""What of two runs has to be the same: all that they put out, but for what rules.tsv lets differ."""

import fnmatch
import os
import re

MASKED = "<...>"
REFUSAL = "is not supported under Belay"

# Of unittest's report: a test's verdict, which other words may come before, and what is told of one that failed.
VERDICT = re.compile(r"^(test\w+ \([\w.]+\)) \.\.\. (?:(?!^test\w+ \().)*?(ok|ERROR|FAIL|skipped .*?|expected failure)$",
                     re.S | re.M)
FAILURE = re.compile(r"^(?:ERROR|FAIL): (test\w+ \([\w.]+\))$(.*?)(?=^=====|\Z)", re.S | re.M)


def read_rules():
    rules = []
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.tsv"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                target, output, action, pattern, _ = line.rstrip("\n").split("\t")
                rules.append((target, output, action, re.compile(pattern)))
    return rules


def _mask(match):
    """Groups of a mask's expression stay, the rest goes."""
    return MASKED.join(group for group in match.groups() if group) or MASKED


def _comparable(target, output, text, rules):
    """The lines that have to be the same."""
    mine = [(action, pattern) for name, where, action, pattern in rules
            if fnmatch.fnmatch(target.name, name) and where == output]
    lines = text.splitlines()
    lines = [line for line in lines if not any(p.search(line) for a, p in mine if a == "drop")]
    keeps = [p for a, p in mine if a == "keep"]
    lines = [line for line in lines if not keeps or any(p.search(line) for p in keeps)]
    for _, pattern in (rule for rule in mine if rule[0] == "mask"):
        lines = [pattern.sub(_mask, line) for line in lines]
    return lines


def _read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def _first_difference(name, lines, others):
    for number, (mine, theirs) in enumerate(zip(lines, others), 1):
        if mine != theirs:
            return f"{name}, compared line {number}: {mine!r}, natively {theirs!r}"
    if len(lines) != len(others):
        return f"{name}: {len(lines)} lines to compare, natively {len(others)}"
    return ""


def _compare_texts(target, folder, native, rules):
    for name, path in [("-", "out"), *((name, name) for name in target.outputs)]:
        lines, others = (_comparable(target, name, _read(place, path), rules) for place in (folder, native))
        problem = _first_difference("standard output" if name == "-" else name, lines, others)
        if problem:
            return problem, ""
    return "", "same"


def _is_refused(verdict, told):
    """mpi4py's tests skip what is not implemented: one that passed natively wanted a refused function."""
    return verdict.startswith("skipped") or REFUSAL in told


def _compare_tests(target, folder, native):
    passed = refused = 0
    for name in target.outputs:
        text = _read(folder, name)
        verdicts, told = dict(VERDICT.findall(text)), dict(FAILURE.findall(text))
        for test, verdict in VERDICT.findall(_read(native, name)):
            if verdict != "ok":
                continue
            ours = verdicts.get(test, "not run")
            if ours == "ok":
                passed += 1
            elif _is_refused(ours, told.get(test, "")):
                refused += 1
            else:
                return f"{name}: {test}: {ours}", ""
    if not passed:
        return "no test has passed", ""
    return "", f"{passed} passed on all ranks together, {refused} wanted a refused function"


def compare(target, folder, native, rules):
    """(problem, verdict) of the outputs in one folder against those of the native run; one of them is empty."""
    if target.compare == "passed":
        return _compare_tests(target, folder, native)
    return _compare_texts(target, folder, native, rules)
