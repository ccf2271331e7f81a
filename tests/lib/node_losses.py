"""A whole node is lost where one of its processes passes a named fault point: what brings each point about.

docs/faults.md lists the points. A process of the node (or `belay run`) stands still at its point, and then agent, keeper and
all ranks of the node are killed: its memory is gone.
"""

import os
import re
import signal
from dataclasses import dataclass, replace

import traces
from nodes import kill_node, on_nodes, run_with_agent, service_of, wait_back, wait_said, workload
from programs import TOP
from waiting import wait_for

LINE = 3  # the line amid which the node is lost; there are older ones then
HOMES = (0, 0, 1, 2)  # of four ranks on three nodes


@dataclass(frozen=True)
class Way:
    """How a job is brought to a point."""

    nodes: int = 3
    options: tuple = ()
    program: str = "ring"
    arguments: tuple = ()
    outputs: str = ""
    homes: tuple = HOMES  # of the ranks, until a node is lost
    restarts: bool = False  # a rank of another node is killed, and the point is passed in the restart
    first: int = -1  # a node that is lost before, with all its memory
    comes_back: bool = False  # and is there again before the restart
    targets: tuple = (0, 1)  # nodes that pass the point
    begins_anew: bool = False  # there is no line at that point
    # Local nodes share their files, and the first agent that comes puts back all: any may pass the point, and its node is
    # lost. Lines are taken by belay checkpoint only, and the ranks have changed files since the newest one.
    has_changes: bool = False


AT_A_LINE = Way()
OF_PARITY = Way(nodes=4, options=("--redundancy", "XOR"))
AT_A_RESTART = Way(restarts=True)
AT_THE_START = Way(begins_anew=True)
OF_FILES = Way(restarts=True, program="files", arguments=("--mode", "rewrite"), outputs="data-*", targets=(0,), has_changes=True)
OF_LINKS = replace(OF_FILES, arguments=("--mode", "rename"))  # those that were removed are made anew
OF_HOT_MEMORY = Way(program="mem_dirty", arguments=("--mode", "hot", "--value", 6))  # so that each line protects some
OF_SHARED = Way(restarts=True, program="kin", homes=(0, 0, 1, 1, 2, 2))  # neighbours share memory
# The spare, node 2, fetches what node 0 had.
BY_A_SPARE = Way(nodes=2, options=("--spares", "1"), first=0, targets=(2,))
# Node 1, which was lost, is there again: it fetches its part of the ranks from others.
FOR_ONE_THAT_IS_BACK = Way(options=("--comeback", "300ms"), first=1, comes_back=True, restarts=True, targets=(0, 2))
# Two of the three nodes that are left give their shares, and the third makes the image.
OF_A_REBUILD = Way(nodes=4, options=("--redundancy", "RS:2+2"), first=0, targets=(1, 2))
AT_ITS_HOME = replace(OF_A_REBUILD, targets=(3,))

# Of each point: how it is narrowed, and how a job gets there.
EPOCH, ANY = "#2", ""
AT = f"#{LINE}"
POINTS = {
    **{f"arbiter.epoch.{step}": (EPOCH, AT_A_RESTART) for step in ("answered", "recorded", "told", "entered")},
    "arbiter.epoch.placed": ("#1", AT_THE_START),
    **{f"agent.epoch.{step}": (EPOCH, AT_A_RESTART) for step in ("promised", "told", "entered")},
    "agent.epoch.placed": ("#1", AT_THE_START),
    "record.write": ("#3", AT_A_RESTART),  # of `belay run`: an epoch, where its ranks are, the next epoch
    **{f"agent.{step}": (AT, AT_A_LINE) for step in (
        "prepare", "strobe", "drain", "capture", "captured", "mirror.send", "mirror.taken", "protected", "commit.before",
        "commit.recorded", "commit.after", "apply", "apply.pages", "apply.done", "apply.kept")},
    "agent.guarded": (AT, replace(OF_HOT_MEMORY, options=("--policy", "cow"))),
    "agent.pool.put": (AT, replace(OF_HOT_MEMORY, options=("--policy", "cll"))),
    **{f"agent.parity.{step}": (AT, OF_PARITY) for step in ("send", "folded", "kept")},
    "agent.scrub": (AT, Way(options=("--scrub-interval", "50ms"))),
    **{f"agent.image.{step}": (ANY, AT_A_RESTART) for step in ("check", "root")},
    **{f"agent.fetch.{step}": (ANY, BY_A_SPARE) for step in ("ask", "taken", "kept")},
    "agent.fetch.send": (ANY, FOR_ONE_THAT_IS_BACK),
    "agent.rebuild.give": (ANY, OF_A_REBUILD),
    "agent.rebuild.made": (ANY, AT_ITS_HOME),
    **{f"agent.undo.{step}": (ANY, OF_FILES) for step in ("begin", "end", "forget", "forgotten")},
    **{f"agent.undo.{step}": ("#1", OF_FILES) for step in ("step", "stepped")},
    "agent.undo.replace": ("#1-8", OF_LINKS),
    **{f"agent.{step}": (ANY, OF_SHARED) for step in ("renew", "renewed")},
    "fabric.frame": ("#200", AT_A_LINE),
    "fabric.chunk": ("#60", AT_A_LINE),  # the first line has fewer
    **{f"rank.{step}": (AT, AT_A_LINE) for step in ("drain", "drain.counts", "drain.message", "note", "park", "resume")},
    "rank.restore": (ANY, AT_A_RESTART),
}
# The steps at which parity is folded and committed, each under both codes.
OF_THE_FOLD = tuple(f"agent.{step}" for step in (
    "captured", "parity.send", "parity.folded", "parity.kept", "mirror.send", "mirror.taken", "protected", "commit.before",
    "commit.recorded", "commit.after", "apply", "apply.pages", "apply.done", "apply.kept"))
