"""MPI objects live through lines and restarts: made before, used all along, used by the restarted program."""

import pytest

from belaytest import assert_recovered, newest_line

PROGRAMS = ["obj_topo"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_recover(sandbox, programs, name):
    """Two kills: what was rebuilt after the first restart is noted and rebuilt again."""
    job = sandbox.run(programs.test_program(name, "--steps", 120, "--seconds", 3), interval="200ms")
    for _ in range(2):
        job.wait_step(2)
        job.wait_committed(newest_line(job.status()) + 2)
        job.kill_and_recover()
    job.wait()
    assert_recovered(job)
