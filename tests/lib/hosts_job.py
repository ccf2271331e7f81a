"""Jobs on hosts of namespaces (hosts.py): commands run on host a, or where Sandbox.at says."""

import os
import subprocess

from belaytest import Job, Sandbox
from programs import PACE
from waiting import wait_for


class HostsSandbox(Sandbox):
    """Commands run on one of the hosts; each host has its own /run/belay."""

    at = "a"

    def __init__(self, prefix, programs, hosts):
        super().__init__(prefix, programs)
        self.hosts = hosts
        self.folder = os.path.join(hosts.shared, "work")
        os.mkdir(self.folder)
        for name in ("BELAY_RUNDIR", "TMPDIR", "OMPI_MCA_btl_vader_backing_directory"):
            del self.environment[name]
        self.environment["TMPDIR"] = "/tmp"  # each host's own, wherever temporary files of these tests are
        self.environment.update(hosts.environment())

    @property
    def user(self):
        return self.hosts.on(self.at)

    @user.setter
    def user(self, words):
        assert not words

    def run(self, program, hosts="a:2,b:2", line=None, **options):
        line = line or ["mpirun", "--host", hosts, "-x", PACE, *program.argv]
        job = HostsJob(self, program, line=line, **options)
        self.jobs.append(job)
        job.start()
        return job

    def assert_clean(self):
        """On every host that is left: no process, no file of a job, no shared memory."""
        self.belay("clean")
        for name in self.hosts.first:
            wait_for(lambda name=name: not self.hosts.processes(name), 20, f"the end of {self.hosts.processes(name)} on {name}")
            for folder in ("/dev/shm", "/tmp"):
                assert self.hosts.files(name, folder) == [], (name, folder, self.hosts.files(name, folder))
            left = [path for path in self.hosts.files(name, "/run/belay") if not path.endswith("agent.log")]
            assert left == [], (name, left)
        assert self.undo_folders() == []

    def undo_folders(self):
        """Those that jobs have made where all hosts see them."""
        return [os.path.join(folder, name) for folder in (self.hosts.shared, self.folder) for name in os.listdir(folder)
                if name.startswith(".belay-undo")]

    def files_of_ranks(self):
        """They are on the hosts."""
        return []

    def destroy(self):
        for name in self.hosts.first:
            for path in self.hosts.files(name, "/run/belay"):
                if path.endswith("agent.log"):
                    print(f"---- {path} of {name}\n{self.hosts.read(name, path)[-4000:]}")
        super().destroy()


class HostsJob(Job):
    """Its trace stands in the line: the program's words are its last."""

    def __init__(self, sandbox, program, line, **options):
        super().__init__(sandbox, program, line=line, **options)
        if self.trace_path:
            self.line = [*line, "--trace", self.trace_path]

    def status(self):
        """Processes of different hosts may have one number: here they are told apart by the hosts' numbers."""
        status = super().status()
        if status and status["epoch"] in self.pids:
            self.pids[status["epoch"]] = {rank["rank"]: (node["number"], rank["pid"])
                                          for node in status["nodes"] for rank in node["ranks"]}
        return status

    def kill_rank_on(self, host, rank):
        """kill -9 of a rank that runs on this host."""
        pid = next(row["pid"] for node in self.status()["nodes"] for row in node["ranks"] if row["rank"] == rank)
        subprocess.run(self.sandbox.hosts.on(host, "kill", "-9", str(pid)), check=True)
