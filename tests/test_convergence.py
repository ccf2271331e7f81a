"""Lines hit legal programs at any point: all are committed, quickly, and a restart gives the same result."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import belaytest
from belaytest import assert_recovered, assert_same_result, newest_line
from waiting import wait_for

WITHOUT_CMA = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def committed(status):
    return [line for line in status["lines"] if line["state"] == "committed"]


def assert_no_line_aborted(status):
    """A line aborts when a rank is lost in it or the job ends in it, and for no other reason."""
    aborted = [line for line in status["lines"] if line["state"] == "aborted"]
    assert len(aborted) <= status["restarts"] + 1, aborted


def run_and_recover(sandbox, program, **options):
    """The same as of belaytest; all lines are committed."""
    assert_no_line_aborted(belaytest.run_and_recover(sandbox, program, **options).status())


# ---- collectives ----

@pytest.mark.parametrize("mode, steps, milliseconds", [
    ("chain", 100, 40),
    ("flood", 14, 120),
    ("ibcast", 70, 40),
    ("orders", 50, 40),
    ("pending", 12, 120),
    ("poll", 100, 40),
])
def test_order_of_collectives(sandbox, programs, mode, steps, milliseconds):
    program = programs.test_program("p2_order", "--mode", mode, "--steps", steps, "--value", milliseconds)
    run_and_recover(sandbox, program)


@pytest.mark.parametrize("variables", [{}, WITHOUT_CMA], ids=["cma", "pipelined"])
def test_matched_message_of_a_held_sender(sandbox, programs, variables):
    program = programs.test_program("p2_order", "--mode", "handover", "--steps", 50, "--value", 60)
    run_and_recover(sandbox, program, **variables)


def test_communicators_come_and_go(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_comms", "--steps", 600, "--seconds", 2, ranks=5))


def test_communicators_freed_with_pending_messages(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_comms", "--mode", "free-pending", "--steps", 20))


def test_intercommunicators(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_inter", "--steps", 10, "--value", 100, ranks=5))


# ---- messages ----

@pytest.mark.parametrize("variables", [{}, WITHOUT_CMA], ids=["cma", "pipelined"])
def test_drained_messages(sandbox, programs, variables):
    """Every step rests for longer than the interval with messages unreceived."""
    run_and_recover(sandbox, programs.test_program("p2_drain", "--steps", 20, "--value", 120), **variables)


def test_large_messages(sandbox, programs):
    """More bytes than fit into an int, but that is 4096 here."""
    run_and_recover(sandbox, programs.test_program("p2_large", "--value", 4096, ranks=2),
                    BELAY_FAULT="rank.large=error")


@pytest.mark.campaign
@pytest.mark.limit(1000)
@pytest.mark.parametrize("size", [1 << 31, 2362232012])
def test_campaign_of_large_messages(sandbox, programs, size):
    """Needs 9 GiB of memory. Each message is on the wire for the time between two lines."""
    job = sandbox.run(programs.test_program("p2_large", "--value", size, "--steps", 7, ranks=2), interval="100ms",
                      trace=False)
    assert job.wait(900) == 0
    assert_same_result(job)
    assert len(committed(job.status())) >= 2


# ---- when a rank cannot do its part ----

FAILURES = {2: ("rank.drain@0", "rank 0: the fault point rank.drain was set to fail"),
            4: ("rank.drain.counts@1", "rank 1: there is no memory for counts of messages"),
            6: ("rank.note@3", "rank 3: the fault point rank.note was set to fail"),
            8: ("rank.park@0", "rank 0: the fault point rank.park was set to fail")}


def test_failed_steps_abort_the_line_only(sandbox, programs):
    """Each ends its line with its reason, whatever is pending; the next line is taken, and the result is right."""
    points = [f"{point}#{line}=error" for line, (point, _) in FAILURES.items()]
    job = belaytest.run_and_recover(sandbox, programs.test_program("req_functions", "--steps", 34),
                                    BELAY_FAULT=",".join(points))
    lines = {line["line"]: line for line in job.status()["lines"]}
    lost = [number for number, line in lines.items() if "was lost" in line.get("reason", "")]
    failed = [number for number in FAILURES if number in lines and number not in lost]
    for number in failed:
        reason = FAILURES[number][1]
        assert lines[number]["state"] == "aborted" and lines[number]["reason"].startswith(reason), lines[number]
        assert f"belay: line {number} aborted: {reason}" in job.errors
        assert lines[number + 1]["state"] == "committed" or number + 1 in lost
    assert len(lost) <= 1 and len(failed) >= len(FAILURES) - 1, lines


@pytest.mark.parametrize("name", ["p2_nbx", "req_functions"])
def test_no_memory_for_messages(sandbox, programs, name):
    """Half of the lines find no memory for what they drain, on one rank or another; messages arrive all the same."""
    points = [f"rank.drain.message@{line // 2 % 4}#{line}=error" for line in range(2, 60, 2)]
    job = belaytest.run_and_recover(sandbox, programs.test_program(name, "--steps", 34), BELAY_FAULT=",".join(points))
    reasons = [line["reason"] for line in job.status()["lines"] if line["state"] == "aborted"]
    assert any("there is no memory for a message in transit" in reason for reason in reasons), reasons


def test_program_without_memory(sandbox, programs):
    """A rank has come to its RLIMIT_AS, and malloc gives it nothing more, when a line finds a large message."""
    program = programs.test_program("p2_large", "--mode", "limit", "--value", 50000000, "--steps", 8, ranks=2)
    job = sandbox.run(program, interval="60ms")
    job.wait_step(4)
    job.wait_committed(newest_line(job.status()) + 1)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
    reasons = [line["reason"] for line in job.status()["lines"] if line["state"] == "aborted"]
    assert any("no memory for a message in transit (49999999 bytes)" in reason for reason in reasons), reasons


def test_synchronous_sends_complete_when_matched(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("p2_nbx", "--steps", 25, "--value", 120))


# ---- time ----

def test_imbalance(sandbox, programs):
    """A line is committed when the late rank has come, whatever the others wait in."""
    job = sandbox.run(programs.test_program("imbalance", "--steps", 2, "--seconds", 4), trace=False)
    job.wait()
    assert_same_result(job)
    lines = committed(job.status())
    assert len(lines) >= 2
    for line in lines:
        assert line["converge_ms"] + line["drain_ms"] <= 2000 + 100, line


@pytest.mark.limit(200)
@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.campaign)])
def test_pure_computation(sandbox, programs, seconds):
    """Ranks that compute without calling MPI are stopped at once."""
    job = sandbox.run(programs.test_program("compute", "--seconds", seconds), interval="100ms", trace=False)
    job.wait(3 * seconds + 10)
    assert_same_result(job)
    lines = committed(job.status())
    assert len(lines) >= 5
    drains = sorted(line["drain_ms"] for line in lines)
    assert drains[len(drains) // 4] < 50, drains  # a busy machine lets many wait for a processor


def checkpoints(belay, count):
    """Lines on demand, one after another: what `belay checkpoint` says of each."""
    lines = []
    for _ in range(count):
        done = belay("checkpoint", "job", "--json")
        assert done.returncode == 0, done.stderr
        lines.append(json.loads(done.stdout))
    return lines


def cost(line):
    return line["drain_ms"] + line["pause_ms"]


def cost_limit(first):
    """State belongs to one line and dies with it: later lines cost what the first ones did."""
    return 2 * min(map(cost, first)) + 5


def test_sixteen_lines_in_a_row(sandbox, programs, belay):
    job = sandbox.run(programs.test_program("p2_order", "--mode", "chain", "--steps", 300), interval=None)
    job.wait_step(1)
    checkpoints(belay, 16)
    lines = committed(job.wait_status(lambda status: newest_line(status) >= 16))
    assert [line["line"] for line in lines] == list(range(1, 17))
    assert all(line["felt_pause_ms"] > line["pause_ms"] > 0 for line in lines)  # the program goes on a little later
    for _ in range(40):  # other work of the machine may make any few lines expensive
        if cost(lines[-1]) < cost_limit(lines[1:8]):
            break
        checkpoints(belay, 1)
        lines = committed(job.status())
    assert cost(lines[-1]) < cost_limit(lines[1:8])
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def take_many_lines(sandbox, programs, count):
    """A line every 50 ms and a kill after `count` of them. Returns some of the first lines and the last ones."""
    seen = {}
    job = sandbox.run(programs.test_program("p2_order", "--mode", "chain", "--value", 10, "--steps", 10 * count),
                      interval="50ms")

    def look(status):
        seen.update({line["line"]: line for line in committed(status)})
        return newest_line(status) >= count

    job.wait_status(look, 0.5 * count, f"{count} lines")
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] >= count
    job.wait(0.5 * count)
    assert_recovered(job)
    assert_no_line_aborted(job.status())
    lines, part = [seen[number] for number in sorted(seen)], max(count // 10, 20)
    return lines[1:1 + part], lines[-part:]


def test_many_lines(sandbox, programs):
    take_many_lines(sandbox, programs, 80)


@pytest.mark.campaign
@pytest.mark.limit(1100)
def test_thousand_lines(sandbox, programs):
    first, last = take_many_lines(sandbox, programs, 1000)
    print(f"a line costs {min(map(cost, first)):.1f} ms, then {min(map(cost, last)):.1f} ms")
    assert min(map(cost, last)) < cost_limit(first)


# ---- when lines are asked for ----

def test_requests_while_a_line_is_running(sandbox, programs, belay):
    """Each request is answered by a line that began after it; several may share one."""
    job = sandbox.run(programs.test_program("ring", "--steps", 300, "--seconds", 3), interval=None)
    job.wait_epoch(1)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: belay("checkpoint", "job", "--json"), range(8)))
    assert all(answer.returncode == 0 for answer in answers), [answer.stderr for answer in answers]
    numbers = {json.loads(answer.stdout)["line"] for answer in answers}
    assert numbers <= {line["line"] for line in committed(job.status())}
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def test_short_jobs(sandbox, programs):
    """Strobes during MPI_Init and MPI_Finalize: jobs that are hardly begun when they end."""
    program = programs.test_program("ring", "--steps", 20)
    for i in range(10):
        job = sandbox.run(program, name=f"short{i}", interval="50ms", trace=False)
        job.wait(20)
        assert_same_result(job)
        assert job.status()["epoch"] == 1


def test_lines_on_demand_from_beginning_to_end(sandbox, programs, belay):
    """Requests at any moment of a short job are answered: committed, or a reason."""
    program = programs.test_program("ring", "--steps", 50, "--seconds", 0.3)
    for i in range(3):
        job = sandbox.run(program, name=f"short{i}", interval=None, trace=False)
        wait_for(lambda job=job: sandbox.status(job.name), 10, "the job")
        job.let_end()
        while job.process.poll() is None:
            done = belay("checkpoint", job.name)
            assert done.returncode == 0 or done.stderr.startswith("belay:"), done
        assert job.wait(20) == 0
        assert_same_result(job)
