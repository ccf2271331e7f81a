"""What a test leaves behind: processes that belong to its run directory, and files."""

import os
import signal


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(rundir):
    """{pid: command line} of all live processes that carry this run directory in their environment, or as an argument.

    The agent and its keeper show their environment to nobody.
    """
    mark = b"BELAY_RUNDIR=" + os.fsencode(rundir)
    argument = b"\0--rundir\0" + os.fsencode(rundir) + b"\0"
    found = {}
    for pid in _pids():
        command = _read(f"/proc/{pid}/cmdline")
        if pid != os.getpid() and (argument in command or mark in _read(f"/proc/{pid}/environ").split(b"\0")):
            found[pid] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def kill_processes_of(rundir):
    for pid in processes_of(rundir):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def children_of(pid):
    """{pid: name} of the children of a process's first thread, the oldest first."""
    pids = _read(f"/proc/{pid}/task/{pid}/children").split()
    return {int(child): _read(f"/proc/{int(child)}/comm").decode().strip() for child in pids}


def is_alive(pid):
    """Does pid exist and is more than a zombie?"""
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def files_under(folder):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)
