"""Hosts for tests: each has processes, a network, a name, /tmp, /dev/shm and IPC objects of its own, on one machine.

A host is a set of namespaces whose first process waits; a bridge in a network namespace of its own joins the hosts, so
nothing of the machine's own network is touched. Open MPI starts its daemons there through HOSTS.rsh, in place of ssh.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile

import traces
from waiting import wait_for

RSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rsh.py")
NETWORK = "10.91.0"
# Of the first process of a host: its name, its socket, the file of all hosts' names, rsh.py, the size of /run, and commands.
FIRST = """
set -e
hostname "$1"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=0755,size="$5" run /run
mount --bind "$3" /etc/hosts
eval "$6"
ip link set lo up
exec /usr/bin/python3 "$4" serve "$2"
"""


def lacking():
    """Why no hosts can be made here; '' if they can."""
    if os.geteuid() != 0:
        return "hosts of namespaces need root"
    for tool in ("unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            return f"hosts need {tool}"
    tried = subprocess.run(["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--time", "--fork", "mount", "-t", "proc", "proc",
                            "/proc"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces cannot be made here: {tried.stderr.strip()}"


class Hosts:
    """Hosts by name, all on one network. They end with the process that has made them. Folders below `shared` are the same on all of them.

    What differs between them, by their names: `clocks` are seconds by which CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead,
    `run_sizes` how large /run is, where agents have their records, `touched` are files that are copies there, with
    another time of change, `variables` are in the environment of all that runs there.
    """

    own_processes = (f"/usr/bin/python3 {RSH} serve", "ps -eo")  # how the command lines of a host's first ones begin

    def __init__(self, *names, clocks=None, run_sizes=None, touched=None, variables=None):
        self.clocks, self.run_sizes, self.touched, self.variables = clocks or {}, run_sizes or {}, touched or {}, variables or {}
        # Not below /tmp, which each host has for itself.
        self.shared = tempfile.mkdtemp(prefix="belay-hosts-", dir="/var/tmp")
        self.rsh = f"{RSH} {self.shared}"  # for Open MPI
        self.starting = {}  # of each host that begins: the process that waits for its end
        self.first = {}  # of each host that runs: that, and its first process
        self.numbers = {name: number for number, name in enumerate(names, 1)}
        self.names = os.path.join(self.shared, "names")
        with open(self.names, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{self.address(name)} {name}\n" for name in names)
        self.bridge = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)  # its namespace has the bridge
        wait_for(lambda: os.readlink(f"/proc/{self.bridge.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 10, "a network")
        self._ip(self.bridge.pid, "link", "add", "br0", "type", "bridge")
        self._ip(self.bridge.pid, "link", "set", "br0", "up")
        for name in names:
            self._start(name)
        for name in names:
            self._connect(name)

    def address(self, name):
        return f"{NETWORK}.{self.numbers[name]}"

    @staticmethod
    def _ip(pid, *words):
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words], check=True, stdout=subprocess.DEVNULL)

    def boot(self, name):
        """The host begins, with empty memory."""
        self._start(name)
        self._connect(name)

    def _start(self, name):
        path = os.path.join(self.shared, f"{name}.rsh")
        ahead = str(self.clocks.get(name, 0))
        clock = ["--time", "--monotonic", ahead, "--boottime", ahead]
        unshare = subprocess.Popen(["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", *clock, "--fork", "sh", "-c",
                                    FIRST, "host", name, path, self.names, RSH, self.run_sizes.get(name, "50%"), self._prepare(name)],
                                   env={**os.environ, "TMPDIR": "/tmp", **self.variables.get(name, {})}, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: self._join_groups(name))
        self.starting[name] = unshare

    def _connect(self, name):
        """Once the host has begun, it gets its cable."""
        unshare = self.starting.pop(name)
        wait_for(lambda: os.path.exists(os.path.join(self.shared, f"{name}.rsh")), 10, f"host {name}")
        pid = next(iter(traces.children_of(unshare.pid)))
        self.first[name] = (unshare, pid)
        self._ip(self.bridge.pid, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "address",
                 f"02:00:00:00:01:{self.numbers[name]:02x}", "netns", str(pid))  # the same one after the next boot
        self._ip(self.bridge.pid, "link", "set", f"to-{name}", "master", "br0", "up")
        self._ip(pid, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        self._ip(pid, "link", "set", "eth0", "up")

    def _join_groups(self, name):
        """In the process that becomes the host's first one: join control groups, which are the root of the host's own ones."""

    def _prepare(self, name):
        """Commands that the host begins with: they put copies in the places of files."""
        commands = []
        for number, path in enumerate(self.touched.get(name, ())):
            copy = os.path.join(self.shared, f"{name}.{number}")
            shutil.copy(path, copy)
            os.utime(copy, (0, 10**9))
            commands.append(f"mount --bind {shlex.quote(copy)} {shlex.quote(os.path.realpath(path))}")
        return "\n".join(commands)

    def unplug(self, name):
        """The host's cable is cut: it runs on, and nobody hears of it, nor it of anybody."""
        self._ip(self.bridge.pid, "link", "set", f"to-{name}", "down")

    def cut(self, *names):
        """Two hosts do not reach each other any more; others reach both. Packets for the other one go to nobody's card."""
        for name, other in zip(names, reversed(names)):
            self._ip(self.first[name][1], "neigh", "replace", self.address(other), "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                     "nud", "permanent")

    def mend(self, *names):
        """They reach each other again. No-op for a host that has ended meanwhile, or has begun anew."""
        for name, other in zip(names, reversed(names)):
            if name in self.first:
                subprocess.run(["nsenter", "-t", str(self.first[name][1]), "-n", "ip", "neigh", "delete", self.address(other), "dev", "eth0"],
                               check=False, stderr=subprocess.DEVNULL)

    def plug(self, name):
        """The cable is whole again. No-op if the host has ended meanwhile."""
        if name in self.first:
            self._ip(self.bridge.pid, "link", "set", f"to-{name}", "up")

    def crash(self, name, is_silent=False):
        """All its processes end at once, and its memory is gone. is_silent: its connections end without a word."""
        unshare, pid = self.first.pop(name)
        if is_silent:
            self.unplug(name)
        os.unlink(os.path.join(self.shared, f"{name}.rsh"))
        os.kill(pid, signal.SIGKILL)
        unshare.wait()
        # It goes with the host, unless connections that wait for an answer keep it.
        subprocess.run(["nsenter", "-t", str(self.bridge.pid), "-n", "ip", "link", "delete", f"to-{name}"], check=False,
                       stderr=subprocess.DEVNULL)

    def on(self, name, *command):
        """The words that run a command on a host, in the folder of the one who runs it."""
        enter = 'pid=$1; shift; exec nsenter -t "$pid" -m -u -i -n -p -C -T --wd="$PWD" -- "$@"'
        return ["sh", "-c", enter, "on", str(self.first[name][1]), *command]

    def environment(self):
        """For Open MPI on these hosts."""
        network = f"{NETWORK}.0/24"
        return {"OMPI_MCA_plm_rsh_agent": self.rsh, "OMPI_MCA_btl_tcp_if_include": network,
                "OMPI_MCA_oob_tcp_if_include": network}

    def processes(self, name):
        """The command lines of a host's processes but for its first ones, by their process ids there."""
        done = subprocess.run(self.on(name, "ps", "-eo", "pid=,args="), capture_output=True, text=True, check=True)
        rows = [line.split(None, 1) for line in done.stdout.splitlines()]
        return {int(pid): command for pid, command in rows if not command.startswith(self.own_processes)}

    def files(self, name, folder):
        """The paths of all files below a folder of the host."""
        done = subprocess.run(self.on(name, "find", folder, "!", "-type", "d"), capture_output=True, text=True, check=False)
        return done.stdout.split()

    def read(self, name, path):
        return subprocess.run(self.on(name, "cat", path), capture_output=True, text=True, errors="replace", check=False).stdout

    def destroy(self):
        for name in list(self.first):
            self.crash(name)
        self.bridge.kill()
        self.bridge.wait()
        shutil.rmtree(self.shared)
