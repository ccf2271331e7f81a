"""Lines that copy what changed: the same images, the same results, whatever the program does to its memory."""

import json
import os
import re
import signal

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result, lines_of_belay, newest_line
from waiting import wait_for

TRACKERS = ["pagemap_scan", "soft_dirty", "bookkeeping", "full"]  # the best first
POLICIES = ["sequential", "main_memory", "cow", "cll", "precopy", "auto"]
PROTECTING = ["cow", "cll", "auto"]  # those that copy after the pause
# `full` never copies ahead.
# In each check: the policies that differ from one another in when ranks go on.
WAYS = [
    pytest.param(tracker, policy, marks=pytest.mark.campaign if policy in ("main_memory", "cll", "auto") else ())
    for tracker in TRACKERS
    for policy in POLICIES
    if (tracker, policy) not in [("full", "precopy"), ("full", "auto")]
]


KEEPS_A_CHILD = {"BELAY_CHILDREN": "lose"}  # which runs at each line


def memory_program(programs, seconds=4):
    return programs.test_program("mem_ops", "--steps", 50 * seconds, "--seconds", seconds)


def offered(belay, tracker):
    """Whether this machine can run a job with the tracker."""
    return belay("run", "--tracker", tracker, "--", "true").returncode == 0


def known_trackers(belay):
    """As the refusal of an unknown one names them."""
    said = belay("run", "--tracker", "guess", "--", "true").stderr
    return set(re.findall(r"[a-z_]+", said.rpartition("'guess': ")[2])) - {"or", "auto"}


def test_every_tracker_is_tested(belay):
    assert "full" in known_trackers(belay) and known_trackers(belay) <= set(TRACKERS)


@pytest.mark.parametrize("tracker,policy", WAYS)
def test_kills_amid_memory_operations(sandbox, programs, belay, tracker, policy):
    if tracker not in known_trackers(belay) or not offered(belay, tracker):
        pytest.skip(f"{tracker} is not offered here")
    job = sandbox.run(memory_program(programs, 3), interval="200ms",
                      options=["--tracker", tracker, "--policy", policy], **KEEPS_A_CHILD)
    job.wait_step(2)
    line = job.wait_committed(newest_line(job.status()) + 2)
    status = job.kill_and_recover()
    assert status["history"][-1]["restored_line"] >= line
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_recovered(job)


def test_the_best_tracker_is_chosen(sandbox, programs, belay):
    best = next(tracker for tracker in TRACKERS if offered(belay, tracker))
    job = sandbox.run(programs.test_program("mem_dirty", "--steps", 200, "--seconds", 2))
    job.wait()
    with open(os.path.join(sandbox.rundir, "agent.log"), encoding="utf-8") as log:
        assert f"written pages are found by {best}" in log.read()


@pytest.mark.parametrize("tracker", TRACKERS[:-1])
def test_tracker_that_the_kernel_lacks_is_refused(belay, tracker):
    done = belay("run", "--tracker", tracker, "--", "true")
    if done.returncode == 0:
        pytest.skip(f"this kernel offers {tracker}")
    assert len(done.stderr.splitlines()) == 1 and tracker in done.stderr


def guarded_lines(sandbox):
    """Lines of which the agent copied memory while the ranks ran on."""
    with open(os.path.join(sandbox.rundir, "agent.log"), encoding="utf-8") as log:
        return {int(number) for number in re.findall(r"line (\d+): \d+ bytes of rank \d+ were copied while it ran",
                                                     log.read())}


@pytest.mark.parametrize("policy", [
    pytest.param(policy, marks=pytest.mark.campaign if policy == "cll" else ()) for policy in PROTECTING
])
def test_memory_that_is_written_all_the_time(sandbox, programs, belay, policy):
    """It is copied while the program writes to it, moves it, gives it back and unmaps it."""
    sandbox.environment.update(BELAY_LOG="debug", BELAY_FAULT="agent.guarded%50=delay:100")  # calls are held
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    program = programs.test_program("mem_dirty", "--mode", "hot", "--value", 32, "--steps", 90, "--seconds", 3, ranks=2)
    job = sandbox.run(program, interval="200ms", options=["--policy", policy])
    line = job.wait_committed(4)
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= line
    last = job.wait_committed(newest_line(job.status()) + 3)
    lines = guarded_lines(sandbox)
    assert min(lines) < line
    if policy != "auto":  # which protects only what is cheaper to protect
        assert max(lines) >= last - 2, lines
    job.finish()
    assert_recovered(job)


