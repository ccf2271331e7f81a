"""A batch job that Slurm requeues, or that is submitted again, goes on from its lines (Belay's plugin, on a cluster of namespaces)."""

import datetime
import glob
import os
import re
import subprocess
import time

import pytest

from belaytest import newest_line
from plugin_steps import (APPEND, PROTECT, assert_goes_on, assert_output, heat, held, let_end, node_of_rank_0, read, status_of, submit_heat,
                          uid_of, wait_lines, wait_lost)
from waiting import wait_for

pytestmark = pytest.mark.cluster

def test_twice_in_a_row(sandbox, programs, cluster):
    """The batch node is lost, on which srun, rank 0 and the arbiter are. Then the administrator requeues the job."""
    program, folder, number = submit_heat(sandbox, programs)
    before = wait_lines(sandbox, rf"{number}\.0-heat")
    cluster.lose("n1")
    cluster.declare_lost("n1")
    after = assert_goes_on(sandbox, before["job"], newest_line(before), at="n2")
    assert sorted(node["node"] for node in after["nodes"] if node["state"] == "member") == ["n2", "n3", "n4", "n5"]
    line = newest_line(status_of(sandbox, before["job"], at="n2"))
    cluster.slurm("scontrol", "requeue", str(number))
    wait_lost(sandbox, before["job"], at="n2")
    assert_goes_on(sandbox, before["job"], line, at="n2")
    assert_output(sandbox, programs, program, folder, number)


@pytest.mark.campaign
def test_the_node_of_rank_0_is_lost(sandbox, programs, cluster):
    """It is not the one of srun, which waits until Slurm has seen the loss. The second of two steps goes on from its own line."""
    program = heat(sandbox, programs, ranks=4)
    first, second = (" ".join(["srun", "--mpi=pmix", "--relative=1", "-N3", "-n4", *words])
                     for words in (program.argv, held(sandbox, program)))
    folder, number = sandbox.submit(f"{first}\n{second}", PROTECT, "--requeue", APPEND, "-N4", "--ntasks-per-node=2", "-w", "n1")
    before = wait_lines(sandbox, rf"{number}\.1-heat", at="n2")
    cluster.lose("n2")
    wait_lost(sandbox, before["job"], at="n3")
    wait_for(lambda: "waiting for Slurm to end the job" in read(folder, "err"), 40, "srun's word")
    cluster.declare_lost("n2")
    assert_goes_on(sandbox, before["job"], newest_line(before), at="n3")
    let_end(sandbox)
    assert sandbox.wait_end(number) == ("COMPLETED", 0)
    expected = programs.reference(program).stdout.decode()
    assert read(folder, "out").endswith(expected)
    assert "restart from line" in read(folder, "err")


@pytest.mark.campaign
def test_a_job_that_is_submitted_again(sandbox, programs, cluster):
    """Slurm has ended the first job at its time limit. Another one goes on from the first one's newest line."""
    cluster.configure(OverTimeLimit="0", KillWait="1")
    program, _, first = submit_heat(sandbox, programs, "-t", "1", nodes=2, ranks=2)
    line = newest_line(wait_lines(sandbox, rf"{first}\.0-heat"))
    assert sandbox.wait_end(first, 120)[0] == "TIMEOUT"
    _, number = sandbox.submit(" ".join(["srun", "--mpi=pmix", *held(sandbox, program)]), PROTECT, f"--restart-from=job:{first}", "-N2", "-n2", "-w", "n1,n2")
    assert_goes_on(sandbox, f"{first}.0-heat", line)
    sandbox.execute("scancel", str(number))
    sandbox.wait_end(number)
    sandbox.execute(sandbox.command, "clean", f"{first}.0-heat", at="n1")
    sandbox.execute(sandbox.command, "clean", f"{first}.0-heat", at="n2")


