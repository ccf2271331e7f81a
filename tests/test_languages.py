"""Programs that are not plain C, or are not started directly, recover like others."""

import os

import pytest

from belaytest import assert_recovered

FORTRAN = ["fortran77", "fortran90", "fortran08"]


def built(programs, name, *arguments, **options):
    """A test program that is only built where its compiler is there."""
    program = programs.test_program(name, *arguments, **options)
    if not os.path.exists(program.argv[0]):
        pytest.skip(f"{name} was not built: its compiler is missing")
    return program


@pytest.mark.parametrize("name", FORTRAN)
def test_fortran(sandbox, programs, name):
    job = sandbox.run(built(programs, name, "--steps", 300, "--seconds", 3))
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def test_fortran_twice(sandbox, programs):
    """Integers of handles that were made before the first restart are still good after the second one."""
    job = sandbox.run(built(programs, "fortran77", "--steps", 400, "--seconds", 4))
    for epoch in (1, 2):
        job.wait_committed(2 * epoch)
        job.kill_and_recover()
    job.wait()
    assert_recovered(job)


@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("kill", range(10))
@pytest.mark.parametrize("name", FORTRAN)
def test_campaign_of_fortran_kills(sandbox, programs, name, kill):
    job = sandbox.run(built(programs, name, "--steps", 400, "--seconds", 4), interval="150ms", seed=kill)
    job.wait_committed(1 + kill % 5)
    job.wait_step(job.random.randrange(1, 200))
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)
