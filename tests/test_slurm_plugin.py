"""Belay's plugin of Slurm on a cluster of namespaces (lib/cluster.py), as an ordinary user."""

import json
import os
import re
import shutil
import subprocess

import pytest

from belaytest import newest_line
from cluster_job import ClusterSandbox
from plugin_steps import (APPEND, PROTECT, assert_goes_on, assert_output, heat, held, let_end, node_of_rank_0, read, status_of, uid_of,
                          wait_lines, wait_lost, write)
from programs import TOP, Program, lacks, pickles
from waiting import communicate, wait_for

pytestmark = pytest.mark.cluster

MPI = ("--mpi=pmix", "-N4", "-w", "n1,n2,n3,n4", "-n8")
MPI_NODES = ("n1", "n2", "n3", "n4")
COMMANDS = {"srun": ("srun",), "sbatch": ("sbatch", "--wrap=true"), "salloc": ("salloc", "-Q")}


@pytest.fixture
def plugin(cluster):
    """The call says with which words plugstack.conf has the plugin."""
    yield cluster.plug_in
    cluster.plug_in()


def launch(sandbox, *words, **variables):
    return subprocess.Popen(sandbox.cluster.on_as(sandbox.name, sandbox.at, "srun", *words), cwd=sandbox.folder,
                            env={**sandbox.environment, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def belay_lines(text):
    return [line for line in text.splitlines() if "belay" in line]


def test_lines(sandbox, programs):
    """Lines are committed, copies are on other nodes, and the output is as without Belay."""
    program = heat(sandbox, programs)
    expected = sandbox.execute("srun", *MPI, *program.argv)
    assert expected.returncode == 0, expected.stderr
    process = launch(sandbox, *MPI, PROTECT, *held(sandbox, program))
    status = wait_lines(sandbox, r"\d+\.0-heat")
    assert [node["node"] for node in status["nodes"]] == ["n1", "n2", "n3", "n4"]
    let_end(sandbox)
    stdout, stderr = communicate(process, 90)
    assert (process.returncode, stdout.decode()) == (0, expected.stdout), stderr
    assert "lines do not keep it" not in stderr.decode()  # nothing of Slurm's counts as the program's
    # The epilog has it forgotten when Slurm's job has ended, too.
    wait_for(lambda: (status_of(sandbox, status["job"]) or {"state": "finished"})["state"] == "finished", 20, "its end")


def test_help_lists_the_options(sandbox):
    for command in COMMANDS:
        text = sandbox.execute(command, "--help").stdout
        for option in ("--checkpoint-interval=time", "--checkpoint-dir=dir", "--checkpoint-redundancy=scheme",
                       "--restart-from=line|job:id|dir|none", "--checkpoint-archive=k|time"):
            assert option in text, command


def test_the_manual_page(sandbox):
    """It has the options that srun lists, and no other one."""
    with open(os.path.join(TOP, "man", "belay-slurm.7"), encoding="utf-8") as file:
        page = file.read().replace("\\-", "-").replace("\\fI", "").replace("\\fB", "").replace("\\fR", "")
    listed = re.findall(r"(--[a-z-]+)=\S+\s+Belay:", sandbox.execute("srun", "--help").stdout)
    assert len(listed) == 5
    assert re.findall(r"^\.B (--[a-z-]+)=", page, re.M) == listed


def masked(text):
    """An environment without what differs from step to step."""
    return sorted(re.sub(r"\d+", "#", line) for line in text.splitlines()
                  if not re.match(r"(SLURM_TASK_PID|SLURM_JOB_(START|END)_TIME)=", line))


def test_a_step_of_which_nothing_is_asked(sandbox, cluster, plugin):
    """Its environment is what it is without the plugin, to the byte; ids, ports and times aside."""
    mine = {"LD_PRELOAD": "libm.so.6", "BELAY_CHECKPOINT_REDUNDANCY": "SINGLE"}
    steps = [("srun", "--mpi=pmix", "-N2", "-n2", "env"), ("srun", "--mpi=pmix", "-N2", "-n2", "--checkpoint-interval=0", "env")]
    with_plugin = [sandbox.execute(*step, **mine).stdout for step in steps]
    cluster.plug_out()
    without = sandbox.execute(*steps[0], **mine).stdout
    assert len(without.splitlines()) > 40
    assert masked(with_plugin[0]) == masked(without)
    of_belay = [line for line in masked(with_plugin[1]) if line.startswith(("BELAY_", "SLURM_BELAY_")) and line not in masked(without)]
    assert of_belay == []
    assert [line for line in masked(with_plugin[1]) if line.startswith("LD_PRELOAD")] == ["LD_PRELOAD=libm.so.#"] * 2


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option, variable, value", [
    ("--checkpoint-interval", "BELAY_CHECKPOINT_INTERVAL", "soon"), ("--checkpoint-dir", "BELAY_CHECKPOINT_DIR", "here"),
    ("--checkpoint-redundancy", "BELAY_CHECKPOINT_REDUNDANCY", "COPIES"), ("--restart-from", "BELAY_RESTART_FROM", "some/images"),
    ("--checkpoint-archive", "BELAY_CHECKPOINT_ARCHIVE", "often")])
