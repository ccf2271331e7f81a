"""Lines hit legal programs at any point: all are committed, quickly, and a restart gives the same result."""

import json
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from belaytest import assert_recovered, assert_same_result, newest_line
from waiting import wait_for

WITHOUT_CMA = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def committed(status):
    return [line for line in status["lines"] if line["state"] == "committed"]


def assert_no_line_aborted(status):
    """A line aborts when its ranks were lost or are at their end, and for no other reason."""
    for line in status["lines"]:
        if line["state"] == "aborted":
            assert any(word in line["reason"] for word in ("lost", "end")), line


def run_and_recover(sandbox, program, interval="100ms", after=3, **options):
    """Under frequent lines: a kill after line `after`, more lines, the result of an undisturbed run."""
    job = sandbox.run(program, interval=interval, **options)
    job.wait_committed(after)
    status = job.kill_and_recover()
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.wait()
    assert_recovered(job)
    assert_no_line_aborted(job.status())
    return job


# ---- collectives ----

@pytest.mark.parametrize("mode, steps, milliseconds", [
    ("chain", 120, 40),
    ("ibcast", 120, 40),
    ("orders", 80, 40),
    ("poll", 120, 40),
    ("flood", 20, 120),
    ("pending", 14, 120),
])
def test_order_of_collectives(sandbox, programs, mode, steps, milliseconds):
    program = programs.test_program("p2_order", "--mode", mode, "--steps", steps, "--value", milliseconds)
    run_and_recover(sandbox, program)


@pytest.mark.parametrize("variables", [{}, WITHOUT_CMA], ids=["cma", "pipelined"])
def test_matched_message_of_a_held_sender(sandbox, programs, variables):
    program = programs.test_program("p2_order", "--mode", "handover", "--steps", 60, "--value", 60)
    run_and_recover(sandbox, program, **variables)


def test_communicators_come_and_go(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_comms", "--steps", 1000, "--seconds", 3, ranks=5))


def test_communicators_freed_with_pending_messages(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_comms", "--mode", "free-pending", "--steps", 24))


# ---- messages ----

@pytest.mark.parametrize("variables", [{}, WITHOUT_CMA], ids=["cma", "pipelined"])
def test_drained_messages(sandbox, programs, variables):
    """Every step rests for longer than the interval with messages unreceived."""
    run_and_recover(sandbox, programs.test_program("p2_drain", "--steps", 30, "--value", 120), **variables)


def test_synchronous_sends_complete_when_matched(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_nbx", "--steps", 40, "--value", 120))


# ---- time ----

def test_imbalance(sandbox, programs):
    """A line is committed when the late rank has come, whatever the others wait in."""
    job = sandbox.run(programs.test_program("imbalance", "--steps", 3, "--seconds", 6), trace=False)
    job.wait()
    assert_same_result(job)
    lines = committed(job.status())
    assert len(lines) >= 2
    for line in lines:
        assert line["converge_ms"] + line["drain_ms"] <= 2000 + 100, line


def test_pure_computation(sandbox, programs):
    """Ranks that compute without calling MPI are stopped at once."""
    job = sandbox.run(programs.test_program("compute", "--seconds", 6), trace=False)
    job.wait()
    assert_same_result(job)
    lines = committed(job.status())
    assert len(lines) >= 10
    assert statistics.median(line["drain_ms"] for line in lines) < 50
    assert sorted(line["drain_ms"] for line in lines)[-2] < 50, lines  # the machine may stall once


def checkpoints(belay, count):
    """Lines on demand, one after another: what `belay checkpoint` says of each."""
    lines = []
    for _ in range(count):
        done = belay("checkpoint", "job", "--json")
        assert done.returncode == 0, done.stderr
        lines.append(json.loads(done.stdout))
    return lines


def line_cost(line):
    return line["drain_ms"] + line["pause_ms"]


def test_sixteen_lines_in_a_row(sandbox, programs, belay):
    """State belongs to one line: the last costs what the second did."""
    job = sandbox.run(programs.test_program("ring", "--steps", 4000, "--seconds", 8), interval=None)
    job.wait_epoch(1)
    checkpoints(belay, 16)
    lines = committed(job.wait_status(lambda status: newest_line(status) >= 16))
    assert [line["line"] for line in lines] == list(range(1, 17))
    first, last = (statistics.median(map(line_cost, part)) for part in (lines[1:5], lines[-4:]))
    print(f"a line costs {first:.1f} ms, then {last:.1f} ms")
    assert last < 2 * first + 5
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def many_lines(sandbox, programs, count):
    """Take `count` lines as fast as 50 ms allow; costs of the first and the last tenth."""
    seen = {}
    job = sandbox.run(programs.test_program("ring", "--steps", 20 * count, "--seconds", 0.08 * count), interval="50ms")

    def look(status):
        seen.update({line["line"]: line for line in committed(status)})
        return len(seen) >= count

    job.wait_status(look, 0.3 * count, f"{count} lines")
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] >= count
    assert job.wait() == 0
    assert_recovered(job)
    assert_no_line_aborted(job.status())
    costs = [line_cost(seen[number]) for number in sorted(seen)]
    tenth = len(costs) // 10
    return statistics.median(costs[1:1 + tenth]), statistics.median(costs[-tenth:])


@pytest.mark.limit(120)
def test_many_lines(sandbox, programs):
    first, last = many_lines(sandbox, programs, 150)
    print(f"a line costs {first:.1f} ms, then {last:.1f} ms")
    assert last < 2 * first + 5


@pytest.mark.campaign
@pytest.mark.limit(600)
def test_thousand_lines(sandbox, programs):
    first, last = many_lines(sandbox, programs, 1000)
    print(f"a line costs {first:.1f} ms, then {last:.1f} ms")
    assert last < 2 * first + 5


# ---- when lines are asked for ----

def test_requests_while_a_line_is_running(sandbox, programs, belay):
    """Each request is answered by a line that began after it; several may share one."""
    job = sandbox.run(programs.test_program("ring", "--steps", 2000, "--seconds", 5), interval=None)
    job.wait_epoch(1)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: belay("checkpoint", "job", "--json"), range(8)))
    assert all(answer.returncode == 0 for answer in answers), [answer.stderr for answer in answers]
    numbers = {json.loads(answer.stdout)["line"] for answer in answers}
    assert numbers <= {line["line"] for line in committed(job.status())}
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def test_short_jobs(sandbox, programs):
    """Strobes during MPI_Init and MPI_Finalize: jobs that are hardly begun when they end."""
    program = programs.test_program("ring", "--steps", 20)
    for i in range(12):
        job = sandbox.run(program, name=f"short{i}", interval="50ms", trace=False)
        job.wait(20)
        assert_same_result(job)
        assert job.status()["epoch"] == 1


def test_lines_on_demand_from_beginning_to_end(sandbox, programs, belay):
    """Requests at any moment of a short job are answered: committed, or a reason."""
    program = programs.test_program("ring", "--steps", 50, "--seconds", 0.3)
    for i in range(4):
        job = sandbox.run(program, name=f"short{i}", interval=None, trace=False)
        wait_for(lambda job=job: sandbox.status(job.name), 10, "the job")
        while job.process.poll() is None:
            done = belay("checkpoint", job.name)
            assert done.returncode == 0 or done.stderr.startswith("belay:"), done
        assert job.wait(20) == 0
        assert_same_result(job)
