"""Ranks that move, and run while their images come (--restore demand): the same result, whatever is lost meanwhile."""

import os
import re
import shutil
import signal

import pytest

import traces
from belaytest import assert_recovered, assert_same_result
from nodes import agent_of, homes, is_held_twice, kill_node, on_nodes, run_with_agent, service_of
from programs import science
from test_fetch import AFTER, assert_goes_on, lose_first_node
from test_life import NOBODY, can_execute
from test_memory import huge_pages  # pylint: disable=unused-import

pytestmark = pytest.mark.usefixtures("restores_on_demand")

# As in test_fetch.py: once node 0 is lost, node 2 has rank 1, and its image comes from node 1.
DEMAND = [*on_nodes(3), "--restore", "demand"]
MOVED, LENDER, LOADER = 1, 1, 2
# Until the rank has waited for so many pages, nothing else is asked for.
LATE = "agent.load.others#0-60=error"
LATER = "agent.load.others#0-10=error"
COME = re.compile(r"the image of rank (\d+) of line (\d+) has come in [0-9.]+ ms, (\d+) bytes in \d+ ranges; the rank was there "
                  r"after [0-9.]+ ms with (\d+) bytes and has waited for (\d+) pages")


def program(programs, mode="touch", megabytes=48, seconds=2):
    return programs.test_program("mem_load", "--mode", mode, "--value", megabytes, "--steps", 50 * seconds,
                                 "--seconds", seconds, ranks=4)


def log_of(sandbox, number):
    with open(os.path.join(sandbox.rundir, f"node-{number}" if number else "", "agent.log"), encoding="utf-8") as log:
        return log.read()


def loading(status):
    """What is told of the moved rank's image; None: it is here, or the rank does not run yet."""
    rows = [row for node in status["nodes"] for row in node["ranks"] if row["rank"] == MOVED]
    return rows[0]["loading"] if rows else None


def wait_loaded(sandbox, job):
    """Of the moved rank's image, as the loader's log has it: bytes, how many were there when the rank was, pages waited for."""
    job.wait_status(lambda _: COME.search(log_of(sandbox, LOADER)), 60, "the image")
    rank, _, *figures = map(int, COME.search(log_of(sandbox, LOADER)).groups())
    assert rank == MOVED
    return figures


@pytest.mark.parametrize("mode", ["touch", *(pytest.param(mode, marks=pytest.mark.campaign)
                                             for mode in ("threads", "calls", "waits", "fork", "maps", "sizes", "huge"))])
