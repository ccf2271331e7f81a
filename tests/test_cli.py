"""The command line by itself: help, settings, commands that need no MPI program."""

import json
import math
import os
import pty
import re
import shlex
import subprocess

import pytest

from belaytest import assert_recovered
from programs import TOP

KEYS = {"job", "state", "epoch", "ranks", "restarts", "restarts_from_start", "nodes", "history", "lines"}


def only_line(done):
    """The one line that Belay said."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("belay: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


COMMANDS = ("run", "checkpoint", "status", "top", "list", "stop", "clean", "restart", "inspect", "verify", "advise", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_pages(belay, command):
    """A command's page has each option that its help lists, and explains no other one."""
    with open(os.path.join(TOP, "man", f"belay-{command}.1"), encoding="utf-8") as file:
        page = file.read().replace("\\-", "-")
    listed = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", belay(command, "--help").stdout, re.M)) - {"--help", "--usage", "--version"}
    named = set(re.findall(r"--[a-z][a-z-]*", page))
    explained = {option for row in re.findall(r"^\.TP\n(.*)$", page, re.M) for option in re.findall(r"--[a-z][a-z-]*", row)}
    assert (listed - named, explained - listed) == (set(), set())


def test_help_and_version(belay):
    overview = belay("--help")
    assert overview.returncode == 0 and all(command in overview.stdout for command in COMMANDS)
    assert belay("--version").stdout.startswith("belay ")
    for command in COMMANDS:
        for arguments in (("help", command), (command, "--help")):
            done = belay(*arguments)
            assert (done.returncode, done.stderr) == (0, "") and f"belay {command}" in done.stdout
    assert "BELAY_INTERVAL" in belay("help", "settings").stdout


