"""Files of MPI-IO across recovery lines and restarts: open handles, and what is in the files."""

import dataclasses

import pytest

from belaytest import assert_recovered


def io_calls(programs, mode, steps=40, seconds=2):
    program = programs.test_program("io_calls", "--mode", mode, "--steps", steps, "--seconds", seconds)
    return dataclasses.replace(program, outputs="io-*")


@pytest.mark.parametrize("mode", ["offsets", "pointers", "collective", "split", "shared"])
def test_open_files_across_a_kill(sandbox, programs, mode):
    job = sandbox.run(io_calls(programs, mode), interval="200ms")
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)
