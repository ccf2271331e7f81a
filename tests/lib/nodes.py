"""Jobs on several nodes: which node runs what, and the loss of a local node."""

import os
import signal

import traces
from waiting import wait_for


def on_nodes(count):
    return ["--nodes", str(count), "--local"]


def workload(programs, name="ring", seconds=4, ranks=4):
    return programs.test_program(name, "--steps", 100 * seconds, "--seconds", seconds, ranks=ranks)


def node_of(status, rank):
    """The number of the node that runs the rank."""
    return next(node["number"] for node in status["nodes"] for row in node["ranks"] if row["rank"] == rank)


def homes(status):
    """The node of each rank."""
    return [node_of(status, rank) for rank in range(status["ranks"])]


def states(status):
    """Of each node: member, spare or lost."""
    return [node["state"] for node in status["nodes"]]


def is_held_twice(status):
    return all(len(row["holders"]) == 2 for node in status["nodes"] for row in node["ranks"])


def wait_back(job, line, deadline_s=60, is_copied=True):
    """All nodes are there, and a line after this one is committed, with copies on other nodes unless the job has parity."""
    return job.wait_status(lambda status: status["state"] == "running" and status["epoch"] in job.pids and
                           "lost" not in states(status) and status["newest_line"] > line and (not is_copied or is_held_twice(status)),
                           deadline_s, "all nodes")


def service_of(sandbox, number):
    """The agent and the keeper of a node: with both, its memory is really gone."""
    return traces.service_of(sandbox.rundir, number)


def kill_node(sandbox, job, *numbers):
    """Their agents, keepers and ranks. Returns the ranks' processes."""
    status = job.status()
    ranks = [row["pid"] for node in status["nodes"] if node["number"] in numbers for row in node["ranks"]]
    for pid in [pid for number in numbers for pid in service_of(sandbox, number)] + ranks:
        os.kill(pid, signal.SIGKILL)
    return ranks


def agent_of(job, number):
    return next(node["agent_pid"] for node in job.status()["nodes"] if node["number"] == number)


def wait_said(job, text, deadline_s=30):
    wait_for(lambda: text in job.errors, deadline_s, f"{text!r} in {job.errors}")


def run_with_agent(sandbox, number, fault, program, **options):
    """A job; the agent of this node is started before it, with a fault that no other agent has. It does not leave meanwhile."""
    with sandbox.start_agent_of(number, BELAY_FAULT=fault):
        job = sandbox.run(program, **options)
        wait_for(lambda: os.path.exists(os.path.join(sandbox.rundir, "jobs", "job.epochs")), 30, "the first epoch")
    return job