def test_a_wrong_value(sandbox, command, option, variable, value):
    """It is refused at submission with one line, which tells where it came from."""
    words = COMMANDS[command]
    for source, variables, extra in ((option, {}, [f"{option}={value}"]), (f"the variable {variable}", {variable: value}, [])):
        done = sandbox.execute(words[0], *extra, *words[1:], *([] if command == "sbatch" else ["true"]), **variables)
        assert done.returncode != 0
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith(f"belay: {source}: ") and value in done.stderr
    assert sandbox.cluster.jobs() == []


def test_a_program_without_mpi(sandbox):
    done = sandbox.execute("srun", PROTECT, "-N2", "-n2", "sh", "-c", "hostname; echo to stderr >&2")
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["n1", "n2"])
    assert done.stderr == "to stderr\n" * 2
    wait_for(lambda: sandbox.cluster.processes("n2") == {}, 20, "the end of the porter, which no rank has asked")


def test_a_batch_script(sandbox, programs):
    """Its steps are protected by the option that sbatch was given; the script itself is left alone."""
    program = heat(sandbox, programs)
    folder, number = sandbox.submit(f"env > batch.env\nsrun {' '.join([*MPI, *held(sandbox, program)])}", PROTECT, "-N4", "-n8")
    wait_lines(sandbox, rf"{number}\.0-heat")
    let_end(sandbox)
    assert sandbox.wait_end(number) == ("COMPLETED", 0)
    with open(os.path.join(folder, "out"), encoding="ascii") as file:
        assert file.read() == programs.reference(program).stdout.decode()
    with open(os.path.join(folder, "batch.env"), encoding="utf-8") as file:
        names = [line.split("=")[0] for line in file.read().splitlines()]
    assert [name for name in names if name.startswith(("BELAY", "SLURM_BELAY")) or name == "LD_PRELOAD"] == []


