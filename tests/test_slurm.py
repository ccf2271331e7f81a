"""Jobs on a Slurm cluster whose nodes are namespaces (lib/cluster.py), as an ordinary user."""

import dataclasses
import os
import re
import shutil
import subprocess

import pytest

from belaytest import assert_same_result, newest_line
from nodes import wait_back, workload
from programs import pickles
from waiting import wait_for

pytestmark = pytest.mark.cluster


def test_the_cluster_itself(sandbox, cluster):
    """A job of an ordinary user, a node that loses its power, and one that comes back."""
    done = sandbox.execute("srun", "-N4", "-n8", "--mpi=pmix", "sh", "-c", "echo $(id -un) $(hostname) > /tmp/$SLURM_PROCID; cat /tmp/[0-9]*")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {f"ann n{number}" for number in range(1, 5)}
    assert "/tmp/0" in cluster.files("n1", "/tmp")
    assert cluster.files("n5", "/tmp") == []
    for name in cluster.nodes:
        sandbox.execute("sh", "-c", "rm -f /tmp/[0-9]*", at=name)

    _, number = sandbox.submit("srun sleep 100; sleep 100", "--no-requeue", "-N2", "--exclude=n1,n2,n5")
    wait_for(lambda: f"{number}.0" in cluster.steps(number), 20, "a step")
    cluster.lose("n4")
    assert sandbox.wait_end(number)[0] == "NODE_FAIL"
    assert cluster.states()["n4"] == "down*"
    cluster.boot("n4")
    cluster.wait_idle()
    wait_for(lambda: cluster.processes("n4") == {}, 20, "the end of the epilog")


SRUN = ("srun", "--mpi=pmix")


def execute_on(cluster, name, *command):
    subprocess.run(cluster.on(name, *command), check=True)


def node_states(status):
    return {node["node"]: node["state"] for node in status["nodes"]}


def assert_went_on(job, losses):
    """The job has ended as an undisturbed one, and went on from a committed line after each loss, in new processes."""
    assert_same_result(job)
    history = job.status()["history"]
    assert len(history) >= losses + 1, history
    assert all(entry["restored_line"] >= 1 for entry in history[1:]), history
    seen = [pid for ranks in job.pids.values() for pid in ranks.values()]
    assert len(seen) == len(set(seen)) and len(job.pids) >= losses + 1


def test_srun_takes_lines(sandbox, programs):
    job = sandbox.allocate(workload(programs, ranks=8), [*SRUN, "-N4", "-n8"], ["-N4", "-n8", "-w", "n1"])
    status = job.wait_status(lambda status: newest_line(status) >= 2, 60, "line 2")
    assert sorted(node["node"] for node in status["nodes"]) == ["n1", "n2", "n3", "n4"]
    job.finish()
    assert_same_result(job)


@pytest.mark.parametrize("scheme", ["PARTNER", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("XOR", "RS:2+2"))])
def test_a_node_loses_its_power(sandbox, programs, cluster, scheme):
    """The ranks go on on the spare node, within the allocation, before Slurm has noticed."""
    program = workload(programs, ranks=4)
    job = sandbox.allocate(program, [*SRUN, "-N4", "-n4"], ["-N5", "-n5", "-w", "n1", "--no-kill"],
                           options=["--spares", "1", "--redundancy", scheme])
    line = job.kill_node("n3")
    status = job.wait_epoch(2, 60)
    assert status["history"][1]["restored_line"] >= line
    job.finish()
    assert_went_on(job, 1)


def test_three_nodes_in_a_row(sandbox, programs, cluster):
    """Each of them comes back as a spare, before Slurm has noticed anything."""
    cluster.configure(SlurmdTimeout=300)
    job = sandbox.allocate(workload(programs, ranks=4), [*SRUN, "-N4", "-n4"], ["-N5", "-n5", "-w", "n1", "--no-kill"],
                           options=["--spares", "1", "--comeback", "1s"])
    for epoch, name in enumerate(("n2", "n3", "n4"), 2):
        job.kill_node(name)
        job.wait_epoch(epoch, 60)
        cluster.boot(name)
        job.wait_status(lambda status, name=name: node_states(status).get(name) == "spare", 60, f"{name} again")
        wait_back(job, job.status()["history"][-1]["restored_line"])
    job.finish()
    assert_went_on(job, 3)


@pytest.mark.campaign
@pytest.mark.limit(200)
@pytest.mark.parametrize("what", ["step", "node"])
def test_a_silent_node_is_called_back(sandbox, programs, cluster, what):
    """A node alone holds what the job needs, and its processes stand still for longer than a lease, those of Slurm as well or not."""
    cluster.configure(SlurmdTimeout=300)
    job = sandbox.allocate(workload(programs, ranks=4), [*SRUN, "-N2", "-n4"], ["-N2", "-n4", "-w", "n1,n2", "--no-kill"],
                           options=["--redundancy", "SINGLE"])
    before = job.wait_status(lambda status: newest_line(status) >= 3, 60, "line 3")
    pids = list(map(str, cluster.processes("n2")))  # of the step: agent, keeper, relay, slurmstepd, ranks
    assert len(pids) >= 6
    if what == "node":
        pids += subprocess.run(cluster.on("n2", "pgrep", "-x", "slurmd"), capture_output=True, text=True, check=True).stdout.split()
    execute_on(cluster, "n2", "kill", "-STOP", *pids)
    wait_for(lambda: "node n2 may still hold what is missing" in job.errors or "host n2 may still hold what is missing" in job.errors, 60,
             "a call")
    subprocess.run(cluster.on("n2", "kill", "-CONT", *pids), check=False)  # some may have been ended
    status = job.wait_epoch(2, 90)
    assert "(n2) is there again, with what it holds" in job.errors
    assert status["history"][1]["restored_line"] >= newest_line(before)
    job.finish()
    assert_went_on(job, 1)


