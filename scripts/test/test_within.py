"""within.py: the command's own status, or its interruption."""
import pathlib
import subprocess
import sys

WITHIN = pathlib.Path(__file__).resolve().parents[1] / "lib" / "within.py"


def run_within(seconds, *command):
    return subprocess.run([sys.executable, WITHIN, str(seconds), *command], capture_output=True, text=True, check=False)


def test_the_status_is_the_commands():
    assert run_within(60, "sh", "-c", "exit 5").returncode == 5
    assert run_within(60, "sh", "-c", "kill -9 $$").returncode == 137


def test_what_is_interrupted_may_tell_what_it_has():
    done = run_within(0.2, "bash", "-c", "trap 'echo so far; exit 1' INT; sleep 60")
    assert (done.returncode, done.stdout) == (124, "so far\n")
    assert "are over" in done.stderr


def test_default_effect_of_interrupts():
    """Also where the shell has them ignored, as for what is started with `&` in a script."""
    done = subprocess.run(
        ["bash", "-c", f"trap '' INT QUIT; exec {sys.executable} {WITHIN} 60 sh -c 'kill -INT $$; echo ignored'"],
        capture_output=True, text=True)
    assert "ignored" not in done.stdout and done.returncode != 0