@pytest.mark.campaign
def test_a_job_that_goes_on_from_an_archive(sandbox, programs):
    """All that its nodes held went with `scancel`. Another job, on other nodes, goes on from the files."""
    folder = os.path.join(sandbox.folder, "archive")
    os.mkdir(folder)
    sandbox.own(folder)
    program, _, first = submit_heat(sandbox, programs, f"--checkpoint-dir={folder}", "--checkpoint-archive=2", "-w", "n1,n2",
                                    nodes=2, ranks=2)
    name = f"{first}.0-heat"
    lines = os.path.join(folder, name)
    wait_for(lambda: len(glob.glob(os.path.join(lines, "line-*", "manifest"))) == 2, 60, "two archived lines")
    sandbox.execute("scancel", str(first))
    sandbox.wait_end(first)
    line = max(int(path.split("/")[-2][len("line-"):]) for path in glob.glob(os.path.join(lines, "line-*", "manifest")))
    _, number = sandbox.submit(" ".join(["srun", "--mpi=pmix", *held(sandbox, program)]), PROTECT,
                               f"--restart-from={folder}", "-N2", "-n2", "-w", "n3,n4")
    after = wait_lines(sandbox, re.escape(name), count=1, at="n3")
    assert after["history"][-1]["restored_line"] == line
    sandbox.execute("scancel", str(number))
    sandbox.wait_end(number)


# With which redundancy, on which nodes not, and which are lost.
NOT_ENOUGH = {"nothing": ("SINGLE", "", ()), "half of the images": ("SINGLE", "n5", ("n2",)), "a part of the parity": ("XOR", "", ("n2", "n3"))}


@pytest.mark.campaign
@pytest.mark.parametrize("redundancy,excluded,lost", NOT_ENOUGH.values(), ids=NOT_ENOUGH)
def test_a_requeued_job_goes_on_from_its_archive(sandbox, programs, cluster, redundancy, excluded, lost):
    """What is left in memory does not suffice, or is nothing: then it is the newest archived line."""
    folder = os.path.join(sandbox.folder, "archive")
    os.mkdir(folder)
    sandbox.own(folder)
    nodes = 2 + (redundancy == "XOR")
    program, out, number = submit_heat(sandbox, programs, f"--checkpoint-dir={folder}", "--checkpoint-archive=2",
                                       f"--checkpoint-redundancy={redundancy}", f"--exclude={excluded}", nodes=nodes, ranks=nodes)
    name = f"{number}.0-heat"
    lines = os.path.join(folder, name, "line-*", "manifest")
    wait_for(lambda: len(glob.glob(lines)) == 2, 60, "two archived lines")
    line = max(int(path.split("/")[-2][len("line-"):]) for path in glob.glob(lines))
    for node in lost:
        cluster.lose(node)
    if lost:
        wait_lost(sandbox, name)
        for node in lost:
            cluster.declare_lost(node)
    else:  # as after a restart of all nodes
        for node in ("n1", "n2"):
            subprocess.run(cluster.on(node, "pkill", "-9", "belay"), check=True)
        cluster.slurm("scontrol", "requeue", str(number))
    wait_for(lambda: "goes on from archived line" in read(out, "err"), 60, "the archive's line")
    after = wait_lines(sandbox, re.escape(name), count=line, at=node_of_rank_0(cluster, ("-j", str(number))))
    assert after["history"][-1]["restored_line"] >= line >= 2
    assert after["restarts_from_start"] == 0
    assert_output(sandbox, programs, program, out, number)


@pytest.mark.campaign
def test_what_is_left_does_not_suffice(sandbox, programs, cluster):
    """Without copies, the image of the lost node's rank is gone: the job begins from the start, and says why."""
    program, folder, number = submit_heat(sandbox, programs, "--checkpoint-redundancy=SINGLE", "--exclude=n4,n5", nodes=2, ranks=2)
    before = wait_lines(sandbox, rf"{number}\.0-heat")
    cluster.lose("n2")
    wait_lost(sandbox, before["job"])
    cluster.declare_lost("n2")
    after = wait_lines(sandbox, re.escape(before["job"]), count=1)
    assert [entry["restored_line"] for entry in after["history"]] == [0]
    assert_output(sandbox, programs, program, folder, number)
    assert "no node of this launch holds an image of rank 1" in read(folder, "err")
    assert "what its former nodes n2 may hold is not used, since they are not in this allocation" in read(folder, "err")


