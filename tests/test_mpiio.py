"""Files of MPI-IO across recovery lines and restarts: open handles, and what is in the files."""

import dataclasses

import pytest

from belaytest import assert_recovered


def io_program(programs, name, mode, steps=40, seconds=2):
    program = programs.test_program(name, "--mode", mode, "--steps", steps, "--seconds", seconds)
    return dataclasses.replace(program, outputs="io-*")


def kill_and_compare(sandbox, program):
    job = sandbox.run(program, interval="200ms")
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


@pytest.mark.parametrize("mode", ["offsets", "pointers", "collective", "split", "shared"])
def test_open_files_across_a_kill(sandbox, programs, mode):
    kill_and_compare(sandbox, io_program(programs, "io_calls", mode))


@pytest.mark.parametrize("mode", ["place", "grow", "names", "facts", "sequence"])
def test_contents_are_put_back(sandbox, programs, mode):
    kill_and_compare(sandbox, io_program(programs, "io_update", mode))
