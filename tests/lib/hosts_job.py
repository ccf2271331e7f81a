"""Jobs on hosts of namespaces (hosts.py): commands run on host a, or where Sandbox.at says."""

import contextlib
import os
import pwd
import subprocess

from belaytest import Job, Sandbox
from programs import PACE
from waiting import wait_for


# Starts the agent of the host where it runs, and is connected to it until its own standard input ends.
AGENT = """
import os, socket, subprocess, sys
agent, folder = sys.argv[1:]
os.umask(0o077)
os.makedirs(folder)
subprocess.run([agent, "--rundir", folder], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
client = socket.socket(socket.AF_UNIX)
client.connect(os.path.join(folder, "agent.sock"))
print("connected", flush=True)
sys.stdin.read()
"""


class HostsSandbox(Sandbox):
    """Commands run on one of the hosts; each host has its own /run/belay."""

    at = "a"

    def __init__(self, prefix, programs, hosts, folder="work"):
        super().__init__(prefix, programs)
        self.hosts = hosts
        self.folder = os.path.join(hosts.shared, folder)
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

    @contextlib.contextmanager
    def agent_on(self, name, **variables):
        """The agent of a host, with settings that jobs do not get. It is there before any job, and stays until it is left, also
        if it holds nothing."""
        words = ["/usr/bin/python3", "-c", AGENT, os.path.join(self.prefix, "lib", "belay", "belayd"), f"/run/belay/host-{name}"]
        with subprocess.Popen(self.hosts.on(name, *words), env={**self.environment, **variables}, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as client:
            assert client.stdout.readline() == b"connected\n"
            yield
            client.stdin.close()

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


class OrdinarySandbox(HostsSandbox):
    """The same of an ordinary user, whose agents have their folder in each host's /tmp."""

    def __init__(self, prefix, programs, hosts, name):
        super().__init__(prefix, programs, hosts, folder=f"work-{name}")
        self.name, self.uid = name, pwd.getpwnam(name).pw_uid
        os.chown(self.folder, self.uid, self.uid)
        os.chmod(hosts.shared, 0o755)
        self.environment.update(HOME=self.folder, SHELL="/bin/sh")

    @property
    def user(self):
        return self.hosts.on(self.at, "setpriv", f"--reuid={self.name}", f"--regid={self.uid}", "--clear-groups", "--")

    @user.setter
    def user(self, words):
        assert not words

    def programs_on(self, host):
        """The names of the user's processes."""
        return subprocess.run(self.hosts.on(host, "ps", "-o", "comm=", "-u", self.name), capture_output=True, text=True,
                              check=False).stdout.split()

    def assert_clean(self):
        """Of this user, on every host that is left."""
        self.belay("clean")
        for host in self.hosts.first:
            wait_for(lambda host=host: not self.programs_on(host), 20, f"the end of {self.programs_on(host)} on {host}")
            words = ["find", "/tmp", "/dev/shm", "-user", self.name, "!", "-type", "d", "!", "-name", "agent.log"]
            left = subprocess.run(self.hosts.on(host, *words), capture_output=True, text=True, check=True).stdout
            assert left == "", (host, left)


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
