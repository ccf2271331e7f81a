"""Add up the results that scripts/check left in its folder of logs.

Looked at: lint (one test), the .trs and .log files of Automake's tests (the tests of a cmocka program
count one by one, any other program is one test), and pytest's XML. A unit test that is skipped prints
`skipped: REASON` first. Prints what failed (of pytest's tests also why), what was skipped and why, then exactly
one line `N passed, N failed`; the status is 1 if anything failed.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.MULTILINE)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\)", re.MULTILINE)
CMOCKA_SKIPPED = re.compile(r"^(?:skipped: (.*)\n)?\[  SKIPPED \] (?!\d+ test\(s\))(.+)", re.MULTILINE)
TIMED_OUT = 124  # the status of timeout(1)
REASON_CHARACTERS = 400
CMOCKA_SUMMARY = "test(s) run."  # behind it, names are repeated
CMOCKA_FAILED_NAME = re.compile(r"^\[  FAILED  \] (?!\d+ test\(s\))(\S+)", re.MULTILINE)


class Results:
    def __init__(self):
        self.passed = 0
        self.failed = []
        self.reasons = {}  # name of a failed test: why
        self.skipped = {}  # reason: names

    def skip(self, name, reason):
        self.skipped.setdefault(reason or "no reason is told", []).append(name)

    def add(self, name, is_passed):
        if is_passed:
            self.passed += 1
        else:
            self.failed.append(name)


def count_step(logs, name, results):
    """The step as a whole is one test."""
    results.add(name, step_status(logs, name) == 0)


def step_status(logs, name):
    path = logs / f"{name}.status"
    return int(path.read_text()) if path.exists() else 1


def count_units(logs, results):
    failed_before = len(results.failed)
    programs = sorted((logs / "units").rglob("*.trs"))
    for trs in programs:
        count_program(trs, results)
    if not programs or (step_status(logs, "unit-tests") != 0 and len(results.failed) == failed_before):
        results.add("unit-tests (did not run to the end)", False)


def count_program(trs, results):
    outcome = re.search(r"^:test-result: (\w+)", trs.read_text(), re.MULTILINE)
    outcome = outcome.group(1) if outcome else "ERROR"
    name = str(trs.with_suffix("")).partition("/units/")[2]
    log = trs.with_suffix(".log")
    text = log.read_text(errors="replace") if log.exists() else ""
    passed = sum(int(count) for count in CMOCKA_PASSED.findall(text))
    failed = sorted(set(CMOCKA_FAILED_NAME.findall(text)))
    for reason, test in CMOCKA_SKIPPED.findall(text.partition(CMOCKA_SUMMARY)[0]):
        results.skip(f"{name}: {test}", reason)
    if outcome == "SKIP":
        results.skip(name, text.strip().partition("\n")[0].removeprefix("skipped: "))
    elif not passed and not CMOCKA_FAILED.search(text):
        results.add(name, outcome == "PASS")
    else:
        results.passed += passed
        results.failed += [f"{name}: {test}" for test in failed]
        if outcome != "PASS" and not failed:
            results.add(f"{name} (ended with an error)", False)


def count_integration(logs, results):
    failed_before = len(results.failed)
    path = logs / "integration.xml"
    if path.exists():
        for case in ElementTree.parse(path).iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None:
                results.skip(f"{case.get('classname')}.{case.get('name')}", skipped.get("message"))
            else:
                count_case(case, results)
    status = step_status(logs, "integration")
    if status == TIMED_OUT or (status != 0 and len(results.failed) == failed_before):
        results.add("integration (did not run to the end)", False)


def count_case(case, results):
    name = f"{case.get('classname')}.{case.get('name')}"
    problem = case.find("failure")
    if problem is None:
        problem = case.find("error")
    results.add(name, problem is None)
    if problem is not None and problem.get("message"):
        results.reasons[name] = problem.get("message")[:REASON_CHARACTERS]


def main():
    logs = pathlib.Path(sys.argv[1]).resolve()
    results = Results()
    count_step(logs, "lint", results)
    count_units(logs, results)
    count_integration(logs, results)
    for name in results.failed:
        print(f"  failed: {name}")
        for line in results.reasons.get(name, "").splitlines():
            print(f"    | {line}")
    for reason, names in sorted(results.skipped.items()):
        print(f"  skipped: {reason}: {', '.join(names)}")
    print(f"{results.passed} passed, {len(results.failed)} failed")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