def test_libraries_of_the_user_stay(sandbox, programs):
    """The program has the user's preloads, and none of Belay's variables that are for its start."""
    done = sandbox.execute("srun", PROTECT, "-N1", "-n1", "--mpi=pmix", "env", LD_PRELOAD="libm.so.6")
    preload = [line for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD=")]
    assert preload == [f"LD_PRELOAD={sandbox.prefix}/lib/belay/libbelay.so:libm.so.6"], done.stderr
    assert not [line for line in done.stdout.splitlines() if line.startswith("SLURM_BELAY")]


def test_a_heterogeneous_job(sandbox):
    done = sandbox.execute("salloc", "-Q", "-N1", "-n1", ":", "-N1", "-n1", "srun", PROTECT, "true")
    assert done.returncode != 0
    assert [line for line in belay_lines(done.stderr)] == \
        ["belay: the steps of a heterogeneous job cannot be protected: leave --checkpoint-interval out, or give 0"]


def test_another_version(sandbox):
    """A node whose plugin is of another version than srun's: what that one hands on stands for it here."""
    done = sandbox.execute("srun", "-N1", "-n1", "true", SLURM_BELAY_BOARD="1 00 127.0.0.1", SLURM_BELAY_VERSION="0.0.1")
    assert done.returncode != 0
    told = belay_lines(done.stderr)
    assert len([line for line in told if "srun's plugin is of version 0.0.1, and that of node n1 of version" in line]) == 1, done.stderr
    assert "install the same Belay on all nodes" in done.stderr


@pytest.mark.campaign
def test_a_missing_agent(sandbox, cluster, plugin, programs):
    """An installation without belayd, as an incomplete update leaves it: the step ends with one line that names the program."""
    folder = cluster.path("home/ann/lib/belay")
    shutil.copytree(os.path.join(sandbox.prefix, "lib", "belay"), folder, ignore=shutil.ignore_patterns("belayd"))
    plugin(f"libdir={folder}")
    done = sandbox.execute("srun", "--mpi=pmix", "-N2", "-n2", PROTECT, *heat(sandbox, programs, ranks=2).argv)
    shutil.rmtree(os.path.dirname(folder))
    told = [line for line in done.stderr.splitlines() if line.startswith("belay: ")]
    assert done.returncode != 0 and len(told) == 1 and f"{folder} lacks belayd; install Belay again" in told[0], done.stderr


def in_python(sandbox, programs):
    del programs
    return pickles("--steps", "150", "--seconds", "3"), r"\d+\.0-python3"


def in_lammps(sandbox, programs):
    """A melting crystal."""
    if not shutil.which("lmp"):
        lacks("lmp is not installed (lammps)")
    path = os.path.join(sandbox.folder, "melt")
    write(sandbox.folder, "melt", "units lj\nlattice fcc 0.8442\nregion box block 0 10 0 10 0 10\ncreate_box 1 box\n"
                                  "create_atoms 1 box\nmass 1 1.0\nvelocity all create 3.0 87287 loop geom\npair_style lj/cut 2.5\n"
                                  "pair_coeff 1 1 1.0 1.0 2.5\nfix 1 all nve\nthermo 100\nthermo_style custom step temp pe etotal press\n"
                                  "run 2000\n")
    return Program((shutil.which("lmp"), "-in", path, "-log", "none"), 4), r"\d+\.0-lmp"


def without_times(text):
    """Of LAMMPS's output."""
    return [line for line in text.splitlines() if re.match(r" *\d+( +-?[\d.]+){4}", line)] or text


@pytest.mark.campaign
@pytest.mark.limit(400)
@pytest.mark.parametrize("program_of", [in_python, in_lammps])
def test_other_programs(sandbox, programs, cluster, program_of):
    """Under plain srun of a batch script that is requeued: what heat does, they do."""
    program, name = program_of(sandbox, programs)
    line = " ".join(["srun", "--mpi=pmix", *program.argv])
    folder, number = sandbox.submit(line, PROTECT, "--requeue", APPEND, "-N4", "-n4", "-w", "n1", BELAY_TEST_PACE=os.path.join(sandbox.folder, "go"))
    before = wait_lines(sandbox, name.replace(r"\d+", str(number)))
    cluster.lose("n3")
    wait_lost(sandbox, before["job"])
    cluster.declare_lost("n3")
    assert_goes_on(sandbox, before["job"], newest_line(before))
    let_end(sandbox)
    assert sandbox.wait_end(number, 300) == ("COMPLETED", 0)
    expected = programs.reference(program).stdout.decode()
    assert without_times(read(folder, "out")) == without_times(expected)


@pytest.mark.campaign
def test_steps_side_by_side(sandbox, programs, cluster):
    """Two sruns of one script at once, on the same nodes: each is protected by itself."""
    program = heat(sandbox, programs, ranks=2)
    line = " ".join(["srun", "--mpi=pmix", "-N2", "-n2", "--exact", *held(sandbox, program)])
    folder, number = sandbox.submit(f"{line} > first &\n{line} > second &\nwait", PROTECT, "-N2", "-n4", "-w", "n1,n2")
    for step in (0, 1):
        wait_lines(sandbox, rf"{number}\.{step}-heat", count=1)
    let_end(sandbox)
    assert sandbox.wait_end(number) == ("COMPLETED", 0)
    expected = programs.reference(program).stdout.decode()
    assert [read(folder, name) for name in ("first", "second")] == [expected] * 2


def test_defaults_of_the_site(sandbox, plugin, programs):
    """A word of plugstack.conf protects whoever asks for nothing; an option wins."""
    plugin("interval=500ms", "redundancy=SINGLE")
    program = heat(sandbox, programs, ranks=2)
    process = launch(sandbox, "--mpi=pmix", "-N2", "-n2", *held(sandbox, program))
    wait_lines(sandbox, r"\d+\.0-heat", count=1)
    let_end(sandbox)
    stdout, stderr = communicate(process, 90)
    assert (process.returncode, stdout) == (0, programs.reference(program).stdout), stderr
    done = sandbox.execute("srun", "--checkpoint-interval=none", "-N1", "-n1", "env")
    assert "BELAY" not in done.stdout


def test_a_mistake_in_plugstack(sandbox, cluster, plugin):
    """It ends commands with one line. Jobs that run or begin meanwhile are not disturbed, nor is a node drained."""
    running, waiting = (sandbox.submit("until [ -e go ]; do sleep 0.1; done", "-N1", *options) for options in ((), ("--hold",)))
    node_of_rank_0(cluster, ("-j", str(running[1])))
    plugin("intervall=5")
    done = sandbox.execute("srun", "-N1", "true")
    assert "plugstack.conf: 'intervall=5' is no word of this plugin" in done.stderr and done.returncode != 0
    cluster.slurm("scontrol", "release", str(waiting[1]))
    for folder, number in (running, waiting):
        write(folder, "go", "")
        assert sandbox.wait_end(number) == ("COMPLETED", 0)
    cluster.wait_idle()


# ---- others on the same nodes ----

def test_two_users(sandbox, programs, prefix, cluster):
    """Jobs of two users side by side on the same nodes: neither sees the other's, and both end as without Belay."""
    ben = ClusterSandbox(prefix, programs, cluster, user="ben")
    try:
        boxes, jobs = (sandbox, ben), []
        for box in boxes:
            program = heat(box, programs, ranks=4)
            jobs.append((program, launch(box, "--mpi=pmix", "-n4", "-w", "n1,n2", PROTECT, *held(box, program))))
        seen = [wait_lines(box, r"\d+\.0-heat")["job"] for box in boxes]
        assert seen[0] != seen[1]
        for box, other, of_other in ((sandbox, ben, seen[1]), (ben, sandbox, seen[0])):
            assert status_of(box, of_other) is None
            done = box.execute(box.command, "stop", of_other, BELAY_RUNDIR=f"/tmp/belay-{uid_of(cluster, other)}")
            assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
        for box, (program, process) in zip(boxes, jobs):
            let_end(box)
            stdout, stderr = communicate(process, 90)
            assert (process.returncode, stdout) == (0, programs.reference(program).stdout), stderr
        assert_nothing_left(cluster, ben)
    finally:
        ben.destroy()


def assert_nothing_left(cluster, box):
    """Of this user's on any node, while others may have something there."""
    for name in cluster.first:
        box.execute(box.command, "clean", at=name)

        def left(name=name):
            return [path for path in cluster.files(name, "/tmp") if f"/belay-{uid_of(cluster, box)}/" in path and "agent." not in path]

        wait_for(lambda left=left: not left(), 20, f"the end of {left()} on {name}")


def test_a_job_array(sandbox, programs, cluster):
    """Each of its tasks is a job by itself."""
    program = heat(sandbox, programs, ranks=4)
    folder, number = sandbox.submit(f"srun --mpi=pmix {' '.join(held(sandbox, program))}", PROTECT, "--array=0-1", "-N2", "-n4", "-o", "out-%a")
    for job in (number, number + 1):
        wait_lines(sandbox, rf"{job}\.0-heat", at=node_of_rank_0(cluster, ("-j", str(job))))
    let_end(sandbox)
    for task in (0, 1):
        assert sandbox.wait_end(f"{number}_{task}") == ("COMPLETED", 0), read(folder, f"out-{task}")
        with open(os.path.join(folder, f"out-{task}"), "rb") as file:
            assert file.read() == programs.reference(program).stdout


def test_daemons_are_restarted(sandbox, programs, cluster):
    """slurmctld on the head, slurmd and munged on a node: the job does not notice."""
    program = heat(sandbox, programs)
    process = launch(sandbox, *MPI, PROTECT, *held(sandbox, program))
    before = wait_lines(sandbox, r"\d+\.0-heat")
    cluster.restart("head", "slurmctld")
    cluster.restart("n2", "slurmd")
    cluster.restart("n3", "munged")
    line = newest_line(status_of(sandbox, before["job"]))
    after = wait_lines(sandbox, re.escape(before["job"]), count=line + 2)
    assert newest_line(after) > line and (after["state"], after["restarts"]) == ("running", 0)
    let_end(sandbox)
    stdout, stderr = communicate(process, 90)
    assert (process.returncode, stdout) == (0, programs.reference(program).stdout), stderr


# ---- lines on a signal ----

def test_a_line_on_a_signal(sandbox, programs, cluster):
    """scancel --signal=URG takes a line, as often as it comes; the program runs on."""
    if not cluster.groups.are_there():
        pytest.skip("no control groups of version 1")
    process = launch(sandbox, "--mpi=pmix", "-N2", "-n2", "--checkpoint-interval=1h",
                     *held(sandbox, heat(sandbox, programs, ranks=2)))
    job = wait_lines(sandbox, r"\d+\.0-heat", count=0)["job"]
    for line in (1, 2):
        sandbox.execute("scancel", "--signal=URG", job.split(".")[0])
        status = wait_lines(sandbox, re.escape(job), count=line)
        assert (newest_line(status), status["state"], status["restarts"]) == (line, "running", 0)
    sandbox.execute("scancel", job.split(".")[0])
    communicate(process, 60)
    wait_empty(cluster, "n1", "n2")


@pytest.mark.campaign
def test_a_line_before_the_time_limit(sandbox, programs, cluster, plugin):
    """Slurm's limits are minutes: the site has the line 45 s before them."""
    plugin("last-line=45s")
    process = launch(sandbox, "-t", "1", "--mpi=pmix", "-N2", "-n2", "--checkpoint-interval=1h",
                     *held(sandbox, heat(sandbox, programs, ranks=2)))
    job = wait_lines(sandbox, r"\d+\.0-heat", count=1)["job"]
    sandbox.execute("scancel", job.split(".")[0])
    communicate(process, 60)


@pytest.mark.campaign
def test_a_line_at_preemption(sandbox, programs, cluster):
    """A job of a partition with priority takes the nodes: Slurm tells the step by its --signal, and requeues it after the grace time.
    Once it runs again, it goes on from that line."""
    cluster.configure(PreemptType="preempt/partition_prio", PreemptMode="REQUEUE", SlurmctldParameters="preempt_send_user_signal",
                      PartitionName="main Nodes=ALL Default=YES State=UP OverSubscribe=NO PriorityTier=1 GraceTime=5\n"
                                    "PartitionName=first Nodes=ALL State=UP OverSubscribe=NO PriorityTier=2")
    cluster.restart("head", "slurmctld")
    try:
        program = heat(sandbox, programs, ranks=4)
        line = " ".join(["srun", "--mpi=pmix", *held(sandbox, program)])
        folder, number = sandbox.submit(line, "--checkpoint-interval=1h", "--requeue", APPEND, "-N4", "-n4", "--exclusive", "-w", "n1",
                                        "--signal=URG@3600")
        before = wait_lines(sandbox, rf"{number}\.0-heat", count=0)
        sandbox.execute("srun", "-p", "first", "-N4", "--exclusive", "-w", "n1", "true", deadline_s=90)
        after = wait_lines(sandbox, re.escape(before["job"]), count=0)
        assert after["history"][-1]["restored_line"] >= 1 and after["restarts_from_start"] == 0
        assert_output(sandbox, programs, program, folder, number)
    finally:
        cluster.configure()
        cluster.restart("head", "slurmctld")


# ---- what outlives a step ----

def groups_of(cluster, name):
    """The control groups of the freezer in which processes of the user's are on a node, by what they run."""
    rows = cluster.in_groups(name)
    return {os.path.basename(command.split()[0]): group for command, group in rows}


def test_outside_of_the_job(sandbox, programs, cluster):
    """What holds images is in none of Slurm's control groups, with the site's memory limit; nothing of it is left by scancel."""
    if not cluster.groups.are_there():
        pytest.skip("no control groups of version 1")
    cluster.plug_in("memory=512M")
    process = launch(sandbox, "--mpi=pmix", "-N4", "-n4", PROTECT, *held(sandbox, heat(sandbox, programs, ranks=4)))
    number = wait_lines(sandbox, r"\d+\.0-heat")["job"].split(".")[0]
    for name in ("n1", "n4"):
        groups = groups_of(cluster, name)
        assert f"/job_{number}/" in groups["heat"]
        of_belay = ["belay-porter", "belayd", "belay-keeper", "belay-relay", *(["belay-arbiter"] if name == "n1" else [])]
        assert {program: groups[program] for program in of_belay} == dict.fromkeys(of_belay, f"/belay/uid_{uid_of(cluster, sandbox)}")
        limit = cluster.read(name, f"/sys/fs/cgroup/memory/belay/uid_{uid_of(cluster, sandbox)}/memory.limit_in_bytes")
        assert int(limit) == 512 << 20
    sandbox.execute("scancel", number)
    communicate(process, 60)
    wait_empty(cluster, *MPI_NODES)
    cluster.plug_in()


def wait_empty(cluster, *names):
    """Until nothing of users runs there."""
    for name in names:
        wait_for(lambda name=name: not cluster.processes(name), 30, f"the end of {cluster.processes(name)} on {name}")


@pytest.mark.campaign
def test_a_porter_that_stands_still(sandbox, programs, cluster):
    """The end of a job does not wait for it for long: Slurm has the node back. Later it drops what it was told to drop."""
    process = launch(sandbox, "--mpi=pmix", "-N2", "-n2", "-w", "n1,n2", PROTECT, *held(sandbox, heat(sandbox, programs, ranks=2)))
    number = wait_lines(sandbox, r"\d+\.0-heat")["job"].split(".")[0]
    porter = next(pid for pid, command in cluster.processes("n2").items() if "belay-porter" in command)
    sandbox.execute("kill", "-STOP", str(porter), at="n2")
    sandbox.execute("scancel", number)
    communicate(process, 60)
    cluster.wait_idle()
    assert porter in cluster.processes("n2")
    sandbox.execute("kill", "-CONT", str(porter), at="n2")
    wait_empty(cluster, "n1", "n2")


# ---- commands on other nodes ----

def test_commands_from_any_node(sandbox, prefix, programs, cluster):
    """status, checkpoint and stop by the number of Slurm's, on a node that has no part in the job; other users are refused."""
    process = launch(sandbox, "--mpi=pmix", "-N2", "-n2", "-w", "n1,n2", PROTECT, *held(sandbox, heat(sandbox, programs, ranks=2)))
    job = wait_lines(sandbox, r"\d+\.0-heat")["job"]
    number = job.split(".")[0]
    for word in (number, f"{number}.0"):
        seen = status_of(sandbox, word, at="n5")
        assert (seen["job"], seen["state"], [node["node"] for node in seen["nodes"]]) == (job, "running", ["n1", "n2"])
    done = sandbox.execute(sandbox.command, "checkpoint", f"{number}.0", "--json", at="n5")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "committed"), done.stderr
    for command, message in (((f"{number}.7",), "no step of job"), (("99999",), "there is no job 99999 here")):
        done = sandbox.execute(sandbox.command, "status", *command, at="n5")
        assert done.returncode == 66 and only_line(done.stderr).startswith(f"belay: {message}")
    ben = ClusterSandbox(prefix, programs, cluster, user="ben")
    try:
        for command in ("status", "checkpoint", "stop"):
            done = ben.execute(ben.command, command, number, at="n5")
            assert done.returncode == 64
            assert only_line(done.stderr) == f"belay: job {number} of Slurm's belongs to another user (ann)"
    finally:
        ben.destroy()
    sandbox.execute(sandbox.command, "stop", number, at="n2")  # the step that brings it there may end with the job
    communicate(process, 60)
    assert process.returncode != 0


def only_line(text):
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_doctor(sandbox, cluster, plugin):
    """It tells whether the plugin is there, and where agents run."""

    def findings():
        done = sandbox.execute(sandbox.command, "doctor", "--json")
        return {check["name"]: check for check in json.loads(done.stdout)["checks"]}

    found = findings()
    assert found["Slurm"]["state"] == "ok" and found["Slurm"]["found"].endswith("spank_belay.so")
    assert "outside of jobs" in found["Slurm's agents"]["found"]
    plugin("cgroup=none")
    found = findings()["Slurm's agents"]
    assert (found["state"], found["found"]) == ("absent", "in the job: what they hold ends with the step")
    cluster.plug_out()
    assert "does not have spank_belay.so" in findings()["Slurm"]["found"]
