"""scripts/check's sum: nothing that failed, crashed or never ran may be counted as passed."""
import pathlib
import subprocess
import sys

import pytest

COUNT = pathlib.Path(__file__).resolve().parents[1] / "lib" / "count_tests.py"

CMOCKA_GOOD = "[==========] 3 test(s) run.\n[  PASSED  ] 3 test(s).\n"
CMOCKA_BAD = ("[  FAILED  ] test_b\n[==========] 3 test(s) run.\n[  PASSED  ] 2 test(s).\n"
              "[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] test_b\n")
XML_GOOD = "<testsuites><testsuite><testcase classname='t' name='a'/></testsuite></testsuites>"
XML_BAD = XML_GOOD.replace("/></testsuite>", "><failure/></testcase></testsuite>")
XML_WHY = XML_GOOD.replace("/></testsuite>", "><failure message='waited 5 s&#10;for a line'/></testcase></testsuite>")
XML_SKIP = XML_GOOD.replace("/></testsuite>", "><skipped message='no such kernel'/></testcase></testsuite>")
CMOCKA_SKIP = ("[==========] Running 3 test(s).\n[ RUN      ] test_b\nskipped: no such processor\n[  SKIPPED ] test_b\n"
               "[==========] 3 test(s) run.\n[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"
               "[  SKIPPED ] test_b\n")


@pytest.fixture(name="logs")
def make_logs(tmp_path):
    """Logs of a run in which everything passed: lint, three cmocka tests, one program, one case."""
    units = tmp_path / "units" / "coord"
    units.mkdir(parents=True)
    for step in ("lint", "unit-tests", "integration"):
        (tmp_path / f"{step}.status").write_text("0\n")
    for name, log in (("coord_test", CMOCKA_GOOD), ("simulation", "10 seeds, 0 violations\n")):
        (units / f"{name}.trs").write_text(":test-result: PASS\n")
        (units / f"{name}.log").write_text(log)
    (tmp_path / "integration.xml").write_text(XML_GOOD)
    return tmp_path


def last_line(logs):
    done = subprocess.run([sys.executable, COUNT, logs], capture_output=True, text=True, check=False)
    line = done.stdout.splitlines()[-1]
    assert done.returncode == (0 if line.endswith(" 0 failed") else 1)
    return line


def test_all_passed(logs):
    assert last_line(logs) == "6 passed, 0 failed"


def test_lint_failed(logs):
    (logs / "lint.status").write_text("1\n")
    assert last_line(logs) == "5 passed, 1 failed"


def test_one_cmocka_test_failed(logs):
    (logs / "units/coord/coord_test.trs").write_text(":test-result: FAIL\n")
    (logs / "units/coord/coord_test.log").write_text(CMOCKA_BAD)
    (logs / "unit-tests.status").write_text("2\n")
    assert last_line(logs) == "5 passed, 1 failed"


def test_a_program_crashed_after_its_tests(logs):
    (logs / "units/coord/coord_test.trs").write_text(":test-result: FAIL\n")
    (logs / "unit-tests.status").write_text("2\n")
    assert last_line(logs) == "6 passed, 1 failed"


def test_a_program_failed(logs):
    (logs / "units/coord/simulation.trs").write_text(":test-result: FAIL\n")
    (logs / "unit-tests.status").write_text("2\n")
    assert last_line(logs) == "5 passed, 1 failed"


def test_units_stopped_before_the_end(logs):
    (logs / "unit-tests.status").write_text("124\n")
    assert last_line(logs) == "6 passed, 1 failed"


def test_no_units_at_all(logs):
    for trs in (logs / "units").rglob("*.trs"):
        trs.unlink()
    assert last_line(logs) == "2 passed, 1 failed"


def test_a_case_failed(logs):
    (logs / "integration.xml").write_text(XML_BAD)
    (logs / "integration.status").write_text("1\n")
    assert last_line(logs) == "5 passed, 1 failed"


def test_a_skipped_case_is_neither(logs):
    (logs / "integration.xml").write_text(XML_SKIP)
    assert last_line(logs) == "5 passed, 0 failed"


def test_a_skip_names_its_reason(logs):
    (logs / "integration.xml").write_text(XML_SKIP)
    (logs / "units/coord/coord_test.log").write_text(CMOCKA_SKIP)
    (logs / "units/coord/simulation.trs").write_text(":test-result: SKIP\n")
    (logs / "units/coord/simulation.log").write_text("skipped: no time\nSKIP simulation\n")
    done = subprocess.run([sys.executable, COUNT, logs], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["  skipped: no such kernel: t.a",
                                        "  skipped: no such processor: coord/coord_test: test_b",
                                        "  skipped: no time: coord/simulation", "3 passed, 0 failed"]


def test_pytest_was_killed(logs):
    (logs / "integration.xml").unlink()
    (logs / "integration.status").write_text("124\n")
    assert last_line(logs) == "5 passed, 1 failed"


def test_pytest_was_interrupted_after_a_failure(logs):
    (logs / "integration.xml").write_text(XML_BAD)
    (logs / "integration.status").write_text("124\n")
    assert last_line(logs) == "5 passed, 2 failed"


def test_a_failed_case_tells_why(logs):
    (logs / "integration.xml").write_text(XML_WHY)
    (logs / "integration.status").write_text("1\n")
    done = subprocess.run([sys.executable, COUNT, logs], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["  failed: t.a", "    | waited 5 s", "    | for a line", "5 passed, 1 failed"]