CODES = ("XOR", "RS:2+2")
# No step of these at which a node could be lost, or one that is in the table already.
LEFT_OUT = {
    "agent.processor": "what a node answers, before it has promised",
    "agent.memory": "the same",
    "agent.reopen": "of an agent in the place of a lost one: test_nodes.py",
    "agent.pool.full": "the same step as agent.pool.put",
    "agent.epoch.recorded": "without belay run, on hosts: test_hosts_preload.py",
    **{f"agent.load.{step}": "of images whose ranks run before they have come: test_demand.py"
       for step in ("ask", "others", "rest", "send", "fill", "touched", "taken", "write", "attach", "fault", "whole")},
    "rank.load.mapped": "the same",
    "agent.rebuild.lend": "of images that are made again while their ranks run: test_demand_parity.py",
    **{f"agent.archive.{step}": "of lines on disk: test_archive.py" for step in ("begin", "write", "part", "read")},
    "arbiter.archive.manifest": "the same",
    "agent.witness": "of tests alone: test_witness.py",
    "fabric.rate": "of a rate, not of a moment: bench/README.md",
    **{f"agent.refill.{step}": "of what is made again after a loss: test_reprotect.py"
       for step in ("send", "taken", "kept", "made", "swap", "swapped")},
    "agent.verify": "in `belay verify` alone, for which neither a line nor a restart waits",
    "fabric.loss": "the same step as fabric.frame",
    "fabric.late": "the same step as fabric.frame",
    "fabric.twice": "the same step as fabric.frame",
    "fabric.chunk.loss": "the same step as fabric.chunk",
    "rank.large": "in MPI_Init: how messages are drained",
}


def documented_points():
    with open(os.path.join(TOP, "docs", "faults.md"), encoding="utf-8") as file:
        return re.findall(r"^\| `([a-z.]+)` \|", file.read(), re.MULTILINE)