@pytest.mark.parametrize("arguments", [
    (), ("fly",), ("status", "--wrong"), ("status", "a", "b"), ("top", "--count", "0"), ("top", "--delay", "1ms"), ("stop",), ("run",), ("run", "--name"),
    ("run", "--max-restarts", "x", "--", "true"), ("run", "--memory", "much", "--", "true"), ("restart",),
    ("run", "--halt-at", "soon", "--", "true"), ("run", "--halt-before-limit", "5m", "--", "true"), ("run", "--halt-after-lines", "0", "--", "true"),
])
def test_bad_usage_is_one_line(belay, arguments):
    done = belay(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    only_line(done)


def test_interval_zero_is_refused_with_a_hint(belay):
    done = belay("run", "--interval", "0", "--", "true")
    assert done.returncode == 64 and "leave --interval out for lines on demand only" in only_line(done)


def test_bad_setting_in_the_environment(sandbox, belay):
    done = belay("run", "--", "true", env={**sandbox.environment, "BELAY_INTERVAL": "soon"})
    assert done.returncode == 64 and "BELAY_INTERVAL=soon" in only_line(done)


def test_option_comes_before_the_environment(sandbox, programs, belay):
    done = belay("run", "--interval", "1h", "--", "mpirun", "-n", "1", *programs.test_program("exits").argv,
                 env={**sandbox.environment, "BELAY_INTERVAL": "soon"})
    assert done.returncode == 0, done.stderr


def test_retention_of_nothing_is_refused(belay):
    assert "less than the smallest value" in only_line(belay("run", "--retention", "0", "--", "true"))


def test_closed_output(sandbox, belay):
    """The agent's socket does not take the place of a closed standard output."""
    assert belay("run", "--name", "j", "--", "true").returncode == 0
    command = f"exec {shlex.quote(sandbox.command)} list --json >&-"
    assert subprocess.run(["sh", "-c", command], env=sandbox.environment, check=False).returncode == 70
    assert belay("list", "--json").returncode == 0


def test_output_that_cannot_be_written(sandbox, belay):
    """One line says so, of a command's own output and of the program's."""
    full = f"exec {shlex.quote(sandbox.command)} help run > /dev/full"
    done = subprocess.run(["sh", "-c", full], env=sandbox.environment, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (70, "belay: standard output cannot be written\n")


def test_launcher_that_is_not_there(belay):
    done = belay("run", "--", "no-such-launcher")
    assert done.returncode == 127 and "no-such-launcher" in only_line(done)
    for command in (("run", "--"), ("restart", "job", "--")):
        done = belay(*command, "")
        assert done.returncode == 64 and "begins with an empty word" in only_line(done)


def test_unprotected_command_and_what_is_known_of_it(sandbox, belay):
    """It runs unharmed with its own status; status and list answer until clean."""
    done = belay("run", "--name", "shell", "--", "/bin/sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert only_line(done).startswith("belay: nothing was protected: no MPI program turned up under the launcher "
                                      "(/bin/sh); a program that loads MPI with dlopen must be named in BELAY_LATE_MPI")
    status = sandbox.status("shell")
    assert KEYS <= set(status) and status["state"] == "failed" and status["exit_status"] == 3
    assert [job["job"] for job in json.loads(belay("list", "--json").stdout)["jobs"]] == ["shell"]
    assert belay("clean", "shell").returncode == 0
    assert belay("status", "shell").returncode == 66
    assert json.loads(belay("list", "--json").stdout) == {"jobs": []}


def test_standard_streams_are_untouched(sandbox, belay):
    done = belay("run", "--", "cat", stdin=open(__file__, encoding="utf-8"))
    with open(__file__, encoding="utf-8") as file:
        assert (done.returncode, done.stdout) == (0, file.read())


COUNT_INTERRUPTS = """
import signal
hits = []
signal.signal(signal.SIGINT, lambda *_: hits.append(1))
print("ready", flush=True)
line = input()
print(f"{len(hits)} interrupts, then {line}", flush=True)
"""


def read_until(terminal, word):
    """What a terminal shows up to a word (the test's limit is the deadline)."""
    shown = b""
    while word not in shown:
        shown += os.read(terminal, 4096)
    return shown


@pytest.mark.limit(30)
def test_terminal(sandbox):
    """Ctrl-C reaches the launcher once, and standard input is the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sandbox.command, ["belay", "run", "--", "/usr/bin/python3", "-c", COUNT_INTERRUPTS],
                  sandbox.environment)
    read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    read_until(terminal, b"^C")
    os.write(terminal, b"words\n")
    read_until(terminal, b"1 interrupts, then words")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130


def test_launcher_sees_the_variables(sandbox, belay):
    done = belay("run", "--name", "j", "--", "sh", "-c", "echo $BELAY_NAME $BELAY_RUNDIR $BELAY_EPOCH $LD_PRELOAD")
    preload = os.path.join(os.path.realpath(sandbox.prefix), "lib", "belay", "libbelay.so")
    assert done.stdout.split() == ["j", os.path.realpath(sandbox.rundir), "1", preload]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
@pytest.mark.parametrize("command", [("run", "--", "true"), ("status",), ("clean",)])
def test_run_directory_of_somebody_else(sandbox, belay, tmp_path, command):
    os.chown(tmp_path, 65534, 65534)
    done = belay(*command, env={**sandbox.environment, "BELAY_RUNDIR": str(tmp_path)})
    assert done.returncode == 69 and "belongs to another user" in only_line(done)


def test_doctor(belay):
    done = belay("doctor", "--json")
    report = json.loads(done.stdout)
    missing = [check for check in report["checks"] if check["state"] == "missing"]
    assert report["complete"] == (missing == []) == (done.returncode == 0)
    assert all(check["advice"] for check in report["checks"] if check["state"] != "ok")
    assert {"files", "children", "standard streams"} <= set(report["policies"])
    assert {"machine", "seccomp", "mpirun", "installation"} <= {check["name"] for check in report["checks"]}


@pytest.mark.parametrize("settings, reason", [
    pytest.param({"OMPI_ALLOW_RUN_AS_ROOT": None}, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", marks=pytest.mark.skipif(
        os.geteuid() != 0, reason="mpirun refuses root only")),
    ({"OMPI_MCA_btl": "nosuchtransport,self"}, "mpirun does not start two ranks here: "),
])
def test_doctor_names_mpiruns_reason(sandbox, settings, reason):
    for name, value in settings.items():
        if value is None:
            sandbox.environment.pop(name)
        else:
            sandbox.environment[name] = value
    checks = {check["name"]: check for check in json.loads(sandbox.belay("doctor", "--json").stdout)["checks"]}
    assert checks["transports"]["state"] == "absent" and reason in checks["transports"]["found"], checks["transports"]


def test_interval_auto(sandbox, programs):
    """The interval in use is Daly's for what lines have cost, or what the duty cycle asks for."""
    job = sandbox.run(programs.test_program("ring", "--steps", 300, "--seconds", 6), interval="auto",
                      options=["--mtbf", "5s", "--duty-cycle", "50"])
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    status = job.status()
    cost, mtbf = status["line_cost_ms"], status["mtbf_ms"]
    assert mtbf == 5000
    ratio = cost / (2 * mtbf)
    optimum = math.sqrt(2 * cost * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9)
    assert status["interval_ms"] >= 0.98 * max(optimum, 2 * cost) - 1
    totals = [line["total_ms"] for line in status["lines"]]
    assert status["interval_ms"] <= 1.02 * max(optimum, 2 * cost, 2 * max(totals), 50) + 1
