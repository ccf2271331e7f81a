"""Files are after a kill and a restart what they would have been without."""

import dataclasses

import pytest

from belaytest import assert_recovered


def files(programs, mode, *arguments, steps=300, seconds=3):
    program = programs.test_program("files", "--mode", mode, "--steps", steps, "--seconds", seconds, *arguments)
    return dataclasses.replace(program, outputs="data-*")


@pytest.mark.parametrize("mode", ["append", "rewrite", "truncate", "rename", "remove", "shared", "ways"])
def test_contents_are_rolled_back(sandbox, programs, mode):
    job = sandbox.run(files(programs, mode), interval="200ms")
    job.wait_committed(2)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)