def test_a_rank_runs_while_its_image_comes(sandbox, programs, mode):
    """It runs before a tenth of the image is there. Every page is what it was."""
    job = run_with_agent(sandbox, LOADER, LATE, program(programs, mode), options=DEMAND)
    lose_first_node(sandbox, job)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    size, first, waited = wait_loaded(sandbox, job)
    assert first < size / 10
    assert waited > (0 if mode == "fork" else 60)  # which waits for all of it at once
    assert_goes_on(sandbox, job, status, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("name, arguments", [
    ("mem_odd", ("--mode", "kinds")), ("mem_locked", ("--mode", "parts")),
    ("mem_locked", ("--mode", "all", "--value", 300)), ("mem_locked", ("--mode", "sealed")),
    ("mem_unseen", ("--mode", "direct")), ("mem_unseen", ("--mode", "others")), ("threads_sync", ()), ("time_signals", ()),
    ("collmix", ()),
])
def test_other_programs_run_while_their_images_come(sandbox, programs, name, arguments):
    """Unusual, locked and sealed memory, locks and signals of threads: as after an eager restart."""
    job = run_with_agent(sandbox, LOADER, LATER, programs.test_program(name, *arguments, "--steps", 60, "--seconds", 4),
                         options=DEMAND)
    lose_first_node(sandbox, job)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    wait_loaded(sandbox, job)
    assert_goes_on(sandbox, job, status, 1)


def to_a_spare(sandbox, program):
    """Node 0 is lost, and the spare takes its place, which loads what it can. Returns the status then."""
    job = run_with_agent(sandbox, LOADER, LATER, program, options=[*on_nodes(2), "--spares", "1", "--restore", "demand"])
    job.wait_lines()
    kill_node(sandbox, job, 0)
    return job, job.wait_epoch(2)


@pytest.mark.campaign
def test_huge_pages_come_first(sandbox, programs, huge_pages):
    """Those that were set aside are copied: the rank waits for them, and not for the rest."""
    job, status = to_a_spare(sandbox, programs.test_program("mem_huge", "--mode", "private", "--steps", 100, "--seconds", 4,
                                                           ranks=2))
    assert homes(status) == [LOADER, LENDER]
    job.wait_status(lambda _: COME.search(log_of(sandbox, LOADER)), 60, "the image")
    assert_goes_on(sandbox, job, status, 1)


@pytest.mark.campaign
def test_what_ranks_share_comes_first(sandbox, programs):
    """Shared mappings and pipes are whole before a rank runs on them: these images are fetched, as with `eager`."""
    job, status = to_a_spare(sandbox, programs.test_program("kin", "--steps", 400, "--seconds", 4))
    assert homes(status) == [LOADER, LOADER, LENDER, LENDER]
    assert COME.search(log_of(sandbox, LOADER)) is None
    assert_goes_on(sandbox, job, status, 1)


@pytest.mark.campaign
def test_a_program_of_numpy(sandbox):
    """Its threads, libraries and files, in an image of which little is there when it runs."""
    job = run_with_agent(sandbox, LOADER, LATER, science(150), options=DEMAND, seconds=3, OPENBLAS_NUM_THREADS="2")
    lose_first_node(sandbox, job)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    size, first, _ = wait_loaded(sandbox, job)
    assert first < size / 2
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_heat(sandbox, programs):
    job = run_with_agent(sandbox, LOADER, LATER, programs.heat(side=1000, steps=2500), options=DEMAND, trace=False)
    job.wait_committed(job.wait_committed(0) + 2)
    assert homes(job.status()) == [0, 0, 1, 2]
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    wait_loaded(sandbox, job)
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts"] == 1
    sandbox.assert_clean()


@pytest.mark.campaign
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become another user")
@pytest.mark.parametrize("word", ["demand", "auto"])
def test_without_the_privilege_the_image_comes_first(sandbox, programs, word):
    """A system call into a hole would fail: so there are none. Whoever asked for them is told."""
    sandbox.become(NOBODY)
    if not can_execute(sandbox.user, sandbox.command, program(programs).argv[0]):
        pytest.skip("other users cannot execute what was built")
    doctor = sandbox.belay("doctor").stdout
    if any("restore on demand" in row and row.startswith("ok") for row in doctor.splitlines()):
        pytest.skip("every user may catch page faults of the kernel here")
    job = sandbox.run(program(programs, "calls"), options=[*on_nodes(3), "--restore", word])
    lose_first_node(sandbox, job)
    status = job.wait_epoch(2)
    assert homes(status) == AFTER
    assert ("as with --restore eager" in job.errors) == (word == "demand"), job.errors
    assert COME.search(log_of(sandbox, LOADER)) is None
    assert_goes_on(sandbox, job, status, 1)


def assert_goes_on_again(job, line, number, agent):
    """In a later epoch, from this line or a newer one, with another agent of the node than this; with the undisturbed result."""
    status = job.wait_status(lambda status: status["epoch"] >= 3 and status["state"] == "running", 60, "the next launch")
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 2, 60)
    assert agent_of(job, number) != agent
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0


@pytest.mark.campaign
@pytest.mark.parametrize("number, point", [
    *((LENDER, f"agent.load.{point}") for point in ("send", "fill")),
    *((LOADER, f"agent.load.{point}") for point in ("ask", "taken", "write", "attach", "fault", "whole")),
])
def test_an_agent_dies_while_an_image_comes(sandbox, programs, number, point):
    """The rank never runs on zeros: it waits, and is ended; the next epoch is opened with another agent."""
    job = run_with_agent(sandbox, number, f"{LATE},{point}=kill", program(programs, seconds=4), options=DEMAND)
    job.wait_lines()
    agent = agent_of(job, number)
    line = lose_first_node(sandbox, job)
    assert_goes_on_again(job, line, number, agent)
    sandbox.assert_clean()


