"""Jobs on a Slurm cluster of namespaces (cluster.py), of an ordinary user."""

import os
import re
import subprocess

from belaytest import Sandbox
from hosts_job import HostsJob
from programs import HURRY
from waiting import run, wait_for

LEFT_BY_AGENTS = ("agent.log", "agent.sock", "keeper.sock", "agent.lock")  # that Slurm has killed with the step: no process has them

USER = "ann"
# What tests/env.sh says for root, and for one host.
OF_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_btl_vader_backing_directory", "BELAY_RUNDIR",
           "OMPI_MCA_plm_rsh_agent")


class ClusterSandbox(Sandbox):
    """Commands run on node n1 as an ordinary user, in a folder that all hosts share; each host has its own run directory."""

    def __init__(self, prefix, programs, cluster, user=USER):
        super().__init__(prefix, programs)
        self.cluster = self.hosts = cluster
        self.name = user
        self.folder = os.path.join(cluster.home(user), "work")
        os.mkdir(self.folder)
        self.own(self.folder)
        for name in (*OF_ROOT, *(name for name in self.environment if name.startswith("BELAY_"))):
            self.environment.pop(name, None)
        self.environment.update(cluster.environment(), TMPDIR="/tmp")  # each host's own
        del self.environment["OMPI_MCA_plm_rsh_agent"]
        self.at = "n1"

    @property
    def user(self):
        return self.cluster.on_as(self.name, self.at)

    @user.setter
    def user(self, words):
        assert not words

    def own(self, path):
        """The file becomes the user's."""
        uid = os.stat(self.cluster.home(self.name)).st_uid
        os.chown(path, uid, uid)

    def execute(self, *command, at=None, deadline_s=60, **variables):
        """A command of the user's on a node to its end: a CompletedProcess with text."""
        return run(self.cluster.on_as(self.name, at or self.at, *map(str, command)), deadline_s, text=True, cwd=self.folder,
                   env={**self.environment, **variables})

    def allocate(self, program, line, allocation=("-N4", "-n8"), **options):
        """`salloc ALLOCATION belay run -- LINE` from node n1; a ClusterJob."""
        job = ClusterJob(self, program, line=line, allocation=allocation, **options)
        self.jobs.append(job)
        job.start()
        return job

    def submit(self, script, *options, **variables):
        """`sbatch OPTIONS` of a script's lines, with its outputs in out and err of a folder that is made; both, by name and number."""
        folder = os.path.join(self.folder, f"batch-{len(os.listdir(self.folder))}")
        os.mkdir(folder)
        self.own(folder)
        path = os.path.join(folder, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        done = run(self.cluster.on_as(self.name, self.at, "sbatch", "--parsable", "-o", "out", "-e", "err", *options, path), 60,
                   text=True, cwd=folder, env={**self.environment, **variables})
        assert done.returncode == 0, done.stderr
        return folder, int(done.stdout)

    def wait_end(self, number, deadline_s=90):
        """Until a job of Slurm's has ended: its state, as COMPLETED, and its exit status."""
        return wait_for(lambda: self._end_of(number), deadline_s, f"the end of job {number}")

    def _end_of(self, number):
        shown = self.cluster.slurm("scontrol", "show", "job", str(number))
        state = re.search(r"JobState=(\w+)", shown)[1]
        if state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED"):
            return None
        return state, int(re.search(r"ExitCode=(\d+):", shown)[1])

    def reference(self, program, line):
        """What a launch line prints in an allocation, without Belay."""
        done = self.execute("salloc", "-Q", *line, *program.argv, **HURRY)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # ---- what is left behind ----

    def assert_clean(self):
        """On every node that is left: no process, no file of a job, no shared memory. Slurm knows of no job."""
        wait_for(lambda: not self.cluster.jobs(), 30, f"the end of jobs {self.cluster.jobs()}")
        for name in self.cluster.first:
            self.execute(self.command, "clean", at=name)
        for name in self.cluster.first:
            wait_for(lambda name=name: not self.cluster.processes(name), 20,
                     f"the end of {self.cluster.processes(name)} on {name}")
            left = [path for folder in ("/dev/shm", "/tmp") for path in self.cluster.files(name, folder)
                    if os.path.basename(path) not in LEFT_BY_AGENTS]
            assert left == [], (name, left)

    def files_of_ranks(self):
        """They are on the hosts."""
        return []

    def destroy(self):
        """Whatever runs for the user ends, and files of the user's go."""
        for name in self.cluster.first:
            for path in self.cluster.files(name, "/tmp"):
                if path.endswith("/agent.log"):
                    print(f"---- {path} of {name}\n{self.cluster.read(name, path)[-4000:]}")
        super().destroy()
        for job in self.cluster.jobs():
            self.cluster.slurm("scancel", job)
        wait_for(lambda: not self.cluster.jobs(), 30, "the end of Slurm's jobs")
        for name in self.cluster.first:
            subprocess.run(self.cluster.on(name, "pkill", "-9", "-u", self.name), check=False)
            subprocess.run(self.cluster.on(name, "find", "/tmp", "/dev/shm", "-mindepth", "1", "-user", self.name,
                                            "-delete"), check=False)
        subprocess.run(["rm", "-rf", self.folder], check=True)


class ClusterJob(HostsJob):
    """`belay run` in an allocation of its own."""

    def __init__(self, sandbox, program, line, allocation, **options):
        super().__init__(sandbox, program, line=[*line, *program.argv], **options)
        self.allocation = allocation
        sandbox.own(self.folder)

    def kill_node(self, name):
        """The node loses its power, once a line is committed; the newest one."""
        line = self.wait_committed(max(1, self.wait_committed(0) + 2))
        self.sandbox.cluster.lose(name)
        return line

    def before(self):
        return [*self.sandbox.user, "salloc", "-Q", *self.allocation]
