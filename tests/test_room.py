"""Memory in the restart plan: ranks of a lost node go where there is room for them, and the job is held if there is none."""

import os
import signal

from belaytest import assert_recovered
from nodes import homes, kill_node, on_nodes, run_with_agent, service_of, workload


def test_ranks_go_where_there_is_room(sandbox, programs):
    """Without a limit each node that is left would get one of the two ranks. Each holds four images of 32 to 38 MiB,
    and node 0 has no room for a fifth one."""
    program = programs.test_program("mem_dirty", "--value", 32, "--steps", 200, "--seconds", 3, ranks=6)
    job = sandbox.run(program, options=[*on_nodes(3), "--memory", "156M"], interval=None)
    job.wait_step(2)
    assert sandbox.belay("checkpoint", "job").returncode == 0
    kill_node(sandbox, job, 1)
    status = job.wait_epoch(2)
    assert homes(status) == [0, 0, 2, 2, 2, 2]
    assert status["history"][-1]["restored_line"] == 1 and status["history"][-1]["fetch_ms"] == 0
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()


def test_no_node_has_room(sandbox, programs):
    """The job is held with everything that is left, and goes on when there is memory."""
    job = run_with_agent(sandbox, 0, "agent.memory=error", workload(programs, seconds=4), options=on_nodes(3))
    job.wait_lines()
    line = job.status()["newest_line"]
    kill_node(sandbox, job, 1)
    assert job.wait() == 75
    text = next(text for text in job.errors.splitlines() if "no memory for all ranks" in text)
    assert "node 0 has 0.0 MiB" in text and "MiB of memory" in text and "'belay restart job' goes on" in text
    assert "nodes 0, 2 hold the images of ranks 0-3" in text and "images are kept" not in job.errors
    status = job.status()
    assert status["state"] == "lost" and status["newest_line"] >= line
    os.kill(service_of(sandbox, 0)[0], signal.SIGKILL) # the next one has memory
    job.restart()
    status = job.wait_epoch(2)
    assert status["history"][-1]["restored_line"] >= line
    job.finish()
    assert_recovered(job, 1)
    sandbox.assert_clean()
