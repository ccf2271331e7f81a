"""Programs that a user would recognise, and what NAS CG and FT do, lose a node with --restore demand: a rank goes on on the spare
before a tenth of its image is there. A line is asked for meanwhile, another node is lost, and the job goes on from that line."""

import os

import pytest

from belaytest import assert_same_result
from nodes import homes, kill_node, on_nodes
from programs import PACE, melt, science
from test_demand import COME, loading
from test_demand_lines import SCHEMES, WAITS
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("restores_on_demand")

MOVED, SPARE, SECOND = 1, 4, 2  # nodes; ranks have the numbers of theirs
# The rank has waited for ten pages before anything else comes, and all comes so slowly that a line can be taken meanwhile.
FAULT = f"agent.load.others@{MOVED}#0-10=error,fabric.rate@{SPARE}=rate:10000"
HOSTS = "abcde"
SLOW_S = 120  # an image at that rate, and its copy

PROGRAMS = {
    "heat": lambda programs: programs.heat(side=2000, steps=300, snapshot_every=150),
    "lammps": lambda _: melt("-var", "side", "32", "-var", "steps", "60"),
    "numpy": lambda _: science(steps=100, table_mib=64),
    "cg": lambda programs: programs.test_program("kernels", "--mode", "cg", "--value", 32, "--steps", 40),
    "ft": lambda programs: programs.test_program("kernels", "--mode", "ft", "--value", 32, "--steps", 10),
}


class Local:
    """On nodes of this machine."""

    def __init__(self, sandbox, program, options, **more):
        self.sandbox = sandbox
        self.job = sandbox.run(program, options=[*on_nodes(4), *options], **more)

    def log(self):
        with open(os.path.join(self.sandbox.rundir, f"node-{SPARE}", "agent.log"), encoding="utf-8") as log:
            return log.read()

    def lose(self, number):
        kill_node(self.sandbox, self.job, number)


class OnHosts:
    """On hosts of namespaces, whose environment has the fault as well."""

    def __init__(self, sandbox, program, **more):
        self.hosts = sandbox.hosts
        line = ["mpirun", "-n", "4", "--host", ",".join(f"{name}:1" for name in HOSTS), "-x", PACE, *program.argv]
        self.job = sandbox.run(program, line=line, **more)

    def log(self):
        host = HOSTS[SPARE]
        return "".join(self.hosts.read(host, path) for path in self.hosts.files(host, "/run/belay") if path.endswith("agent.log"))

    def lose(self, number):
        self.hosts.crash(HOSTS[number])


def wait_begun(job):
    """The program has made two steps, or LAMMPS has written where its atoms are at first."""
    if job.trace_path:
        job.wait_step(2)
    else:
        path = job.path("melt.atoms")
        wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 0, 60, path)


def begin(sandbox, place, program, scheme):
    """A job of which line 1 is committed, in the middle of what it does."""
    options = ["--redundancy", scheme, "--spares", "1", "--restore", "demand"]
    nodes = place(sandbox, program, options=options, interval=None, trace=program.name != "lmp", BELAY_FAULT=FAULT)
    wait_begun(nodes.job)
    assert sandbox.belay("checkpoint", "job", timeout=SLOW_S).returncode == 0
    return nodes


def go_on(sandbox, place, name, programs, scheme):
    nodes = begin(sandbox, place, PROGRAMS[name](programs), scheme)
    job = nodes.job
    nodes.lose(MOVED)
    status = job.wait_epoch(2, 60)
    assert homes(status) == [0, SPARE, 2, 3] and loading(status)
    assert sandbox.belay("checkpoint", "job", timeout=SLOW_S).returncode == 0
    log = nodes.log()
    come = COME.search(log)
    # What a program touches in each step has to come before it can be stopped: then all of it may be there.
    assert name != "numpy" or log.index(WAITS) < come.start()
    size, first, _ = map(int, come.groups()[2:])
    assert first < size / (5 if name == "lammps" else 10)  # whose many libraries have small areas, which are copied
    assert job.status()["newest_line"] == 2
    nodes.lose(SECOND)
    status = job.wait_epoch(3, 60)
    assert status["history"][-1]["restored_line"] == 2 and status["restarts_from_start"] == 0
    job.finish(SLOW_S)
    assert_same_result(job)


@pytest.mark.campaign
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_local_nodes(sandbox, programs, scheme, name):
    go_on(sandbox, Local, name, programs, scheme)
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.hosts(*HOSTS)
@pytest.mark.parametrize("hosts", [{"variables": {name: {"BELAY_FAULT": FAULT} for name in HOSTS}}], indirect=True, ids=["slow"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_hosts(sandbox, programs, hosts, scheme, name):
    go_on(sandbox, OnHosts, name, programs, scheme)
