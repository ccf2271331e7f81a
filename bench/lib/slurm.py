"""Steps and jobs on a Slurm cluster of namespaces (tests/lib/cluster.py): what the plugin costs at the start, and how long the loss of a
node takes until the program goes on. As root."""

import io
import os
import re
import subprocess
import tempfile
import time
from contextlib import contextmanager, redirect_stdout

import cluster as clusters
from cluster_job import ClusterSandbox
from environment import BenchError
from programs import PACE, Programs
from report import Result
from waiting import wait_for

RANKS = 4  # one on each of four nodes
SRUN = ("srun", "--mpi=pmix", f"-N{RANKS}", f"-n{RANKS}")
FIRST = "n1"  # has srun, belay run and rank 0
VICTIM = "n3"
STEP_MS = 5
LINE_S = 0.5
LEASE = "2500ms"  # how long ranks of a silent node may run on; belay run waits for its end
WAIT_S = 120
START_MS = 300  # more, with lines asked for
LOSS_MS = 4000  # from the loss of power to a new step, less the start of such a launch
REQUEUE_MS = 2000  # from the script's srun to a new step, less the same


@contextmanager
def _cluster(environment):
    """A cluster with the plugin, and an ordinary user's folder on it; Slurm's own daemons have nothing else to do."""
    if clusters.lacking():
        raise BenchError(f"there is no Slurm cluster here: {clusters.lacking()}")
    plugin = os.path.join(environment.prefix, "lib", "belay", "spank_belay.so")
    if not os.path.exists(plugin):
        raise BenchError(f"{plugin} is not there: configure has not found slurm/spank.h (libslurm-dev)")
    made = clusters.Cluster(plugin)
    try:
        with tempfile.TemporaryDirectory(prefix="belay-bench-") as folder:
            box = ClusterSandbox(environment.prefix, Programs(environment.prefix, environment.build, folder), made)
            box.environment.pop(PACE, None)  # its steps take as long as --seconds says
            try:
                yield made, box
            finally:
                with redirect_stdout(io.StringIO()):  # it prints what agents have written
                    box.destroy()
    finally:
        made.destroy()


def _program(environment, steps, *more):
    """A ring of messages with a step of STEP_MS."""
    path = os.path.join(environment.build, "tests", "programs", "ring")
    if not os.access(path, os.X_OK):
        raise BenchError(f"{path} is not there: make has not been run in {environment.build}")
    return [path, "--steps", str(steps), "--seconds", str(steps * STEP_MS / 1000), *more]


def _said(box, *words):
    done = box.execute(*words, deadline_s=WAIT_S)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def _step_ms(box, program, *options):
    """A whole step of a few moments."""
    begin = time.monotonic()
    _said(box, *SRUN, *options, *program)
    return (time.monotonic() - begin) * 1e3


def _pairs(count, baseline, ours):
    """The order alternates."""
    found = []
    for i in range(count):
        values = {}
        for name in (("base", "ours") if i % 2 == 0 else ("ours", "base")):
            values[name] = (baseline if name == "base" else ours)()
        found.append((values["base"], values["ours"]))
    return found


def measure_idle_plugin(environment, pairs):
    """A step of which nothing is asked, with the plugin and without."""
    with _cluster(environment) as (made, box):
        program = _program(environment, 2)

        def of_plugin(is_there):
            (made.plug_in if is_there else made.plug_out)()
            return _step_ms(box, program)

        for is_there in (False, True):
            of_plugin(is_there)
        return [Result("slurm-idle-plugin", "step", "ms", _pairs(pairs, lambda: of_plugin(False), lambda: of_plugin(True)))]


def measure_start(environment, pairs):
    """A step for which lines are asked, and one for which they are not."""
    with _cluster(environment) as (_, box):
        program = _program(environment, 2)
        _step_ms(box, program, "--checkpoint-interval=1h")
        found = _pairs(pairs, lambda: _step_ms(box, program), lambda: _step_ms(box, program, "--checkpoint-interval=1h"))
    more = [(base, max(ours - base, 0)) for base, ours in found]
    return [Result("slurm-start", "step", "ms", found), Result("slurm-start", "more", "ms", more, START_MS, is_absolute=True)]


# ---- the loss of a node ----

