"""How each kind of fault is done to a running job on local nodes."""

import errno
import os
import pathlib
import resource
import signal
import threading

import seeds
import traces

FILLER = "filler"


class Deeds:
    """Faults that are done to one job. Nothing is done to what is not there any more."""

    def __init__(self, sandbox, job):
        self.sandbox = sandbox
        self.job = job
        self.done = []  # what was done, in words
        self.ends = []  # of pauses and the like: a thread for each, as commands may wait for what stands still

    def do(self, faults, status):
        """These at once, as close to one another as one process can: who is hit is found out first."""
        acts = [(fault, self._find(fault, status)) for fault in faults]
        for fault, act in acts:
            if act:
                act()
                self.done.append(str(fault))

    def wait_ends(self):
        for thread in self.ends:
            thread.join()

    def _end_in(self, milliseconds, function):
        self.ends.append(threading.Timer(milliseconds / 1000, function))
        self.ends[-1].start()

    # ---- who is hit ----

    def _find(self, fault, status):
        finders = {seeds.RANK: self._rank, seeds.AGENT: self._agent, seeds.KEEPER: self._keeper, seeds.NODE: self._node,
                   seeds.RUN: self._run, seeds.PAUSE: self._pause, seeds.DISK: self._disk, seeds.MEMORY: self._memory}
        return finders[fault.kind](fault, status)

    def _killing(self, pids):
        return (lambda: self._signal(pids, signal.SIGKILL)) if pids else None

    @staticmethod
    def _signal(pids, number):
        signal_all(pids, number)

    @staticmethod
    def _pids_of_rank(status, rank):
        rows = [row for node in (status["nodes"] if status else []) for row in node["ranks"]]
        return [row["pid"] for row in rows if row["rank"] == rank and row["pid"]]

    def _rank(self, fault, status):
        return self._killing(self._pids_of_rank(status, fault.number))

    def _agent(self, fault, status):
        return self._killing(self._service(choose_node(status, fault.number), "belayd"))

    def _keeper(self, fault, status):
        return self._killing(self._service(choose_node(status, fault.number), "belay-keeper"))

    def _node(self, fault, status):
        return self._killing(self._all_of(choose_node(status, fault.number)))

    def _run(self, fault, status):
        return self._killing([self.job.process.pid] if self.job.process.poll() is None else [])

    def _pause(self, fault, status):
        pids = {seeds.RANK: lambda: self._pids_of_rank(status, fault.number),
                seeds.AGENT: lambda: self._service(choose_node(status, fault.number), "belayd"),
                seeds.NODE: lambda: self._all_of(choose_node(status, fault.number))}[fault.target]()

        def stop():
            self._signal(pids, signal.SIGSTOP)
            self._end_in(fault.length_ms, lambda: self._signal(pids, signal.SIGCONT))
        return stop if pids else None

    def _disk(self, fault, status):
        if not os.path.ismount(self.sandbox.rundir):
            return self._rank(fault, status)
        path = os.path.join(self.sandbox.rundir, FILLER)

        def fill_for_a_while():
            fill(path)
            self._end_in(fault.length_ms, lambda: pathlib.Path(path).unlink(missing_ok=True))  # of two at once, one empties it
        return fill_for_a_while

    def _memory(self, fault, status):
        pids = self._service(choose_node(status, fault.number), "belayd")

        def refuse_for_a_while():
            for pid in pids:
                self._limit(pid, fault.room)
            self._end_in(fault.length_ms, lambda: [self._limit(pid, None) for pid in pids])
        return refuse_for_a_while if pids else None

    def _limit(self, pid, room):
        limit_memory(pid, room)

    def _service(self, node, name):
        """The process ids of the node's agent or keeper."""
        rundir = self.sandbox.rundir
        folder = os.path.join(rundir, f"node-{node['number']}") if node and node["number"] else rundir
        return [pid for pid, command in traces.processes_of(folder).items()
                if node and os.path.basename(command.split(" ")[0]) == name and command.endswith(f"--rundir {folder}")]

    def _all_of(self, node):
        """Agent, keeper and ranks: with these its memory is gone."""
        ranks = [row["pid"] for row in node["ranks"] if row["pid"]] if node else []
        return self._service(node, "belayd") + self._service(node, "belay-keeper") + ranks


def choose_node(status, number):
    """One of the nodes that are left; None if no status tells of any."""
    left = [node for node in (status["nodes"] if status else []) if node["state"] != "lost"]
    return left[number % len(left)] if left else None


def limit_memory(pid, room):
    """The process may map so many MiB more than it has; None: as much as it likes. The kernel refuses what is beyond."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        most = resource.prlimit(pid, resource.RLIMIT_AS)[1]
        resource.prlimit(pid, resource.RLIMIT_AS, (most if room is None else mapped + (room << 20), most))
    except (FileNotFoundError, ProcessLookupError):
        pass


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def fill(path):
    """The file takes all that is left of its file system."""
    with open(path, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError as problem:
                if problem.errno != errno.ENOSPC:
                    raise
                size //= 16
