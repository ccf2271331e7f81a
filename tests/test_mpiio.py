"""Files of MPI-IO across recovery lines and restarts: open handles, and what is in the files."""

import dataclasses
import os

import pytest

from belaytest import assert_recovered


def io_program(programs, name, mode, steps=40, seconds=1.5):
    program = programs.test_program(name, "--mode", mode, "--steps", steps, "--seconds", seconds)
    return dataclasses.replace(program, outputs="io-*")


def kill_and_compare(sandbox, program):
    job = sandbox.run(program, interval="150ms")
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.parametrize("mode", ["offsets", "pointers", "collective", "split", "shared"])
def test_open_files_across_a_kill(sandbox, programs, mode):
    seconds = {"split": 0.4, "shared": 0.5}.get(mode, 1.5)  # these pause several times in a step
    kill_and_compare(sandbox, io_program(programs, "io_calls", mode, seconds=seconds))


@pytest.mark.parametrize("mode", ["place", "grow", "names", "facts", "errors", "sequence"])
def test_contents_are_put_back(sandbox, programs, mode):
    kill_and_compare(sandbox, io_program(programs, "io_update", mode))


def test_parallel_hdf5(sandbox, programs):
    """A file that HDF5 keeps open, with its own memory of what is in it."""
    program = programs.test_program("io_hdf5", "--steps", 40, "--seconds", 1.5)
    kill_and_compare(sandbox, dataclasses.replace(program, outputs="io-*"))


def test_file_that_is_gone(sandbox, programs):
    """A restart that cannot open a file again says which, once, and does not try for ever."""
    job = sandbox.run(io_program(programs, "io_calls", "offsets", seconds=20), interval="200ms")
    job.wait_committed(2)
    os.remove(job.path("io-offsets.dat"))
    job.kill_rank()
    assert job.wait() != 0
    told = [line for line in job.errors.splitlines() if "again" in line and "io-offsets.dat" in line]
    assert len(told) == 1, job.errors


@pytest.mark.campaign
@pytest.mark.limit(600)
@pytest.mark.parametrize("name, mode", [("io_calls", "collective"), ("io_calls", "shared"), ("io_update", "place"),
                                        ("io_update", "grow"), ("io_update", "names"), ("io_hdf5", "")])
def test_campaign_of_kills(sandbox, programs, name, mode):
    job = sandbox.run(io_program(programs, name, mode, steps=200, seconds=8), interval="150ms",
                      options=["--max-restarts", "10"])
    job.wait_step(2)
    line = 0
    for _ in range(10):
        line = job.wait_committed(line + 1)
        line = job.kill_and_recover()["history"][-1]["restored_line"]
    job.finish()
    assert_recovered(job)
