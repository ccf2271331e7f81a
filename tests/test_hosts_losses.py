"""A host is lost where one of its processes passes a named fault point of a line or of a restart (docs/faults.md). As
tests/test_node_losses.py, which has all points, on local nodes: here the host's memory, network and processes are gone as well."""

import contextlib
import os
import signal
import subprocess

import pytest

from belaytest import newest_line, without_launcher
from node_losses import AT_A_LINE, AT_A_RESTART, LINE, POINTS
from nodes import homes, states, workload
from programs import PACE
from test_hosts_elsewhere import LEASE, line_on
from waiting import wait_for

pytestmark = [pytest.mark.hosts("a", "b", "c"), pytest.mark.campaign, pytest.mark.limit(180)]

PLACES = "a:2,b:1,c:1"
LOST, OTHER = "b", "c"  # ranks 2 and 3 run there
HERE = [point for point, (_, way) in POINTS.items() if way in (AT_A_LINE, AT_A_RESTART) and point != "record.write"]
OF_THE_FIRST = [point for point in HERE if point.startswith("agent.") and POINTS[point][1] == AT_A_LINE]


class HostsLoss:
    """One run: the job, and how it gets to its point."""

    def __init__(self, sandbox, hosts, programs, point, lost=LOST, options=()):
        self.sandbox, self.hosts, self.kind = sandbox, hosts, point.split(".", maxsplit=1)[0]
        self.lost, self.options = lost, options
        self.program = workload(programs, seconds=6)
        narrowed, self.way = POINTS[point]
        self.fault = f"{point}{'@2' if self.kind == 'rank' else ''}{narrowed}=stop"
        self.job = None

    def run(self):
        """Whoever passes the point has the fault: the agent of the host, its rank, or `belay run`."""
        name = "BELAY_FAULT"
        is_of_agent = self.kind in ("agent", "fabric") and self.lost != "a"  # `belay run` starts that one
        line = ["mpirun", "--host", PLACES, "-x", PACE, *(["-x", name] if self.kind == "rank" else []), *self.program.argv]
        with self.sandbox.agent_on(self.lost, **{name: self.fault}) if is_of_agent else contextlib.nullcontext():
            self.job = self.sandbox.run(self.program, line=line, interval="200ms", options=self.options,
                                        **({} if is_of_agent else {name: self.fault}))
            wait_for(lambda: self.sandbox.status("job"), 30, "the job")

    def reach_point(self):
        """The newest line before."""
        line = 0
        if self.way.restarts:
            self.job.wait_lines()
            line = newest_line(self.job.status())
            self.job.kill_rank_on(OTHER, 3)
        host = "a" if self.kind == "arbiter" else self.lost
        wait_for(lambda: self.stopped_on(host), 40, f"{self.fault} on {host} in {self.job.errors}")
        return line

    def stopped_on(self, host):
        """Processes that stand still."""
        rows = subprocess.run(self.hosts.on(host, "ps", "-eo", "pid=,stat="), capture_output=True, text=True, check=True).stdout
        return [row[0] for row in map(str.split, rows.splitlines()) if row[1].startswith("T")]

    def let_go_on(self):
        """`belay run`, and ranks, which have their fault in each launch."""
        for host in self.hosts.first:
            pids = self.stopped_on(host)
            if pids:
                subprocess.run(self.hosts.on(host, "kill", "-CONT", *pids), check=False)
        os.kill(self.job.process.pid, signal.SIGCONT)  # nsenter, which stops with its child

    def wait_back(self):
        """The status once all ranks run without the host and a line is committed that is newer than what was restored."""
        def is_back(status):
            self.let_go_on()
            return status["state"] == "running" and status["epoch"] in self.job.pids and states(status)[1] == "lost" and \
                status["newest_line"] > status["history"][-1]["restored_line"]
        self.let_go_on()
        return self.job.wait_status(is_back, 60, "the job without the host")


@pytest.mark.parametrize("point", HERE)
def test_a_host_is_lost(sandbox, programs, hosts, point):
    loss = HostsLoss(sandbox, hosts, programs, point)
    loss.run()
    line = loss.reach_point()
    hosts.crash(LOST)
    status = loss.wait_back()
    assert status["history"][-1]["restored_line"] >= max(line, 1) and status["restarts_from_start"] == 0
    assert 1 not in homes(status)
    loss.job.finish()
    reference, result = programs.reference(loss.program), loss.job.result()
    assert (result.status, without_launcher(result.stdout)) == (reference.status, reference.stdout), loss.job.errors


@pytest.mark.parametrize("point", OF_THE_FIRST)
def test_the_first_host_is_lost(sandbox, programs, hosts, point):
    """With `belay run`, rank 0, and the coordinator of the line. The job goes on from another host."""
    loss = HostsLoss(sandbox, hosts, programs, point, "a", LEASE)
    loss.run()
    loss.reach_point()
    hosts.crash("a")
    job = loss.job
    job.process.kill()
    job.process.wait()
    sandbox.at = "b"
    shown = job.read("out")
    job.restart(line_on(job, "b:2,c:2"))
    status = job.wait_epoch(2, 60)
    assert status["history"][-1]["restored_line"] >= LINE - 1 >= 1
    assert sorted(set(homes(status))) == [0, 1]
    job.finish()
    reference, output = programs.reference(loss.program).stdout, without_launcher(job.read("out"))
    assert job.process.returncode == 0, job.errors
    assert output.startswith(shown) and reference.endswith(output[len(shown):]) and len(output) >= len(reference)
