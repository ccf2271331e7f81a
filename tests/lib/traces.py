"""What a test leaves behind: processes that belong to its run directory, files, and objects of System V and POSIX."""

import ctypes
import os
import re
import signal
import subprocess

CLONE_NEWIPC = 0x08000000
LISTS = ("msg", "sem", "shm")  # of /proc/sysvipc
has_own_objects = False  # nobody else makes any where we look


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
    argument = re.compile(rb"\0--rundir\0" + re.escape(os.fsencode(rundir)) + rb"(/node-\d+)?\0")  # of a local node, too
    found = {}
    for pid in _pids():
        command = _read(f"/proc/{pid}/cmdline")
        if pid != os.getpid() and (argument.search(command) or mark in _read(f"/proc/{pid}/environ").split(b"\0")):
            found[pid] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def waited_for_processors(pids):
    """{(pid, tid): seconds} for which the threads of these processes were ready to run, and others ran instead."""
    waited = {}
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for tid in threads:
            words = _read(f"/proc/{pid}/task/{tid}/schedstat").split()
            if len(words) == 3:
                waited[pid, tid] = int(words[1]) / 1e9
    return waited


def variable_of(pid, name):
    """What this variable is in the environment of the process; None without it."""
    mark = os.fsencode(name) + b"="
    found = [item for item in _read(f"/proc/{pid}/environ").split(b"\0") if item.startswith(mark)]
    return os.fsdecode(found[0][len(mark):]) if found else None


def service_of(rundir, number):
    """The process ids of the agent and the keeper of a local node: with both, its memory is gone."""
    node = os.path.join(rundir, f"node-{number}") if number else rundir
    found = {os.path.basename(command.split(" ")[0]): pid for pid, command in processes_of(node).items()
             if command.endswith(f"--rundir {node}")}
    assert {"belayd", "belay-keeper"} <= set(found), found
    return found["belayd"], found["belay-keeper"]


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


def in_group(group, name):
    """Process ids of the members of a process group that bear this name."""
    def is_one(pid):
        try:
            return os.getpgid(pid) == group and _read(f"/proc/{pid}/comm").decode().strip() == name
        except OSError:
            return False
    return sorted(filter(is_one, map(int, filter(str.isdigit, os.listdir("/proc")))))


def leave_common_objects():
    """Have a table of System V objects for this thread and its children: it goes with the last of them. False: we may not."""
    return ctypes.CDLL(None).unshare(CLONE_NEWIPC) == 0


def system_v():
    """KIND and id of each System V object that is one of ours for certain."""
    rows = [(kind, row.split()[1]) for kind in LISTS
            for row in _read(f"/proc/sysvipc/{kind}").decode().splitlines()[1:]]
    return {f"{kind} {number}" for kind, number in rows} if has_own_objects else set()


def remove_system_v(objects):
    options = {"msg": "--queue-id", "sem": "--semaphore-id", "shm": "--shmem-id"}
    words = [word for kind, number in map(str.split, objects) for word in (options[kind], number)]
    if words:
        subprocess.run(["ipcrm", *words], check=True)


def files_of(pids, since_s, folders=("/dev/shm", "/tmp")):
    """Our files in common folders that are as new as that, and whose names end in the number of one of these processes,
    and maybe another one.
    """
    numbers = {str(pid) for pid in pids}
    found = []
    for path in (os.path.join(folder, name) for folder in folders for name in os.listdir(folder)):
        end = re.search(r"-(\d+)(-\d+)?$", path)
        try:
            is_ours = end and end[1] in numbers and os.lstat(path).st_uid == os.geteuid()
            if is_ours and os.path.isfile(path) and os.lstat(path).st_ctime >= since_s:
                found.append(path)
        except FileNotFoundError:
            pass  # somebody else's, gone by now
    return found


def is_alive(pid):
    """Does pid exist and is more than a zombie?"""
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def is_stopped(pid):
    """Does pid stand still, by SIGSTOP?"""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"T"]


def files_under(folder, folders=False):
    """All of them, and its folders if these are asked for."""
    return sorted(os.path.join(path, name) for path, inner, names in os.walk(folder)
                  for name in (inner if folders else []) + names)