def test_agent_killed_while_pages_are_protected(sandbox, programs, belay):
    """Ranks that wait at a protected page, or with a call that would take it away, go on without the agent."""
    sandbox.start_agent(BELAY_FAULT="agent.guarded@1#3=kill")
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    program = programs.test_program("mem_dirty", "--mode", "hot", "--value", 32, "--steps", 90, "--seconds", 3, ranks=2)
    job = sandbox.run(program, interval="200ms", options=["--policy", "cow"])
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


def hot_program(programs, seconds=3):
    return programs.test_program("mem_dirty", "--mode", "hot", "--value", 32, "--steps", 30 * seconds, "--seconds", seconds,
                                 ranks=2)


POOLED = ("--policy", "cll", "--pool", "1M")


def test_a_pool_that_is_full(sandbox, programs, belay):
    """Writers wait for room in it, and the status says so; lines commit, and hold what the program had written."""
    sandbox.environment.update(BELAY_FAULT="agent.pool.put#2-3=delay:4")  # a step writes all, and meets a line that is copied
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    job = sandbox.run(hot_program(programs), interval="200ms", options=POOLED)
    # A writer that is served while the line ends counts among those that have waited only.
    has_waited = lambda line: line["pool_waits"] and line["guard_faults"]  # noqa: E731
    status = job.wait_status(lambda status: any(map(has_waited, status["lines"])), 60, "a full pool")
    line = next(filter(has_waited, status["lines"]))
    assert line["pool_bytes"] == 1 << 20 and line["pool_wait_ms"] > 0
    assert line["guard_faults"] > 0 and line["longest_fault_ms"] > 0 and line["guarded_bytes"] > 16 << 20
    assert " 1.0 MiB for each rank, " in belay("status", "job").stdout
    committed = job.wait_committed(line["line"] + 1)
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= committed
    job.finish()
    assert_recovered(job)


@pytest.mark.campaign
def test_auto_shows_what_it_chose_by(sandbox, programs, belay):
    """Memory that is written all the time is protected, little that is written is not; `belay inspect` shows both, and why."""
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    shown = {}
    for mode, words in (("hot", ("--mode", "hot", "--value", 64)), ("little", ("--value", 64))):
        job = sandbox.run(programs.test_program("mem_dirty", *words, "--steps", 120, "--seconds", 4, ranks=1),
                          interval="200ms", options=["--policy", "auto"], name=mode)
        job.wait_committed(6)
        shown[mode] = json.loads(belay("inspect", mode, "--json").stdout)["copies"]
        job.finish()
        assert_same_result(job)
    assert any(line["guarded_bytes"] > 32 << 20 for line in shown["hot"]), shown
    assert all(line["guarded_bytes"] < 8 << 20 for line in shown["little"][1:]), shown
    for line in shown["hot"][1:] + shown["little"][1:]:
        assert line["copy_ms_per_gib"] > 0 and 0 <= line["yield"] <= 1 and line["pause_copy_ms"] > 0
        assert line["right_bytes"] <= line["ahead_bytes"]


@pytest.mark.campaign
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_small_pool_with_each_tracker(sandbox, programs, belay, tracker):
    if not offered(belay, tracker):
        pytest.skip(f"{tracker} is not offered here")
    job = sandbox.run(hot_program(programs), interval="200ms", options=[*POOLED, "--tracker", tracker])
    line = job.wait_committed(4)
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= line
    job.wait_committed(newest_line(job.status()) + 3)
    job.finish()
    assert_recovered(job)


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["agent.guarded", "agent.pool.full", "agent.pool.put"])
def test_agent_killed_with_pages_in_a_pool(sandbox, programs, belay, point):
    """Ranks that wait for room go on without the agent, and are restarted by the next one."""
    sandbox.start_agent(BELAY_FAULT=f"{point}@1#3=kill")
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    job = sandbox.run(hot_program(programs), interval="200ms", options=POOLED)
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