class Loss:
    """One run: the job, and what is known of it before the loss."""

    def __init__(self, sandbox, programs, point, number, code=None):
        self.sandbox, self.point, self.number = sandbox, point, number
        self.narrowed, self.way = POINTS[point]
        if code:
            self.way = replace(OF_PARITY, options=("--redundancy", code))
        self.program = self._program(programs)
        self.processes = set()  # of all ranks at the loss
        self.line = 0  # the newest one that has to be there
        self.job = self._run()

    def _program(self, programs):
        way = self.way
        if way.program == "ring":
            return workload(programs, seconds=6)
        found = programs.test_program(way.program, *way.arguments, "--steps", 600, "--seconds", 6, ranks=len(way.homes))
        return type(found)(found.argv, found.ranks, way.outputs)

    def _run(self):
        fault = f"{self.point}{self.narrowed}=stop"
        options = [*on_nodes(self.way.nodes), *self.way.options]
        if self.way.has_changes:
            return self.sandbox.run(self.program, interval=None, options=options, BELAY_FAULT=fault)
        if self._is_of("agent", "fabric"):
            return run_with_agent(self.sandbox, self.number, fault, self.program, interval="200ms", options=options)
        if self._is_of("rank"):
            fault = f"{self.point}@{self.way.homes.index(self.number)}{self.narrowed}=stop"
        return self.sandbox.run(self.program, interval="200ms", options=options, BELAY_FAULT=fault)

    def take_line(self):
        """Refused while a restart is under way."""
        if self.way.has_changes:
            self.sandbox.belay("checkpoint", self.job.name)

    def _is_of(self, *kinds):
        return self.point.split(".")[0] in kinds

    # ---- what brings the point about ----

    def reach_point(self):
        """Returns the process that stands still at it."""
        if not self.way.begins_anew and (self.way.restarts or self.way.first >= 0):
            self._lose_something()
        return wait_for(self._stopped, 40, f"{self.point} on node {self.number} in {self.job.errors}")

    def _lose_something(self):
        job, way = self.job, self.way
        if way.has_changes:
            self._change_files()
        else:
            job.wait_lines()
        if way.first >= 0:
            self._note_line()
            kill_node(self.sandbox, job, way.first)
        if way.comes_back:
            status = job.wait_epoch(2)
            wait_said(job, f"node {way.first} is there again: it is a spare")
            job.wait_status(lambda now: now["newest_line"] > status["newest_line"] + 1)
        if way.restarts:
            self._note_line()
            os.kill(job.pids[max(job.pids)][self._other_rank()], signal.SIGKILL)

    def _change_files(self):
        """There is a line, and all ranks have written since."""
        job = self.job
        job.wait_step(2)
        self.take_line()
        job.wait_committed(1)
        taken = max(step for _, step in job.steps())
        job.wait_step(taken + 3)

    def _other_rank(self):
        """The last one that is not on the node."""
        return max(rank for rank, home in enumerate(self.way.homes) if home != self.number)

    def _note_line(self):
        self.line = self.job.status()["newest_line"]

    def _candidates(self):
        if self._is_of("arbiter", "record"):
            return [self.job.process.pid]
        return self._ranks() if self._is_of("rank") else self._service()

    def _stopped(self):
        for number in range(self.way.nodes) if self.way.has_changes else ():
            found = [pid for pid in self._service(number) if traces.is_stopped(pid)]
            if found:
                self.number = number
                return found[0]
        return next((pid for pid in self._candidates() if traces.is_stopped(pid)), None)

    def _service(self, number=None):
        """The agent and the keeper; what is left of them."""
        try:
            return service_of(self.sandbox, self.number if number is None else number)
        except AssertionError:
            return ()

    def _ranks(self):
        """All that run on the node now, or begin to. Its agent may stand still, and nobody else tells."""
        found = self._processes_of_ranks()
        return [pid for pid, rank in found.items() if self.way.homes[rank] == self.number] if self.way.first < 0 else []

    def _processes_of_ranks(self):
        """{process: rank} of all that there are."""
        ranks = {pid: traces.variable_of(pid, "OMPI_COMM_WORLD_RANK") for pid in traces.processes_of(self.sandbox.rundir)}
        return {pid: int(rank) for pid, rank in ranks.items() if rank}

    # ---- the loss ----

    def lose(self, stopped):
        """All of the node at once; who stands still elsewhere goes on."""
        self.processes = set(self._processes_of_ranks())
        victims = [*self._service(), *self._ranks()]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        if stopped not in victims:
            os.kill(stopped, signal.SIGCONT)
        wait_for(lambda: not any(map(traces.is_alive, victims)), 20, "the end of the node")

    def let_go_on(self):
        """A rank has its fault in each launch, each agent has the one of files, and `belay run` passes a point once for each node."""
        ranks = self._processes_of_ranks() if self._is_of("rank") else ()
        agents = [pid for number in range(self.way.nodes) for pid in self._service(number)] if self.way.has_changes else ()
        for pid in [*ranks, *agents, self.job.process.pid]:
            if traces.is_stopped(pid):
                os.kill(pid, signal.SIGCONT)

    def wait_back(self):
        """The status once all ranks run without the node and a line is committed that is newer than what was restored."""
        def is_back(status):
            self.let_go_on()
            if status["state"] == "running":
                self.take_line()
            is_out = any(node["number"] == self.number and node["state"] in ("lost", "spare") for node in status["nodes"])
            return is_out and status["state"] == "running" and status["epoch"] in self.job.pids and \
                status["newest_line"] > status["history"][-1]["restored_line"]
        return self.job.wait_status(is_back, 60, f"the job without node {self.number}")
