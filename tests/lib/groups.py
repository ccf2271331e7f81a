"""Control groups (version 1) of hosts of namespaces: each host has a part of the machine's tree, and takes it for the whole.

Slurm finds the processes of a step by the freezer. A machine without these groups has none for its hosts either.
"""

import os
import uuid

from waiting import wait_for

KINDS = ("freezer", "memory")
ROOT = "/sys/fs/cgroup"


def own_path(kind):
    """The group of this process."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        rows = [row.rstrip("\n").split(":", 2) for row in file]
    return next(path for _, kinds, path in rows if kind in kinds.split(","))


class Groups:
    """One for each host, below a folder of this object's own."""

    def __init__(self):
        self.name = f"belay-{uuid.uuid4().hex[:8]}"
        self.kinds = [kind for kind in KINDS if os.access(f"{ROOT}/{kind}/cgroup.procs", os.W_OK)]
        self.folders = {kind: os.path.normpath(f"{ROOT}/{kind}/{own_path(kind)}/{self.name}") for kind in self.kinds}
        self.hosts = set()

    def are_there(self):
        return "freezer" in self.kinds

    def make(self, host):
        self.hosts.add(host)
        for folder in self.folders.values():
            os.makedirs(os.path.join(folder, host), exist_ok=True)

    def mounts(self):
        """Commands with which a host that is in its groups mounts them."""
        if not self.kinds:
            return []
        folders = " ".join(f"{ROOT}/{kind}" for kind in self.kinds)
        return [f"mount -t tmpfs -o mode=755 cgroup {ROOT}", f"mkdir {folders}",
                *(f"mount -t cgroup -o {kind} cgroup {ROOT}/{kind}" for kind in self.kinds)]

    def join(self, host):
        """The process that calls this is in the host's groups from now on."""
        for folder in self.folders.values():
            with open(os.path.join(folder, host, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write("0")

    def remove(self, host):
        """The host has ended."""
        self.hosts.discard(host)
        for folder in self.folders.values():
            wait_for(lambda folder=folder: _remove(os.path.join(folder, host)), 10, f"the end of the group of {host}")

    def destroy(self):
        for host in list(self.hosts):
            self.remove(host)
        for folder in self.folders.values():
            if os.path.exists(folder):
                os.rmdir(folder)


def _remove(folder):
    """Processes that have been killed may still be on their way out."""
    try:
        for path, _, _ in os.walk(folder, topdown=False):
            os.rmdir(path)
        return True
    except OSError:
        return False
