"""What docs/policies.md says of the world outside of memory holds, before a restart and after it."""

import re

import pytest

from belaytest import assert_recovered

# How many descriptors of each rank are named as lost.
LOST = {"children": 3, "sockets": 3, "devices": 1, "pipes": 0, "watches": 0}


@pytest.mark.parametrize("mode", LOST)
def test_outside_of_memory(sandbox, programs, mode):
    """The program looks at it in every step; the line after the restart finds what is left of it."""
    program = programs.test_program("outside", "--mode", mode, "--steps", 100, "--seconds", 2, ranks=2)
    job = sandbox.run(program, interval="200ms", options=["--children", "lose"])
    line = 0
    for _ in range(2):
        job.wait_committed(line + 1)
        line = job.kill_and_recover()["history"][-1]["restored_line"]
    job.finish()
    assert_recovered(job)
    named = re.findall(r"belay: descriptor \d+ \((.*)\) of the program is not restored", job.errors)
    assert len(named) == LOST[mode] * 2, job.errors
