"""Files and standard streams are after kills and restarts what they would have been without."""

import dataclasses

import pytest

from belaytest import assert_recovered, assert_restored
from waiting import wait_for


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


# ---- standard streams ----

def lines(programs, mode, *arguments, steps=3000, seconds=3, ranks=3):
    return programs.test_program("lines", "--mode", mode, "--steps", steps, "--seconds", seconds, *arguments,
                                 ranks=ranks)


def numbers(text, rank, stream):
    """The numbers in the lines of a rank, in their order."""
    rows = [row.split() for row in text.splitlines()]
    return [int(row[2]) for row in rows if len(row) > 2 and row[:2] == [str(rank), stream]]


def assert_every_line_once(job, stream, text, steps=3000):
    for rank in range(job.program.ranks):
        found = numbers(text, rank, stream)
        assert found == list(range(1, steps + 1)), f"rank {rank}: {len(found)} lines"


def run_with_kills(sandbox, program, kills=2, **options):
    job = sandbox.run(program, interval="200ms", trace=False, **options)
    for _ in range(kills):
        status = job.status()
        restored = status["history"][-1]["restored_line"] if status else 0
        job.wait_committed(restored + 1)
        job.kill_and_recover()
    assert job.wait() == 0
    assert_restored(job, kills)
    return job


@pytest.mark.parametrize("mode", ["stdout", "writev", "large"])
def test_every_line_once_through_a_pipe(sandbox, programs, mode):
    job = run_with_kills(sandbox, lines(programs, mode), piped=True)
    assert_every_line_once(job, "out", job.read("out").decode())


def test_both_streams_into_files(sandbox, programs):
    job = run_with_kills(sandbox, lines(programs, "both"))
    assert_every_line_once(job, "out", job.read("out").decode())
    errors = "".join(row for row in job.errors.splitlines(keepends=True) if " err " in row)
    assert_every_line_once(job, "err", errors)


def test_buffers_are_carried_over(sandbox, programs):
    job = run_with_kills(sandbox, lines(programs, "blocks"), kills=1, piped=True)
    assert numbers(job.read("out").decode(), 0, "out") == list(range(1, 3001))


def test_other_output_is_reported_once(sandbox, programs):
    job = run_with_kills(sandbox, lines(programs, "random", ranks=1), kills=1, piped=True)
    assert job.errors.count("is not what it had written") == 1


def test_input_is_fed_again(sandbox, programs, tmp_path):
    source = tmp_path / "input"
    source.write_text("".join(f"input {number}\n" for number in range(1, 3001)), encoding="ascii")
    job = run_with_kills(sandbox, lines(programs, "stdin", ranks=2), piped=True, stdin=source)
    for rank in range(2):
        rows = [row.split() for row in job.read("out").decode().splitlines() if row.startswith(f"{rank} out")]
        assert rows == [[str(rank), "out", str(number), "input", str(number)] for number in range(1, 3001)]


def test_streams_outlive_belay_run(sandbox, programs):
    """The arbiter is killed; `belay restart` writes what is missing behind what was written."""
    program = lines(programs, "stdout")
    job = sandbox.run(program, interval="200ms", trace=False)
    job.wait_committed(2)
    job.process.kill()
    job.wait()
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 20, "the end of the launch")
    job.restart()
    assert job.wait() == 0
    assert_every_line_once(job, "out", job.read("out").decode())