class Trace:
    """The steps of rank 0, which the program writes to a file that all nodes share: by CLOCK_MONOTONIC, which they share, too."""

    def __init__(self, box):
        handle, self.path = tempfile.mkstemp(prefix="trace-", dir=box.folder)
        os.close(handle)
        box.own(self.path)

    def rows(self):
        """(process id, step, seconds)"""
        with open(self.path, encoding="ascii") as file:
            lines = [line.split() for line in file.read().splitlines(keepends=True) if line.endswith("\n")]
        return [(int(line[0]), int(line[1]), float(line[2])) for line in lines if len(line) == 3]

    def wait_first(self, after_s=0.0, other_than=None):
        """The time of the first step after a time, of a process that is not this one."""

        def look():
            return next((row for row in self.rows() if row[2] > after_s and row[0] != other_than), None)

        return wait_for(look, WAIT_S, "a step")

    def last_process(self):
        return self.rows()[-1][0]


def _native_ms(environment, box):
    """Of such a launch without Belay, until its first step."""
    trace = Trace(box)
    begin = time.monotonic()
    _said(box, *SRUN, *_program(environment, 2, "--trace", trace.path))
    return (trace.wait_first()[2] - begin) * 1e3


def _wait_lines(box, name):
    """Until there are committed lines of a job of this name (a pattern)."""

    def look():
        rows = re.findall(r'"job": "([^"]+)"', box.execute(box.command, "list", "--json").stdout)
        for job in rows:
            shown = box.execute(box.command, "status", job, "--json").stdout
            if re.fullmatch(name, job) and shown.count('"committed"') >= 2:
                return True
        return False

    wait_for(look, WAIT_S, f"lines of {name}")


def measure_slurm_loss(environment, pairs):
    """belay run -- srun with a spare node: from the loss of a node's power until the program makes a step elsewhere."""
    whole, beyond = [], []
    with _cluster(environment) as (made, box):
        made.configure(SlurmdTimeout=300)  # Slurm sees nothing of it
        for _ in range(pairs):
            native_ms = _native_ms(environment, box)
            trace = Trace(box)
            line = ["salloc", "-Q", "-N5", "-n5", "-w", FIRST, "--no-kill", box.command, "run", "--name", "loss", "--interval",
                    f"{int(LINE_S * 1000)}ms", "--spares", "1", "--lease", LEASE, "--", *SRUN,
                    *_program(environment, 10**6, "--trace", trace.path)]
            with subprocess.Popen(made.on_as(box.name, FIRST, *line), cwd=box.folder, env=box.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                _wait_lines(box, "loss")
                former, begin = trace.last_process(), time.monotonic()
                made.lose(VICTIM)
                step_ms = (trace.wait_first(begin, former)[2] - begin) * 1e3
                box.execute(box.command, "stop", "loss")
                process.wait(WAIT_S)
            whole.append((native_ms, step_ms))
            beyond.append((native_ms, max(step_ms - native_ms, 0)))
            box.execute(box.command, "clean")
            made.reset()
            made.configure(SlurmdTimeout=300)
    return [Result("slurm-loss", "whole", "ms", whole), Result("slurm-loss", "more", "ms", beyond, LOSS_MS, is_absolute=True)]


def measure_slurm_requeue(environment, pairs):
    """sbatch --requeue, a node is lost, and Slurm is told: Slurm's own time, and then the time from the script's srun to a step."""
    slurms, beyond = [], []
    with _cluster(environment) as (made, box):
        for _ in range(pairs):
            native_ms = _native_ms(environment, box)
            trace = Trace(box)
            words = " ".join([*SRUN, *_program(environment, 10**6, "--trace", trace.path)])
            begins = f"{trace.path}.begins"
            _, number = box.submit(f"cut -d' ' -f1 /proc/uptime >> {begins}\n{words}", f"--checkpoint-interval={int(LINE_S * 1000)}ms",
                                   "--requeue", f"-N{RANKS}", f"-n{RANKS}", "-w", FIRST)
            _wait_lines(box, rf"{number}\.0-.*")
            former, begin = trace.last_process(), time.monotonic()
            made.lose(VICTIM)
            made.declare_lost(VICTIM)
            step_s = trace.wait_first(begin, former)[2]
            with open(begins, encoding="ascii") as file:
                begun_s = [float(line) for line in file.read().split()]
            if len(begun_s) != 2:
                raise BenchError(f"the script has run {len(begun_s)} times, not twice")
            slurms.append((native_ms, (begun_s[1] - begin) * 1e3))
            beyond.append((native_ms, max((step_s - begun_s[1]) * 1e3 - native_ms, 0)))
            made.slurm("scancel", str(number))
            box.wait_end(number)
            made.reset()
    return [Result("slurm-requeue", "Slurm", "ms", slurms),
            Result("slurm-requeue", "more", "ms", beyond, REQUEUE_MS, is_absolute=True)]
