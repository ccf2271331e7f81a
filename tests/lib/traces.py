"""What a test leaves behind: processes that belong to its run directory, files, shared memory."""

import os
import signal

SHARED_MEMORY = "/dev/shm"


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(rundir):
    """{pid: command line} of all live processes that carry this run directory in their environment."""
    mark = b"BELAY_RUNDIR=" + os.fsencode(rundir)
    found = {}
    for pid in _pids():
        if pid != os.getpid() and mark in _read(f"/proc/{pid}/environ").split(b"\0"):
            found[pid] = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def kill_processes_of(rundir):
    for pid in processes_of(rundir):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def is_alive(pid):
    """Does pid exist and is more than a zombie?"""
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def files_under(folder):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)


def shared_memory():
    """Names in /dev/shm."""
    return set(os.listdir(SHARED_MEMORY))


def _is_ours(name):
    try:
        return os.stat(os.path.join(SHARED_MEMORY, name)).st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def abandoned_shared_memory(before):
    """Names in /dev/shm that were not there before and that no live process maps (other jobs may run).

    Of other users' files only root can tell who maps them."""
    new = {name for name in shared_memory() - before if os.geteuid() == 0 or _is_ours(name)}
    if not new:
        return set()
    mapped = b"".join(_read(f"/proc/{pid}/maps") for pid in _pids())
    return {name for name in new if os.fsencode(os.path.join(SHARED_MEMORY, name)) not in mapped}
