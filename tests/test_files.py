"""Files and standard streams are after kills and restarts what they would have been without."""

import dataclasses
import os
import re
import select
import shutil
import signal
import struct
import subprocess

import pytest

from belaytest import assert_recovered, assert_restored, assert_same_result, recover_twice
from waiting import wait_for


NOBODY = 65534
MODES = ["append", "rewrite", "truncate", "rename", "remove", "shared", "turns", "mapped", "ways", "numbers", "raw"]


def files(programs, mode, *arguments, steps=200, seconds=2):
    program = programs.test_program("files", "--mode", mode, "--steps", steps, "--seconds", seconds, *arguments)
    return dataclasses.replace(program, outputs="data-*")


def restored_line(job):
    """The line that the newest epoch has begun from, 0: the start."""
    status = job.status()
    return status["history"][-1]["restored_line"] if status and status["history"] else 0


@pytest.mark.parametrize("mode", MODES)
def test_contents_are_rolled_back(sandbox, programs, mode):
    job = sandbox.run(files(programs, mode), interval="200ms")
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)


@pytest.mark.parametrize("place", ["beside", "elsewhere"])
def test_more_of_files(sandbox, programs, place):
    """Twice, so that what is put back is changed and put back again. What is kept is on their file system, or not."""
    program = programs.test_program("files_more", "--steps", 120, "--seconds", 3, ranks=2)
    options = ["--undo-dir", sandbox.shared_memory] if place == "elsewhere" else []
    job = sandbox.run(dataclasses.replace(program, outputs="data-*-0"), interval="100ms", options=options)
    recover_twice(job)
    assert "is not protected" not in job.errors


def test_files_that_lose_their_names_before_a_line_that_fails(sandbox, programs, belay):
    """They had names at the line that the program goes back to, and none at the line that was not committed."""
    sandbox.start_agent(BELAY_FAULT="agent.captured#2=error")
    program = programs.test_program("files_more", "--steps", 40, "--seconds", 6, ranks=2)
    job = sandbox.run(dataclasses.replace(program, outputs="data-*-0"), interval=None)
    job.wait_step(10)
    assert belay("checkpoint", "job").returncode == 0
    job.wait_step(max(step for _, step in job.steps()) + 1)
    assert belay("checkpoint", "job").returncode != 0
    job.wait_step(max(step for _, step in job.steps()) + 2)
    job.kill_and_recover()
    assert job.status()["history"][-1]["restored_line"] == 1
    job.finish()
    assert_recovered(job)


def held_files(programs, mebibytes):
    program = programs.test_program("files_held", "--steps", 80, "--seconds", 3, "--value", mebibytes, ranks=2)
    return dataclasses.replace(program, outputs="data-[nrs]*-?")


@pytest.mark.parametrize("mebibytes", [2, 80])
def test_open_files_that_no_path_leads_to(sandbox, programs, mebibytes):
    """Twice: the agent holds what is open for the one restart and for the next."""
    recover_twice(sandbox.run(held_files(programs, mebibytes), interval="100ms"))


def test_open_files_outlive_the_agent(sandbox, programs):
    """The keeper has them, too."""
    job = sandbox.run(held_files(programs, 2), interval="100ms")
    job.wait_committed(3)
    os.kill(sandbox.agent()[0], signal.SIGKILL)
    assert job.wait_epoch(2)["history"][-1]["restored_line"] >= 3
    job.finish()
    assert_same_result(job)
    assert_restored(job, 1)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become another user")
def test_open_files_that_may_not_be_opened_again(sandbox, programs):
    """Which means nothing to root."""
    program = held_files(programs, 2)
    sandbox.become(NOBODY)
    if subprocess.run([*sandbox.user, "test", "-x", program.argv[0]], check=False).returncode:
        pytest.skip("other users cannot execute what was built")
    recover_twice(sandbox.run(program, interval="100ms"))


def test_a_file_beyond_the_limit_is_named(sandbox, programs):
    """It is not protected then, and the program may go wrong after a restart; without one it does not."""
    job = sandbox.run(files(programs, "rewrite"), interval="200ms", options=["--undo-limit", "8K"])
    job.wait_committed(2)
    assert job.finish() == 0
    assert "--undo-limit" in job.errors and "data-" in job.errors