def logged_at(cluster, name, box, pattern):
    """When the agent of a node has last written such a line, in seconds."""
    text = cluster.read(name, f"/tmp/belay-{uid_of(cluster, box)}/agent.log")
    return datetime.datetime.fromisoformat(re.findall(rf"^(\S+) \w+ +{pattern}", text, re.M)[-1]).timestamp()


@pytest.mark.campaign
@pytest.mark.parametrize("victim, first, leases", [("n3", "n1", 1), ("n1", "n2", 2)])
def test_leases_that_were_over_before(sandbox, programs, cluster, victim, first, leases):
    """The arbiter has closed the job over the loss of a node longer than a lease ago, or was lost itself longer than two leases ago: the
    next one waits for no lease again."""
    lease_s = 15
    sandbox.environment["BELAY_LEASE"] = f"{lease_s}s"
    program, folder, number = submit_heat(sandbox, programs)
    before = wait_lines(sandbox, rf"{number}\.0-heat")
    cluster.lose(victim)
    wait_lost(sandbox, before["job"], at=first)
    lost_s = time.monotonic()
    wait_for(lambda: time.monotonic() > lost_s + leases * lease_s, 3 * lease_s, "the end of leases")
    cluster.declare_lost(victim)
    assert_goes_on(sandbox, before["job"], newest_line(before), at=first)
    waited_s = (logged_at(cluster, first, sandbox, ".*: epoch 2 begins") - logged_at(cluster, first, sandbox, r".*: node \d was lost"))
    assert 0 <= waited_s < lease_s - 1
    assert_output(sandbox, programs, program, folder, number)


@pytest.mark.campaign
def test_parity_that_does_not_suffice(sandbox, programs, cluster):
    """XOR survives one node of a set; two are lost. That shows only when all hosts have told what they hold."""
    program, folder, number = submit_heat(sandbox, programs, "--checkpoint-redundancy=XOR", nodes=3, ranks=3)
    before = wait_lines(sandbox, rf"{number}\.0-heat")
    lost = [node["node"] for node in before["nodes"][1:]]
    for name in lost:
        cluster.lose(name)
    wait_lost(sandbox, before["job"])
    for name in lost:
        cluster.declare_lost(name)
    after = wait_lines(sandbox, re.escape(before["job"]), count=2)
    assert [entry["restored_line"] for entry in after["history"]] == [0]
    assert len(after["nodes"]) == 3 and not set(lost) & {node["node"] for node in after["nodes"]}
    assert_output(sandbox, programs, program, folder, number)
    said = [text for text in read(folder, "err").splitlines() if "too few images and parity are left" in text]
    assert len(said) == 1 and "it begins from the start" in said[0] and "node 0 is n1" in said[0], said
    assert f"what its former nodes {', '.join(lost)} may hold is not used" in read(folder, "err")


def test_one_node(sandbox, programs, cluster):
    """A step on one node that is requeued there goes on from what the node holds."""
    program, folder, number = submit_heat(sandbox, programs, "-w", "n2", nodes=1)
    before = wait_lines(sandbox, rf"{number}\.0-heat", at="n2")
    cluster.slurm("scontrol", "requeue", str(number))
    wait_lost(sandbox, before["job"], at="n2")
    assert_goes_on(sandbox, before["job"], newest_line(before), at="n2")
    assert_output(sandbox, programs, program, folder, number)


@pytest.mark.campaign
def test_slurm_sees_the_loss_itself(sandbox, programs, cluster):
    """A node is lost that has neither srun nor rank 0; nobody tells Slurm."""
    program, folder, number = submit_heat(sandbox, programs)
    before = wait_lines(sandbox, rf"{number}\.0-heat")
    cluster.lose("n3")
    wait_lost(sandbox, before["job"])
    after = assert_goes_on(sandbox, before["job"], newest_line(before))
    assert sorted(node["node"] for node in after["nodes"] if node["state"] == "member") == ["n1", "n2", "n4", "n5"]
    assert_output(sandbox, programs, program, folder, number)
    assert [command for command in cluster.processes("n1").values() if command.startswith("srun ")] == []
