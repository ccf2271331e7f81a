"""install-deps installs what is missing, and otherwise needs nothing and nobody."""
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "install-deps"


@pytest.fixture(name="machine")
def make_machine(tmp_path):
    """A PATH with stand-ins only; install-deps finds on it what the test puts there."""
    (tmp_path / "calls").touch()
    add(tmp_path, "id", "echo 1000")
    add(tmp_path, "cat", 'exec /bin/cat "$@"')
    return tmp_path


def add(machine, name, body):
    path = machine / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def install_deps(machine, *arguments):
    return subprocess.run(["/bin/bash", SCRIPT, *arguments], env={"PATH": str(machine)}, timeout=20,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_everything_is_there(machine):
    add(machine, "dpkg-query", "printf installed")
    done = install_deps(machine)
    assert done.returncode == 0
    assert done.stdout.endswith("packages are installed\n")
    assert install_deps(machine, "--list").stdout == ""


def test_missing_and_no_privilege(machine):
    add(machine, "dpkg-query", '[ "${!#}" = automake ] || printf installed')
    done = install_deps(machine)
    assert done.returncode == 1
    assert done.stderr == ("install-deps: not root, and there is no sudo; an administrator runs: "
                           "apt-get install automake\n")
    assert install_deps(machine, "--list").stdout == "automake\n"


def test_missing_and_sudo(machine):
    add(machine, "dpkg-query", '[ "${!#}" = automake ] || printf installed')
    add(machine, "sudo", f'echo "$*" >>{machine}/calls')
    assert install_deps(machine).returncode == 0
    assert (machine / "calls").read_text().splitlines() == [
        "-n env DEBIAN_FRONTEND=noninteractive apt-get update -q",
        "-n env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends automake",
    ]


def test_what_tests_need(machine):
    """No test is left out on a new machine for want of a compiler or a tool."""
    add(machine, "dpkg-query", "exit 1")
    missing = {option: set(install_deps(machine, *option.split(), "--list").stdout.split())
               for option in ("", "--tests", "--all")}
    assert missing[""] < missing["--tests"] < missing["--all"]
    assert {"gfortran", "g++", "gdb", "patchelf", "python3-mpi4py", "valgrind"} <= missing["--tests"] - missing[""]
    check = (SCRIPT.parent / "check").read_text(encoding="utf-8")
    assert "build_all --tests" in check and "BELAY_CHECK=1" in check


def test_not_debian(machine):
    done = install_deps(machine)
    assert done.returncode == 1
    assert done.stderr.startswith("install-deps: this is not Debian")


def test_wrong_option(machine):
    assert install_deps(machine, "--everything").returncode == 2