@pytest.mark.campaign
def test_the_rank_dies_while_its_image_comes(sandbox, programs):
    """Its image is fetched once more, from where it was."""
    job = run_with_agent(sandbox, LOADER, "agent.load.others=error", program(programs, seconds=4), options=DEMAND)
    line = lose_first_node(sandbox, job)
    job.wait_epoch(2)
    job.wait_status(lambda status: (loading(status) or {}).get("faults", 0) > 0, 60, "a rank that has waited")
    rows = sandbox.belay("top", "job", "--count", "1").stdout.splitlines()
    moved = next(row.split() for row in rows if row.split()[0] == str(MOVED))
    assert 0 < float(moved[2]) < float(moved[3]) and int(moved[4]) > 0, rows
    newest = job.status()["newest_line"]
    job.kill_rank(MOVED)
    assert newest == job.status()["newest_line"]  # no line was taken meanwhile
    status = job.wait_epoch(3)
    assert status["history"][-1]["restored_line"] == newest >= line
    assert COME.search(log_of(sandbox, LOADER)) is None
    job.process.send_signal(signal.SIGTERM)
    job.wait()


@pytest.mark.campaign
def test_the_node_that_lends_is_lost(sandbox, programs):
    """Nobody else has the image: the job ends, and says so. The rank has not gone on without it."""
    job = run_with_agent(sandbox, LOADER, "agent.load.others=error", program(programs, seconds=4), options=DEMAND)
    lose_first_node(sandbox, job)
    job.wait_epoch(2)
    job.wait_status(lambda status: (loading(status) or {}).get("faults", 0) > 0, 60, "a rank that has waited")
    for pid in service_of(sandbox, LENDER):
        os.kill(pid, signal.SIGKILL)
    assert job.wait() != 0, job.errors
    assert "no node holds the image" in job.errors
    sandbox.assert_clean()


def pid_of_moved(status):
    return next((row["pid"] for node in status["nodes"] for row in node["ranks"] if row["rank"] == MOVED), 0)


def wait_mapped(job, epoch):
    """The moved rank has mapped its image and stands still, before the agent knows. Its process."""
    status = job.wait_status(lambda status: status["epoch"] == epoch and traces.is_stopped(pid_of_moved(status)), 60, "a stopped rank")
    return pid_of_moved(status)


@pytest.mark.campaign
def test_what_was_written_lately_comes_first(sandbox, programs):
    """Half of what a rank touches is there when it runs, or more; without, it waits for each part of it."""
    waited = {}
    for window in ("30s", "0"):
        job = run_with_agent(sandbox, LOADER, "agent.load.rest=error", program(programs, "again", seconds=8),
                             options=[*DEMAND, "--touched-window", window], BELAY_FAULT=f"rank.load.mapped@{MOVED}=stop")
        lose_first_node(sandbox, job)
        stopped = wait_mapped(job, 2)
        status = job.wait_status(has_touched if window != "0" else loading, 60, "the touched set")
        assert (loading(status)["touched_bytes"] > 0) == (window != "0")
        newest = max(step for _, step in job.steps())
        os.kill(stopped, signal.SIGCONT)
        job.wait_step(newest + 3)
        waited[window] = loading(job.status())["faults"]
        job.process.send_signal(signal.SIGTERM)
        job.wait()
        assert sandbox.belay("clean", "job").returncode == 0
    assert waited["30s"] * 2 < waited["0"], waited


def has_touched(status):
    """All of the moved rank's touched set is there, and not all of its image."""
    load = loading(status)
    return load and 0 < load["touched_bytes"] == load["touched_here_bytes"] and load["here_bytes"] < load["bytes"] / 2