@pytest.mark.campaign
def test_a_pool_that_cannot_be_emptied(sandbox, programs, belay):
    """The line aborts, writers go on, and later lines commit."""
    sandbox.start_agent(BELAY_FAULT="agent.pool.put@0#3=error")
    if not offered(belay, "pagemap_scan"):
        pytest.skip("pages cannot be protected here")
    job = sandbox.run(hot_program(programs), interval="200ms", options=POOLED)
    line = job.wait_committed(5)
    aborted = [line for line in job.status()["lines"] if line["state"] == "aborted"]
    assert any(line["line"] == 3 and "agent.pool.put" in line["reason"] for line in aborted), aborted
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= line
    job.finish()
    assert_recovered(job)


def test_agent_killed_while_it_serves_faults(sandbox, programs, belay):
    """Ranks that wait for the agent at a protected page go on without it, and are restarted by the next one."""
    if not offered(belay, "bookkeeping"):
        pytest.skip("bookkeeping is not offered here")
    job = sandbox.run(programs.test_program("mem_dirty", "--steps", 200, "--seconds", 2),
                      options=["--tracker", "bookkeeping"])
    job.wait_committed(2)
    os.kill(job.status()["nodes"][0]["agent_pid"], signal.SIGKILL)
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


@pytest.mark.parametrize("mode,mappings", [
    ("kinds", 0),
    ("crowd", 4000),
    pytest.param("crowd", 60000, marks=pytest.mark.campaign),  # the kernel allows 65,530
])
def test_unusual_memory(sandbox, programs, mode, mappings):
    program = programs.test_program("mem_odd", "--mode", mode, "--value", mappings, "--steps", 40, "--seconds", 3,
                                    ranks=2)
    job = sandbox.run(program, interval="200ms")
    line = job.wait_committed(2)
    assert job.kill_and_recover()["history"][-1]["restored_line"] >= line
    job.wait_committed(line + 2)
    job.finish()
    assert_recovered(job)


def unseen_program(programs, mode):
    return programs.test_program("mem_unseen", "--mode", mode, "--steps", 60, "--seconds", 3)


@pytest.mark.parametrize("mode,word", [("direct", "O_DIRECT"), ("others", "process_vm_writev")])
def test_writes_that_no_page_table_shows(sandbox, programs, mode, word):
    """They are noticed, told in one line, and what they write is in the lines."""
    job = sandbox.run(unseen_program(programs, mode), interval="100ms")
    job.wait_committed(3)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 2)
    job.finish()
    assert_recovered(job)
    assert sum(word in line for line in lines_of_belay(job.errors)) == 2  # once for each epoch


def test_messages_that_the_sender_writes(sandbox, programs):
    """Open MPI copies large messages by process_vm_readv, or so when it is told to (then it is slow)."""
    program = programs.test_program("mem_ops", "--steps", 30, "--seconds", 3, ranks=2)
    job = sandbox.run(program, interval="100ms", OMPI_MCA_btl="self,vader",
                      OMPI_MCA_btl_vader_single_copy_mechanism="cma",
                      OMPI_MCA_btl_vader_flags="send,put,inplace", **KEEPS_A_CHILD)
    job.wait_committed(2)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 2)
    job.finish()
    assert_recovered(job)
    assert any("process_vm_writev" in line for line in lines_of_belay(job.errors)), job.errors


def test_a_line_copies_what_changed(sandbox, programs, belay):
    """Of a program that writes little, later lines copy a small part of its memory, also after a restart."""
    if not offered(belay, "pagemap_scan"):
        pytest.skip("this kernel does not offer pagemap_scan")
    job = sandbox.run(programs.test_program("mem_dirty", "--value", 64, "--steps", 400, "--seconds", 4))
    job.wait_committed(3)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 3)
    lines = [line for line in job.status()["lines"] if line["state"] == "committed"]
    assert lines[0]["captured_bytes"] > 4 * (64 << 20)
    for line in lines[1:]:
        assert line["captured_bytes"] < lines[0]["captured_bytes"] / 5, line
        assert line["image_bytes"] > 4 * (64 << 20), line
    job.finish()
    assert_recovered(job)