@pytest.mark.campaign
def test_slurm_takes_lost_nodes_away(sandbox, programs, cluster):
    """The allocation has shrunk by the time of the next loss. Slurm does not tell those who run in it."""
    job = sandbox.allocate(workload(programs, ranks=4), [*SRUN, "-N4", "-n4"], ["-N5", "-n5", "-w", "n1", "--no-kill"],
                           options=["--spares", "1", "--comeback", "0"])
    for epoch, name in enumerate(("n3", "n2"), 2):
        job.kill_node(name)
        wait_for(lambda name=name: cluster.states()[name].startswith("down"), 40, f"the end of {name}")
        job.wait_epoch(epoch, 60)
        job.wait_committed(job.status()["history"][-1]["restored_line"] + 2, 60)
    job.finish()
    assert_went_on(job, 2)


@pytest.mark.campaign
def test_halt_before_the_time_limit(sandbox, programs, cluster):
    """Slurm's limits are minutes. A line is taken for the halt, and belay run ends before Slurm does anything."""
    job = sandbox.allocate(workload(programs, ranks=2), [*SRUN, "-N1", "-n2"], ["-N1", "-n2", "-t", "1", "-w", "n1"], interval=None,
                           options=["--halt-before-limit", "45s"])
    wait_for(lambda: job.process.poll() is not None, 50, "the halt")
    assert job.process.returncode == 82, job.errors
    assert re.search(r"belay: job: halted at line \d+ \(--halt-before-limit\)", job.errors)


def on_cluster(program, cluster):
    """Its input is where all nodes see it."""
    source = cluster.path("home/ann/work/heat.h5")
    shutil.copy(program.argv[2], source)
    return dataclasses.replace(program, argv=(*program.argv[:2], source, *program.argv[3:]))


def test_heat_loses_a_node(sandbox, programs, cluster):
    """A real program with parallel output, which is written to a folder that all nodes share."""
    program = on_cluster(programs.heat(steps=400, snapshot_every=100, ranks=8), cluster)
    go = os.path.join(sandbox.folder, "go")
    undo = os.path.join(sandbox.folder, "undo")
    os.mkdir(undo, 0o700)
    sandbox.own(undo)
    held = dataclasses.replace(program, argv=(*program.argv, "--wait-for", go))
    job = sandbox.allocate(held, [*SRUN, "-N4", "-n8"], ["-N5", "--ntasks-per-node=2", "-w", "n1", "--no-kill"], trace=False, interval="1s",
                           options=["--spares", "1", "--undo-dir", undo])
    job.program = program  # whose undisturbed run has nothing to wait for
    line = job.wait_committed(2, 60)
    cluster.lose("n2")
    assert job.wait_epoch(2, 60)["history"][1]["restored_line"] >= line
    open(go, "w", encoding="ascii").close()
    job.wait(120)
    assert_went_on(job, 1)


def test_python_loses_a_node(sandbox, cluster):
    job = sandbox.allocate(pickles("--steps", "150", "--seconds", "3"), [*SRUN, "-N4", "-n4"], ["-N4", "-n4", "-w", "n1", "--no-kill"])
    job.kill_node("n4")
    job.wait_epoch(2, 60)
    job.finish()
    assert_went_on(job, 1)


@pytest.mark.campaign  # fails with proctrack/cgroup: see docs/slurm.md
def test_mpirun_in_an_allocation(sandbox, programs, cluster):
    """mpirun finds the nodes, and starts relays, by Slurm. A rank is killed; the nodes are all there."""
    job = sandbox.allocate(workload(programs, ranks=4), ["mpirun", "-n", "4", "--map-by", "node"], ["-N2", "-n4", "-w", "n1,n2"])
    line = job.wait_committed(2, 60)
    job.kill_rank_on("n2", 1)
    status = job.wait_epoch(2, 60)
    assert status["history"][1]["restored_line"] >= line
    job.finish()
    assert_went_on(job, 1)


REFUSED = [
    (["--mpi=none"], "srun --mpi=none: the ranks need PMIx; say --mpi=pmix"),
    ([], "this srun gives its tasks no PMIx, which the ranks need: say --mpi=pmix"),
    (["--mpi=pmix", "--multi-prog"], "srun --multi-prog is not supported: run it without belay"),
    (["--mpi=pmix", "--nonsense"], "srun --nonsense: belay does not know this option"),
    (["--mpi=pmix", "--export=NONE"], "srun --export=NONE: the ranks need what belay run gives them"),
]


def test_steps_that_are_refused(sandbox):
    """In one line, and nothing has been started."""
    for words, message in REFUSED:
        done = sandbox.execute("salloc", "-Q", "-N2", "-n2", "-w", "n1", sandbox.command, "run", "--", "srun", *words, "-n2", "true")
        assert done.returncode != 0
        assert message in done.stderr


def test_a_halt_that_would_leave_nothing(sandbox, cluster):
    """Slurm ends the agents of other nodes with belay run."""
    if not cluster.groups.are_there():
        pytest.skip("no control groups of version 1")
    done = sandbox.execute("salloc", "-Q", "-N2", "-n2", "-w", "n1", sandbox.command, "run", "--halt-after-lines", "3", "--", *SRUN, "-n2", "true")
    assert done.returncode == 64
    assert len([line for line in done.stderr.splitlines() if "a halt would leave no images to go on from" in line]) == 1, done.stderr


def test_srun_without_an_allocation(sandbox):
    done = sandbox.belay("run", "--", "srun", "-n2", "true")
    assert done.returncode != 0
    assert "belay run -- srun is for use in an allocation" in done.stderr
