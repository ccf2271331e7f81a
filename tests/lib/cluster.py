"""A Slurm cluster for tests: a head with slurmctld and five nodes with slurmd, each of them a host of namespaces (hosts.py).

Slurm and MUNGE are the machine's own programs; each host has a munged of its own. `ann` and `ben` are ordinary users of the
cluster, with homes that all hosts share; /tmp, /dev/shm and /run are each host's own. Several clusters do not meet.
"""

import os
import re
import shutil
import subprocess

import groups
import hosts
from hosts import Hosts
from waiting import run, wait_for

HEAD = "head"
USERS = {"ann": 42001, "ben": 42002}
TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
READY_S = 60
TOLD_CHARACTERS = 2500  # of each log

# What differs from Slurm's defaults, and why:
# - where the machine has no cgroups of version 1, a task's processes are found by /proc; tasks share processors
# - nodes claim more processors than there are (config_overrides)
# - a lost node is noticed within seconds, and what waits for one gives up soon
# - a requeued job does not wait two minutes for its credential to expire (cred_expire)
SLURM_CONF = """
ClusterName=belay
SlurmctldHost={head}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/{track}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,bf_interval=5
SlurmctldParameters=idle_on_node_suspend
SlurmdParameters=config_overrides
PlugStackConfig=/etc/slurm/plugstack.conf
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=6
MessageTimeout=5
TCPTimeout=2
BatchStartTimeout=10
InactiveLimit=0
KillWait=5
PropagateResourceLimits=NONE
StateSaveLocation={shared}/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile={shared}/log/slurmctld.log
SlurmdLogFile={shared}/log/slurmd-%n.log
LogTimeFormat=iso8601_ms
NodeName={nodes} CPUs={processors} RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
# With Slurm 22.05's default fence of PMIx, MPI_Init hangs or crashes in one of six launches. That of the tree waits for no other
# node, and MPI_Init crashes in one of twelve. That of the ring is one (24 launches of each).
MPI_CONF = "PMIxCollFence=ring\n"

CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"

# Words behind "sh -c MUNGED": the cluster's folder; behind DAEMONS: this, and the command of Slurm's daemon.
MUNGED = """
set -e
install -d -m 755 -o munge -g munge /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged --key-file="$1/munge.key" --socket=/run/munge/munge.socket.2 \\
    --pid-file=/run/munge/munged.pid --log-file=/run/munge/munged.log --seed-file=/run/munge/munged.seed --num-threads=2