def test_unknown_tracker_is_refused(sandbox, programs, belay):
    done = belay("run", "--tracker", "guess", "--", "mpirun", "-n", "1", "true")
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if "guess" in line and "pagemap_scan" in line]


def test_line_beyond_the_limit_is_in_the_next(sandbox, programs, belay):
    """A line that --memory does not hold aborts and says so; the job goes on, and a later one commits."""
    job = sandbox.run(programs.test_program("mem_dirty", "--mode", "burst", "--value", 16, "--steps", 300,
                                            "--seconds", 4), options=["--memory", "150M"])
    status = job.wait_status(lambda status: any(line["state"] == "aborted" and "--memory" in line["reason"]
                                                for line in status["lines"]), 30, "an aborted line")
    last = status["lines"][-1]["line"]
    job.wait_committed(last + 1)
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def memory_cgroup():
    """A folder in which this user can make cgroups that limit memory, and the file of their limit and usage."""
    for folder, limit, usage in (("/sys/fs/cgroup", "memory.max", "memory.current"),
                                 ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")):
        path = os.path.join(folder, f"belay-test-{os.getpid()}")
        try:
            os.mkdir(path)
        except OSError:
            continue
        if os.access(os.path.join(path, limit), os.W_OK):
            return path, os.path.join(path, limit), os.path.join(path, usage)
        os.rmdir(path)
    return None


@pytest.fixture
def cgroup(sandbox):
    """All commands of the sandbox run in a cgroup; (limit, usage): its files."""
    found = memory_cgroup()
    if not found:
        pytest.skip("no cgroup with a memory limit can be made here")
    path, limit, usage = found
    sandbox.user = ["sh", "-c", f"echo $$ > '{path}/cgroup.procs'; exec \"$@\"", "sh"]
    yield limit, usage
    sandbox.belay("clean")
    sandbox.user = []
    sandbox.wait_quiet()
    wait_for(lambda: is_removed(path), 20, "the end of the cgroup")


def is_removed(path):
    """A cgroup can be removed when the kernel has forgotten its last process."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def test_limit_of_the_cgroup(sandbox, programs, belay, cgroup):
    """A line that the cgroup does not hold aborts with one line that says so, and the job goes on."""
    limit, usage = cgroup
    job = sandbox.run(programs.test_program("mem_dirty", "--mode", "burst", "--value", 16, "--steps", 90,
                                            "--seconds", 6), interval=None)
    job.wait_step(5)
    assert belay("checkpoint", "job").returncode == 0
    with open(usage, encoding="ascii") as file:
        taken = int(file.read())
    with open(limit, "w", encoding="ascii") as file:
        file.write(str(taken + (300 << 20)))  # the burst takes 96 MiB, its line twice as much, 128 are spared
    job.wait_step(35)
    done = belay("checkpoint", "job")
    assert done.returncode != 0 and len(done.stderr.strip().splitlines()) == 1 and "cgroup" in done.stderr
    job.wait_step(65)
    done = belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    assert job.kill_and_recover()["history"][-1]["restored_line"] == 3
    job.finish()
    assert_recovered(job)


def test_small_shared_memory(sandbox, programs):
    """Images need nothing of /dev/shm; Open MPI, which does, goes another way."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount here")
    sandbox.environment["OMPI_MCA_btl_vader_backing_directory"] = "/dev/shm"
    sandbox.user = ["unshare", "--mount", "sh", "-c",
                    "mount -t tmpfs -o size=1m none /dev/shm && exec \"$@\"", "sh"]
    job = sandbox.run(memory_program(programs, 2), interval="200ms", **KEEPS_A_CHILD)
    job.wait_committed(2)
    restored = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait_committed(restored + 1)
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)