@pytest.mark.campaign
@pytest.mark.limit(600)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(5))
def test_campaign_of_files(sandbox, programs, mode, seed):
    job = sandbox.run(files(programs, mode, steps=1500, seconds=15), interval="150ms", seed=seed,
                      options=["--max-restarts", "20"])
    for _ in range(5):
        job.wait_committed(restored_line(job) + 1)
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)


# ---- standard streams ----

def lines(programs, mode, *arguments, steps=2000, seconds=2, ranks=3):
    return programs.test_program("lines", "--mode", mode, "--steps", steps, "--seconds", seconds, *arguments,
                                 ranks=ranks)


def numbers(text, rank, stream):
    """The numbers in the lines of a rank, in their order."""
    rows = [row.split() for row in text.splitlines()]
    return [int(row[2]) for row in rows if len(row) > 2 and row[:2] == [str(rank), stream]]


def assert_every_line_once(job, stream, text, steps=2000):
    for rank in range(job.program.ranks):
        found = numbers(text, rank, stream)
        assert found == list(range(1, steps + 1)), f"rank {rank}: {len(found)} lines"


def run_with_kills(sandbox, program, kills=2, **options):
    job = sandbox.run(program, interval="200ms", trace=False, **options)
    for _ in range(kills):
        job.wait_committed(restored_line(job) + 1)
        job.kill_and_recover()
    assert job.finish() == 0
    assert_restored(job, kills)
    return job


@pytest.mark.campaign
@pytest.mark.limit(600)
@pytest.mark.parametrize("mode", ["stdout", "writev", "large"])
@pytest.mark.parametrize("seed", range(5))
def test_campaign_of_lines(sandbox, programs, mode, seed):
    program = lines(programs, mode, steps=15000, seconds=15)
    job = run_with_kills(sandbox, program, kills=5, piped=True, seed=seed, options=["--max-restarts", "20"])
    assert_every_line_once(job, "out", job.read("out").decode(), steps=15000)


@pytest.mark.parametrize("mode", ["stdout", "writev", "large"])
def test_every_line_once_through_a_pipe(sandbox, programs, mode):
    job = run_with_kills(sandbox, lines(programs, mode), piped=True)
    assert_every_line_once(job, "out", job.read("out").decode())


def test_both_streams_into_files(sandbox, programs):
    job = run_with_kills(sandbox, lines(programs, "both"))
    assert_every_line_once(job, "out", job.read("out").decode())
    errors = "".join(row for row in job.errors.splitlines(keepends=True) if " err " in row)
    assert_every_line_once(job, "err", errors)


def test_streams_that_a_program_has_moved(sandbox, programs):
    """A copy goes on where it was, what was thrown away stays away, two that were one are one again."""
    job = run_with_kills(sandbox, lines(programs, "moved"), piped=True)
    out = job.read("out").decode()
    every = list(range(1, 2001))
    assert [numbers(out, rank, "out") for rank in range(3)] == [every, [], every]
    assert numbers(out, 2, "err") == every
    assert "not restored" not in job.errors


def test_lines_that_the_launcher_tags(sandbox, programs):
    """They go through it: in order, each with its rank's tag; a kill may cut or lose some, or repeat one. So it comes
    long before the last of them."""
    program = lines(programs, "stdout", seconds=6)
    job = run_with_kills(sandbox, program, kills=1, piped=True, line=["mpirun", "--tag-output", "-n", "3", *program.argv])
    out = job.read("out").decode()
    for rank in range(3):
        found = [int(number) for number in re.findall(rf"^\[1,{rank}\]<stdout>:{rank} out (\d+)$", out, re.M)]
        assert found == sorted(found) and len(found) - len(set(found)) <= 2 and found[-1] == 2000, found


def test_buffers_are_carried_over(sandbox, programs):
    job = run_with_kills(sandbox, lines(programs, "blocks"), kills=1, piped=True)
    assert numbers(job.read("out").decode(), 0, "out") == list(range(1, 2001))


def start_writing(sandbox, programs, folder, output):
    """belay run of a program that writes 600,000 bytes to this descriptor."""
    program = lines(programs, "large", steps=200, seconds=1, ranks=1)
    return subprocess.Popen([sandbox.command, "run", "--", "mpirun", "-n", "1", *program.argv], stdout=output,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=sandbox.environment, cwd=folder)