"""
DAEMONS = f"""
{MUNGED}
install -d -m 755 /run/slurm /run/slurm/spool
shift
exec "$@"
"""


def lacking():
    """Why there can be no cluster here; '' if there can."""
    for tool, package in TOOLS.items():
        if not shutil.which(tool):
            return f"{tool} is not installed ({package})"
    return hosts.lacking()


def said(command):
    """The standard output of a command that has to succeed."""
    done = run(command, READY_S, text=True)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stderr}"
    return done.stdout


class Lasting:
    """The cluster of a session. It is made anew where it could not be brought back to what it was."""

    def __init__(self, plugin):
        self.plugin = plugin
        self.made = None

    def take(self):
        if not self.made:
            self.made = Cluster(self.plugin)
        return self.made

    def reset(self):
        try:
            self.take().reset()
        except BaseException:
            self.destroy()
            raise

    def destroy(self):
        if self.made:
            made, self.made = self.made, None
            made.destroy()


class Cluster(Hosts):
    """Its hosts are `head` and `nodes`. It ends with the process that has made it."""

    own_processes = (*Hosts.own_processes, "munged ", "slurmctld", ": slurmscriptd", "slurmd ")

    def __init__(self, plugin="", nodes=5, processors=4):
        """plugin: the library of Belay's; slurmd looks at its beginning whether a plugin wants to know of the ends of jobs."""
        self.plugin = plugin
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.processors = processors
        self.groups = groups.Groups()
        super().__init__(HEAD, *self.nodes)
        try:
            for name in (HEAD, *self.nodes):
                self._start_daemons(name)
            self.wait_idle()
        except BaseException:
            self.destroy()
            raise

    # ---- its hosts ----

    def _prepare(self, name):
        if not os.path.exists(self.path("etc")):
            self._configure()
        self.groups.make(name)
        binds = {"etc/slurm": "/etc/slurm", "etc/passwd": "/etc/passwd", "etc/group": "/etc/group"}
        mounts = [f"mount --bind {self.path(own)} {path}" for own, path in binds.items()]
        return "\n".join([super()._prepare(name), *mounts, *self.groups.mounts()])

    def _join_groups(self, name):
        self.groups.join(name)

    def crash(self, name, is_silent=False):
        super().crash(name, is_silent)
        self.groups.remove(name)

    def destroy(self):
        super().destroy()
        self.groups.destroy()

    def _configure(self):
        os.chmod(self.shared, 0o755)
        for folder in ("etc/slurm", "log", "state", "home"):
            os.makedirs(self.path(folder))
        self._write_settings({})
        self.write("etc/slurm/mpi.conf", MPI_CONF)
        self.write("etc/slurm/cgroup.conf", CGROUP_CONF)
        self.plug_in()
        for name, row in (("passwd", "{user}:x:{uid}:{uid}::{home}:/bin/sh\n"), ("group", "{user}:x:{uid}:\n")):
            with open(f"/etc/{name}", encoding="utf-8") as file:
                rows = file.read()
            for user, uid in USERS.items():
                rows += row.format(user=user, uid=uid, home=self.home(user))
            self.write(f"etc/{name}", rows)
        for user, uid in USERS.items():
            os.mkdir(self.home(user), 0o755)
            os.chown(self.home(user), uid, uid)
        with open(self.path("munge.key"), "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(128))
        shutil.chown(self.path("munge.key"), "munge", "munge")

    def plug_in(self, *words):
        """Slurm has the plugin, with these words behind it."""
        self.write("etc/slurm/plugstack.conf", f"{' '.join(('required', self.plugin, *words))}\n" if self.plugin else "")

    def plug_out(self):
        """Slurm has no plugin."""
        self.write("etc/slurm/plugstack.conf", "")

    def _write_settings(self, settings):
        text = SLURM_CONF.format(head=f"{HEAD}({self.address(HEAD)})", shared=self.shared, nodes=f"n[1-{len(self.nodes)}]",
                                 processors=self.processors, track="cgroup" if self.groups.are_there() else "linuxproc")
        for name, value in settings.items():
            text = re.sub(f"^{name}=.*\n", "", text, flags=re.MULTILINE) + f"{name}={value}\n"
        self.write("etc/slurm/slurm.conf", text)
        self.settings = settings

    def configure(self, **settings):
        """Settings of slurm.conf that are others until reset()."""
        self._write_settings(settings)
        self.slurm("scontrol", "reconfigure")

    def _start_daemons(self, name):
        daemon = ["slurmctld"] if name == HEAD else ["slurmd", "-N", name]
        said(self.on(name, "sh", "-c", DAEMONS, "daemons", self.shared, *daemon))

    def boot(self, name):
        super().boot(name)
        self._start_daemons(name)

    def lose(self, name):
        """The node loses its power: its processes end and its memory is gone, and nobody hears a word of it."""
        self.crash(name, is_silent=True)

    def declare_lost(self, name):
        """The administrator, or the site's watchdog, tells Slurm so."""
        self.slurm("scontrol", "update", f"nodename={name}", "state=down", "reason=lost")

    def restart(self, name, daemon):
        """`slurmctld`, `slurmd` or `munged` of this host ends, and another one begins. Steps and their tasks run on."""
        begin = {"slurmctld": ["slurmctld"], "slurmd": ["slurmd", "-N", name], "munged": ["sh", "-c", MUNGED, daemon, self.shared]}
        said(self.on(name, "pkill", "-x", daemon))
        wait_for(lambda: daemon not in self._names(name), READY_S, f"the end of {daemon} on {name}")
        said(self.on(name, *begin[daemon]))

    def _names(self, name):
        return said(self.on(name, "ps", "-eo", "comm=")).split()

    # ---- files ----

    def path(self, name):
        """Of a file in the folder that all hosts share."""
        return os.path.join(self.shared, name)

    def home(self, user):
        return self.path(os.path.join("home", user))

    def write(self, name, text):
        """A file of the shared folder; those of etc/slurm are the cluster's configuration."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def log(self, daemon):
        """What slurmctld, or slurmd-NODE, has written."""
        with open(self.path(f"log/{daemon}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    # ---- commands ----

    def on_as(self, user, name, *command):
        """The words that run a command on a host as one of the users."""
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", f"HOME={self.home(user)}", f"USER={user}",
                  f"LOGNAME={user}"]
        return self.on(name, *become, *command)

    def slurm(self, *command):
        """The standard output of a command of the administrator's, run on the head."""
        return said(self.on(HEAD, *command))

    # ---- its state ----

    def states(self):
        """What Slurm says of each node: {"n1": "idle"}; a node that does not answer has a * behind it."""
        return dict(row.split() for row in self.slurm("sinfo", "-h", "-N", "-o", "%N %T").splitlines())

    def wait_idle(self):
        """Until all nodes answer and have no job."""
        try:
            wait_for(self._is_idle, READY_S, "idle nodes")
        except AssertionError:
            print(self.told())
            raise

    def _is_idle(self):
        done = run(self.on(HEAD, "sinfo", "-h", "-N", "-o", "%N %T"), READY_S, text=True)
        states = sorted(done.stdout.splitlines())
        # Slurm gives such a node no more jobs: something has failed there, and waiting does not help.
        assert not [state for state in states if " drain" in state], f"drained: {states}"
        return states == [f"{name} idle" for name in self.nodes]

    def told(self):
        """What Slurm and its daemons tell of their state, for whoever has to find out why a node is not idle."""
        parts = []
        for command in (("sinfo", "-N", "-l"), ("sinfo", "-R"), ("squeue", "-l"), ("squeue", "-s")):
            done = run(self.on(HEAD, *command), READY_S, text=True)
            parts.append(f"---- {' '.join(command)}\n{done.stdout}{done.stderr}")
        parts.append(f"---- slurmctld.log\n{self.log('slurmctld')[-TOLD_CHARACTERS:]}")
        for name in self.nodes:
            if name in self.first:
                rows = run(self.on(name, "ps", "-ww", "-eo", "pid,ppid,user:12,stat,wchan:24,etimes,args"), READY_S, text=True).stdout
                parts.append(f"---- processes of {name}\n{rows}")
            parts.append(f"---- slurmd-{name}.log\n{self.log(f'slurmd-{name}')[-TOLD_CHARACTERS:]}")
        return "\n".join(parts)

    def in_groups(self, name):
        """The processes of a node: what they run, and in which group of the freezer they are."""
        script = 'for p in $(ps -eo pid=); do a=$(tr "\\0" " " </proc/$p/cmdline) && echo "$(grep freezer: /proc/$p/cgroup)|$a"; done'
        rows = [row.split("|", 1) for row in run(self.on(name, "sh", "-c", script), READY_S, text=True).stdout.splitlines()]
        return [(command, group.split(":")[-1]) for group, command in rows if command.strip()]

    def jobs(self):
        """The numbers of jobs that wait, run or complete."""
        return self.slurm("squeue", "-h", "-o", "%A").split()

    def steps(self, job):
        """The names of a job's steps that Slurm knows of."""
        return self.slurm("squeue", "-h", "-s", "-j", str(job), "-o", "%i").split()

    def reset(self):
        """As it was at first: no jobs, and all nodes are there."""
        if self.settings:
            self.configure()
        jobs = self.jobs()
        if jobs:
            self.slurm("scancel", *jobs)
        for name in self.nodes:
            if name in self.first:
                self.plug(name)
                continue
            # Otherwise Slurm asks it about a job that completes once in a minute.
            self.declare_lost(name)
            self.boot(name)
        self.wait_idle()
