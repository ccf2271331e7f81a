"""within.py SECONDS COMMAND...: run the command, and interrupt it when so much time of the machine is over.

Time that the host of a virtual machine gives to others does not count (tests/lib/waiting.py). A command that is
interrupted has GRACE_S to tell what it has found. It begins with the default effects of SIGINT and SIGQUIT, which a
shell has ignored in what it runs in the background: its tests send these signals. The status is the command's, or 124 as that of timeout(1).
"""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "lib"))

from waiting import Late, wait_for  # noqa: E402

TIMED_OUT = 124
GRACE_S = 30


def wait_within(process, seconds):
    wait_for(lambda: process.poll() is not None, seconds, "the command")


def main():
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    process = subprocess.Popen(command, process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        wait_within(process, seconds)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    except Late:
        print(f"within.py: {seconds:g} s are over: {' '.join(command[:4])} ...", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    os.killpg(process.pid, signal.SIGINT)
    try:
        wait_within(process, GRACE_S)
    except Late:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return TIMED_OUT


if __name__ == "__main__":
    sys.exit(main())