@pytest.mark.campaign
@pytest.mark.parametrize("what", ["rank", "agent", "lender"])
def test_a_loss_before_anybody_serves_the_rank(sandbox, programs, what):
    """The image is mapped, and the agent does not know. The rank, the agent or the agent that lends dies then."""
    job = run_with_agent(sandbox, LOADER, "agent.load.others=error", program(programs, seconds=4), options=DEMAND,
                         BELAY_FAULT=f"rank.load.mapped@{MOVED}=stop")
    line = lose_first_node(sandbox, job)
    stopped = wait_mapped(job, 2)
    os.kill({"rank": stopped, "agent": agent_of(job, LOADER), "lender": agent_of(job, LENDER)}[what], signal.SIGKILL)
    again = wait_mapped(job, 3)
    assert again != stopped and not traces.is_alive(stopped)
    os.kill(again, signal.SIGCONT)
    if what == "agent":  # the next one has no fault
        status = job.wait_epoch(3)
        assert status["history"][-1]["restored_line"] >= line
        job.wait_committed(status["history"][-1]["restored_line"] + 2, 60)
        job.finish()
        assert_same_result(job)
        assert job.status()["restarts_from_start"] == 0
        sandbox.assert_clean()
    else:
        job.wait_status(lambda status: (loading(status) or {}).get("faults", 0) > 0, 60, "a rank that has waited")
        job.process.send_signal(signal.SIGTERM)
        job.wait()


@pytest.mark.campaign
def test_a_line_is_asked_for_while_an_image_comes(sandbox, programs):
    """It is taken when the image is there, and is one as any other: a second loss goes on from it."""
    job = run_with_agent(sandbox, LOADER, LATE, program(programs, seconds=6), options=DEMAND, interval=None)
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 0)
    status = job.wait_status(lambda status: status["epoch"] == 2 and loading(status), 60, "a rank whose image comes")
    assert status["newest_line"] == 1
    assert sandbox.belay("checkpoint", "job").returncode == 0
    assert COME.search(log_of(sandbox, LOADER))
    status = job.status()
    assert status["newest_line"] == 2 and is_held_twice(status)
    kill_node(sandbox, job, LENDER)
    status = job.wait_epoch(3)
    assert homes(status) == [LOADER] * 4
    assert status["history"][-1]["restored_line"] == 2
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


@pytest.mark.campaign
def test_the_node_that_loads_is_lost(sandbox, programs):
    """A second loss, which the copies survive: the images are still where they were lent, and are loaded elsewhere."""
    spare = 3
    job = run_with_agent(sandbox, spare, "agent.load.others=error", program(programs, seconds=6),
                         options=[*on_nodes(3), "--spares", "1", "--restore", "demand"])
    job.wait_lines()
    line = job.status()["newest_line"]
    kill_node(sandbox, job, 0)
    assert homes(job.wait_epoch(2)) == [spare, spare, 1, 2]
    job.wait_status(lambda status: (loading(status) or {}).get("faults", 0) > 0, 60, "a rank that has waited")
    kill_node(sandbox, job, spare)
    status = job.wait_epoch(3)
    assert sorted(homes(status)) == [1, 1, 2, 2]
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 2, 60)
    job.finish()
    assert_same_result(job)
    assert job.status()["restarts_from_start"] == 0
    sandbox.assert_clean()


@pytest.mark.campaign
def test_damaged_pages_end_the_rank(sandbox, programs):
    """They differ from their sums: nothing of them is seen by the rank, which is ended, each time."""
    job = run_with_agent(sandbox, LOADER, "agent.load.taken=error", program(programs, seconds=4), options=DEMAND)
    lose_first_node(sandbox, job)
    assert job.wait() != 0, job.errors
    assert "cannot be loaded from node 1: what has come at address" in job.errors
    sandbox.assert_clean()


def test_an_unknown_way_to_restore_is_refused(sandbox, programs):
    job = sandbox.run(program(programs), options=["--restore", "lazy"])
    assert job.wait() == 64
    assert "there is no way to restore 'lazy': eager, demand or auto" in job.errors