def test_output_to_a_full_disk(sandbox, programs, tmp_path):
    """The program goes on, and one line says what is lost."""
    with open("/dev/full", "wb") as full:
        process = start_writing(sandbox, programs, tmp_path, full)
    errors = process.communicate()[1].decode()
    assert process.returncode == 0
    assert errors.count("belay: standard output cannot be written: No space left on device") == 1


def test_output_to_a_pipe_that_does_not_block(sandbox, programs, tmp_path):
    """Another process may have made it so: what does not fit waits for the reader."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    process = start_writing(sandbox, programs, tmp_path, writer)
    wait_for(lambda: not select.select([], [writer], [], 0)[1], 60, "a full pipe")
    os.close(writer)
    os.set_blocking(reader, True)
    with open(reader, "rb") as file:
        text = file.read().decode()
    errors = process.communicate()[1].decode()
    assert process.returncode == 0 and "cannot be written" not in errors
    assert numbers(text, 0, "out") == list(range(1, 201))


def test_other_output_is_reported_once(sandbox, programs):
    """Not by each rank and after each restart."""
    job = run_with_kills(sandbox, lines(programs, "random"), kills=2, piped=True)
    assert job.errors.count("is not what it had written") == 1 and "times that differ are harmless" in job.errors


def test_lines_of_other_lengths(sandbox, programs):
    """Lines with times are not the same again; each is there once all the same, and whole."""
    job = run_with_kills(sandbox, lines(programs, "times"), piped=True)
    out = job.read("out").decode()
    assert_every_line_once(job, "out", out)
    rows = [row for row in out.splitlines() if " out " in row]
    assert all(re.fullmatch(r"\d out \d+ [\d.]+ s", row) for row in rows)


def test_input_is_fed_again(sandbox, programs, tmp_path):
    source = tmp_path / "input"
    source.write_text("".join(f"input {number}\n" for number in range(1, 2001)), encoding="ascii")
    job = run_with_kills(sandbox, lines(programs, "stdin", ranks=2), piped=True, stdin=source)
    for rank in range(2):
        rows = [row.split() for row in job.read("out").decode().splitlines() if row.startswith(f"{rank} out")]
        assert rows == [[str(rank), "out", str(number), "input", str(number)] for number in range(1, 2001)]


def test_streams_outlive_belay_run(sandbox, programs):
    """The arbiter is killed; `belay restart` writes what is missing behind what was written."""
    program = lines(programs, "stdout")
    job = sandbox.run(program, interval="200ms", trace=False)
    job.wait_committed(2)
    job.process.kill()
    job.wait()
    wait_for(lambda: sandbox.status("job")["state"] == "lost", 20, "the end of the launch")
    job.restart()
    assert job.finish() == 0
    assert_every_line_once(job, "out", job.read("out").decode())


def write_table(path, numbers, changed_s):
    """A file with these numbers and this time of change, and an inode of its own."""
    with open(f"{path}.new", "wb") as file:
        file.write(struct.pack(f"{len(numbers)}Q", *numbers))
    os.utime(f"{path}.new", (changed_s, changed_s))
    os.rename(f"{path}.new", path)


def test_a_mapped_file_counts_by_what_it_contains(sandbox, programs):
    """A restart takes a copy with another inode and another time, as another host has it, and no other file of the same time."""
    path, program = os.path.join(sandbox.folder, "table"), os.path.join(sandbox.folder, "mapped_table")
    numbers = [number * number for number in range(4096)]
    write_table(path, numbers, 1000000000)
    built = programs.test_program("mapped_table", "--mode", path, "--steps", 150, "--seconds", 3)
    shutil.copyfile(built.argv[0], program)
    os.chmod(program, 0o755)
    job = sandbox.run(dataclasses.replace(built, argv=(program, *built.argv[1:])), options=["--max-restarts", "0"])
    job.wait_lines()
    job.kill_rank(1)
    assert job.wait() != 0
    write_table(path, [*numbers[:-1], 1], 1000000000)
    job.restart()
    assert job.wait() != 0 and f"{path} has changed since the line was taken" in job.errors
    write_table(path, numbers, 1100000000)
    shutil.copyfile(program, f"{program}.new")
    os.chmod(f"{program}.new", 0o755)
    os.rename(f"{program}.new", program)
    job.restart()
    status = job.wait_status(lambda status: status["state"] == "running" and status["epoch"] > 2)
    assert status["history"][-1]["restored_line"] >= 1
    job.finish()
    assert_same_result(job)
