"""Whole programs on hosts of namespaces (lib/hosts.py): a host is lost under them, and the output is that of an undisturbed run."""

import pytest

from belaytest import assert_recovered, newest_line
from hosts_job import OrdinarySandbox
from nodes import homes, is_held_twice, states
from programs import PACE
from test_life import can_execute
from test_nodes import other_program

pytestmark = [pytest.mark.hosts("a", "b"), pytest.mark.campaign]

OF_THEIR_OWN_PACE = ("melt", )
USERS = ("nobody", "games")  # that every system has


def assert_went_on(status, before, places):
    """From a line at least as new as the newest one before the loss."""
    assert status["history"][-1]["restored_line"] >= newest_line(before) >= 1
    assert status["restarts_from_start"] == 0
    assert homes(status) == places


@pytest.mark.hosts("a", "b", "c")
@pytest.mark.parametrize("name", ["pickles", "melt", "p2_nbx", "p2pmix", "collmix", "threads"])
def test_a_spare_takes_over(sandbox, programs, hosts, name):
    """Exchanges whose partners are not known (NBX), point-to-point of all kinds, overlapping communicators, threads, mpi4py, LAMMPS."""
    program = other_program(programs, name)
    line = ["mpirun", "-n", "4", "--host", "a:2,b:2,c:2", "-x", PACE, *program.argv]
    job = sandbox.run(program, line=line, interval="200ms", options=["--spares", "1"], trace=name not in OF_THEIR_OWN_PACE)
    job.wait_lines()
    before = job.status()
    hosts.crash("b")
    status = job.wait_epoch(2, 60)
    assert_went_on(status, before, [0, 0, 2, 2])
    assert states(status) == ["member", "lost", "member"]
    if name not in OF_THEIR_OWN_PACE:
        job.wait_committed(status["history"][-1]["restored_line"] + 2)
        assert is_held_twice(job.status())
    job.finish()
    assert_recovered(job, 1)


def test_abort_over_the_loss_of_a_host(sandbox, programs, hosts):
    """A rank ends the program when the host of its peers has lost its power, before anybody has noticed: that is no end of the
    program's own."""
    program = programs.test_program("exits", "--steps", 50, "--seconds", 2, "--mode", "told", "--rank", 0, "--value", 7)
    job = sandbox.run(program, interval="1h")
    job.wait_epoch(1)
    done = sandbox.belay("checkpoint", "job")
    assert done.returncode == 0, done.stderr
    job.let_end()
    job.wait_step(50)
    hosts.crash("b", is_silent=True)
    with open(job.path("end"), "w", encoding="ascii"):
        pass
    assert job.wait() == 7
    status = sandbox.status("job")
    assert status["restarts"] == 1 and status["restarts_from_start"] == 0


def test_two_users(prefix, programs, hosts):
    """Side by side, each with agents of its own on both hosts; the loss of a host is the loss of a host for both."""
    boxes = [OrdinarySandbox(prefix, programs, hosts, name) for name in USERS]
    try:
        jobs = []
        for box, name in zip(boxes, ("ring", "collmix")):
            program = programs.test_program(name, "--steps", 400, "--seconds", 4)
            if not can_execute(box.user, box.command, program.argv[0]):
                pytest.skip("other users cannot execute what was built")
            jobs.append(box.run(program))
        for job in jobs:
            job.wait_lines()
        before = [job.status() for job in jobs]
        assert all("belayd" in box.programs_on(host) for box in boxes for host in "ab")
        hosts.crash("b")
        for job, status in zip(jobs, before):
            assert_went_on(job.wait_epoch(2, 60), status, [0, 0, 0, 0])
        for job in jobs:
            job.finish()
            assert_recovered(job, 1)
        for box in boxes:
            box.assert_clean()
    finally:
        for box in boxes:
            box.destroy()
