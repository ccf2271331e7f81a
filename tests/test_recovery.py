"""Kill a rank after a committed line: the job comes back from that line with the result it would have had."""

import os
import signal

import pytest

from belaytest import assert_recovered


def workload(programs, name, seconds=4):
    if name == "heat":
        return programs.heat()
    return programs.test_program(name, "--steps", 100 * seconds, "--seconds", seconds)


WORKLOADS = ["heat", "ring", "collmix"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_kill_after_a_line(sandbox, programs, name):
    job = sandbox.run(workload(programs, name))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_restart_of_a_restart_of_a_restart(sandbox, programs):
    job = sandbox.run(workload(programs, "ring", seconds=8))
    for _ in range(3):
        line = job.wait_committed()
        status = job.kill_and_recover()
        assert status["history"][-1]["restored_line"] >= line
        job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.finish()
    assert_recovered(job)
    assert job.errors.count("this answers mpirun's message above") == 3


def test_each_line_is_restored_not_the_first(sandbox, programs):
    """After the third line a restore comes from the third or a later one."""
    job = sandbox.run(workload(programs, "collmix"))
    line = job.wait_committed(3)
    status = job.kill_and_recover(rank=0)
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_recovered(job)


def all_ranks(job):
    return list(job.pids[1].values())


def two_ranks(job):
    return [job.pids[1][1], job.pids[1][3]]


def launcher(job):
    return [job.find_launcher()]


@pytest.mark.parametrize("victims", [all_ranks, two_ranks, launcher])
def test_kill_of_others_than_one_rank(sandbox, programs, victims):
    job = sandbox.run(workload(programs, "ring", seconds=3))
    job.wait_committed(2)
    for pid in victims(job):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # the launcher has been faster
            pass
    job.wait_epoch(2)
    job.finish()
    assert_recovered(job, restarts=1)


@pytest.mark.parametrize("name", ["p2pmix", "threads", "compute", "imbalance", "sleepy"])
def test_kill_in_other_programs(sandbox, programs, name):
    extra = {"compute": ["--steps", 2], "imbalance": ["--steps", 8], "sleepy": []}.get(name, ["--steps", 500])
    job = sandbox.run(programs.test_program(name, *extra, "--seconds", 4), trace=name in ("p2pmix", "threads"))
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_on_demand_lines(sandbox, programs, belay):
    job = sandbox.run(workload(programs, "ring"), interval=None)
    job.wait_epoch(1)
    for line in (1, 2):
        done = belay("checkpoint", "job")
        assert done.returncode == 0, done.stderr
        assert job.wait_committed(line) == line
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] == 2
    job.finish()
    assert_recovered(job)


@pytest.mark.campaign
@pytest.mark.limit(600)
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("kill", range(20))
def test_campaign_of_kills(sandbox, programs, name, kill):
    job = sandbox.run(workload(programs, name), seed=kill)
    job.wait_committed(1 + kill % 5)
    job.wait_step(job.random.randrange(1, 200))  # somewhere between two lines
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
