"""Lines as files: a job goes on from them when no node holds it in memory any more."""

import contextlib
import dataclasses
import os
import shutil

import pytest

import traces
from belaytest import assert_same_result
from nodes import on_nodes
from test_rollback_attacks import mounted
from waiting import wait_for


def files(programs, mode="append", seconds=4, ranks=4):
    """A program that makes, overwrites, appends to, renames and removes files."""
    program = programs.test_program("files", "--mode", mode, "--steps", 100 * seconds, "--seconds", seconds, ranks=ranks)
    return dataclasses.replace(program, outputs="data-*")


def archive_of(sandbox):
    folder = os.path.join(sandbox.base, "archive")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def lines_of(sandbox, name="job"):
    """The numbers of the archived lines that are whole."""
    folder = os.path.join(archive_of(sandbox), name)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name[len("line-"):]) for name in names
                  if name.startswith("line-") and os.path.exists(os.path.join(folder, name, "manifest")))


def lose_all(sandbox, job=None):
    """Nothing of Belay is left but the archive: no process, and another, empty run directory."""
    if job and job.process.poll() is None:
        job.process.kill()
        job.process.wait()
    traces.kill_processes_of(sandbox.rundir)
    sandbox.wait_quiet()
    shutil.rmtree(sandbox.rundir)
    os.mkdir(sandbox.rundir, 0o700)
    sandbox.remove_sessions()
    for name in os.listdir(sandbox.shared_memory):
        os.unlink(os.path.join(sandbox.shared_memory, name))
    sandbox.remove_files_of_ranks()


def go_on(job, where, options=(), line=()):
    """`belay restart --from` in the place of the job's process."""
    job._set_pace(None)
    job._start(["restart", *options, "--from", where, *(["--", *line] if line else [])])


def assert_gone_on(job, line):
    """From that line, with the result of an undisturbed run."""
    assert_same_result(job)
    status = job.status()
    assert status["history"][-1]["restored_line"] == line >= 1, status["history"]
    assert status["restarts"] == 1 and status["restarts_from_start"] == 0
    assert f"goes on from archived line {line} in " in job.errors


def halted_at_a_line(sandbox, program, *options):
    """A job that has ended at its second line, which is archived; its number."""
    job = sandbox.run(program, interval="100ms",
                      options=["--archive", archive_of(sandbox), "--halt-after-lines", "2", *options])
    wait_for(lambda: job.process.poll() is not None, 60, "the halt")
    assert job.process.returncode == 82, job.errors
    assert f"is archived: 'belay restart --from {archive_of(sandbox)}' goes on from it" in job.errors
    return job, lines_of(sandbox)[-1]


def test_everything_is_lost_after_a_halt(sandbox, programs):
    job, line = halted_at_a_line(sandbox, files(programs, ranks=2))
    lose_all(sandbox)
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on(job, line)


def archived_and_lost(sandbox, program, *options, every="2", **more):
    """Two lines are archived while a job runs, and then all of it is killed: the newest of them."""
    job = sandbox.run(program, interval="200ms",
                      options=["--archive", archive_of(sandbox), "--archive-every", every, *options], **more)
    job.wait_step(2)
    wait_for(lambda: len(lines_of(sandbox)) == 2 and lines_of(sandbox)[-1] >= 4, 60, "two archived lines")
    job.wait_lines()
    lose_all(sandbox, job)
    open(job.path("out"), "wb").close()  # what was written after the line is written again
    return job, lines_of(sandbox)[-1]


def assert_gone_on_in_the_middle(job, line):
    """What it has written before the line is in the output of the first part, which is not looked at."""
    reference = job.sandbox.programs.reference(job.program)
    result = job.result()
    assert result.status == 0, job.errors
    assert reference.stdout.endswith(result.stdout) and result.stdout
    assert [name for name, _ in result.files] == [name for name, _ in reference.files]
    for (name, mine), (_, theirs) in zip(result.files, reference.files):
        assert mine == theirs, f"{name} differs"
    status = job.status()
    assert status["history"][-1]["restored_line"] == line
    assert status["restarts"] == 1 and status["restarts_from_start"] == 0


# Those of test_files.py.
MODES = ["append", "rewrite", "truncate", "rename", "remove", "shared", "turns", "mapped", "ways", "numbers", "raw"]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", MODES)
def test_everything_is_lost_while_it_runs(sandbox, programs, mode):
    job, line = archived_and_lost(sandbox, files(programs, mode, seconds=6))
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on_in_the_middle(job, line)


def nameless(programs, mode="scratch+unnamed", kib=256):
    """A program that uses files without a name in every step, and shows them at its end."""
    program = programs.test_program("files_local", "--mode", mode, "--steps", 400, "--seconds", 4, "--value", kib, ranks=2)
    return dataclasses.replace(program, outputs="data-*")


def test_open_files_without_a_name(sandbox, programs):
    """They are in the images: a job goes on from its archive with their contents, though nobody holds them open."""
    job, line = archived_and_lost(sandbox, nameless(programs))
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on_in_the_middle(job, line)


@pytest.mark.campaign
def test_open_files_without_a_name_of_several_nodes(sandbox, programs):
    job, line = archived_and_lost(sandbox, nameless(programs), *on_nodes(2))
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on_in_the_middle(job, line)


@pytest.mark.campaign
def test_open_files_that_no_archive_can_hold(sandbox, programs):
    """Told once; the job goes on."""
    job = sandbox.run(nameless(programs), interval="200ms",
                      options=["--archive", archive_of(sandbox), "--archive-every", "1", "--file-limit", "128K"])
    job.wait_lines(3)
    assert job.finish() == 0
    assert_same_result(job)
    assert lines_of(sandbox) == []
    assert job.errors.count("is not archived: rank") == 1
    assert "has open files without a path, beyond --file-limit" in job.errors
    assert "is open and has no name: it is beyond --file-limit" in job.errors


def expect_refusal(job, code, text, where=None, **more):
    go_on(job, where or archive_of(job.sandbox), **more)
    assert job.wait(30) == code, job.errors
    said = [line for line in job.errors.splitlines() if line.startswith("belay:")]
    assert any(text in line for line in said[-2:]), job.errors


@pytest.mark.campaign
def test_what_cannot_be_gone_on_from(sandbox, programs):
    """Each refusal is one line, and leaves the archive as it is: then the restart works."""
    job, line = halted_at_a_line(sandbox, files(programs))
    folder = os.path.join(archive_of(sandbox), "job", f"line-{line}")
    for older in lines_of(sandbox)[:-1]:
        shutil.rmtree(os.path.join(archive_of(sandbox), "job", f"line-{older}"))
    lose_all(sandbox)
    part = os.path.join(folder, "rank-1")
    with open(part, "r+b") as file:
        file.seek(os.path.getsize(part) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    expect_refusal(job, 77, "rank-1 is damaged")
    with open(part, "r+b") as file:
        file.seek(os.path.getsize(part) // 2)
        file.write(byte)
    os.chmod(part, 0o666)
    expect_refusal(job, 77, "rank-1 is not used: others may write to it")
    os.chmod(part, 0o600)
    os.chmod(folder, 0o770)
    expect_refusal(job, 77, "others may write to it")
    os.chmod(folder, 0o700)
    manifest = os.path.join(folder, "manifest")
    os.rename(manifest, manifest + ".away")
    expect_refusal(job, 66, "no archived line is there that is whole")
    expect_refusal(job, 66, "cannot open the archive's manifest: No such file", where=folder)
    os.symlink(manifest + ".away", manifest)
    expect_refusal(job, 77, "cannot open the archive's manifest", where=folder)
    os.unlink(manifest)
    os.rename(manifest + ".away", manifest)
    undo = next(name for name in os.listdir(archive_of(sandbox)) if name.endswith(".undo"))
    undo = os.path.join(archive_of(sandbox), undo)
    os.rename(undo, undo + ".away")
    expect_refusal(job, 80, "files cannot be put back to what they were at line")
    os.rename(undo + ".away", undo)
    expect_refusal(job, 66, "No such file or directory", where=os.path.join(sandbox.base, "nowhere"))
    job.sandbox.belay("clean")
    job.sandbox.wait_quiet()
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on(job, line)


@pytest.mark.campaign
def test_another_number_of_ranks(sandbox, programs):
    job, line = halted_at_a_line(sandbox, files(programs))
    lose_all(sandbox)
    fewer = [word if word != "4" else "3" for word in job.line]
    expect_refusal(job, 77, f"line {line} was taken with 4 ranks, this launch has 3", line=fewer)
    lose_all(sandbox)
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on(job, line)


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["agent.archive.begin", "agent.archive.write@1", "agent.archive.part@2"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_an_agent_dies_while_it_writes(sandbox, programs, point, nodes):
    """The line is no archive; the job goes on from memory, and the next line is archived."""
    options = on_nodes(nodes) if nodes > 1 else []
    job = sandbox.run(files(programs, seconds=8), interval="200ms", BELAY_FAULT=f"{point}#4=kill",
                      options=["--archive", archive_of(sandbox), "--archive-every", "2", *options])
    job.wait_epoch(2, 60)
    wait_for(lambda: lines_of(sandbox) and lines_of(sandbox)[-1] >= 6, 60, "a newer archived line")
    job.wait_lines()
    lose_all(sandbox, job)
    line = lines_of(sandbox)[-1]
    assert 4 not in lines_of(sandbox)
    open(job.path("out"), "wb").close()
    go_on(job, archive_of(sandbox))
    job.finish()
    result, reference = job.result(), job.sandbox.programs.reference(job.program)
    assert result.files == reference.files and reference.stdout.endswith(result.stdout)
    assert job.status()["history"][-1]["restored_line"] == line


@pytest.mark.campaign
@pytest.mark.parametrize("fault", ["agent.archive.write", "arbiter.archive.manifest"])
def test_a_disk_that_fails(sandbox, programs, fault):
    """One line says so, the job goes on, and the earlier archive stays."""
    job = sandbox.run(files(programs, seconds=6), interval="200ms", BELAY_FAULT=f"{fault}#4-6=error",
                      options=["--archive", archive_of(sandbox), "--archive-every", "2"])
    job.wait_committed(7, 60)
    assert lines_of(sandbox)[:1] == [2]
    wait_for(lambda: lines_of(sandbox)[-1] >= 8, 60, "a newer archived line")
    assert job.finish() == 0
    assert_same_result(job)
    assert job.errors.count("is not archived: ") == 1
    assert lines_of(sandbox) == [] and not os.path.exists(os.path.join(archive_of(sandbox), "job"))


@pytest.mark.campaign
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk(sandbox, programs):
    """One line says so, what was archived stays, and there is more when there is room."""
    with mounted(os.path.join(sandbox.base, "archive"), "1g") as folder:
        job = sandbox.run(files(programs, seconds=8), interval="200ms",
                          options=["--archive", folder, "--archive-every", "2", "--undo-dir", sandbox.folder])
        wait_for(lambda: lines_of(sandbox), 60, "an archived line")
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * (1 << 20)):
                pass
        wait_for(lambda: "No space left on device" in job.errors, 60, "a line that is not archived")
        before = lines_of(sandbox)
        job.wait_lines(3)
        assert lines_of(sandbox) == before
        assert job.errors.count("is not archived: ") == 1
        os.unlink(os.path.join(folder, "filler"))
        wait_for(lambda: lines_of(sandbox)[-1] > before[-1], 60, "a newer archived line")
        assert job.finish() == 0
        assert_same_result(job)


@pytest.mark.campaign
def test_a_slow_disk(sandbox, programs):
    """Lines go on while one is written; those that come meanwhile are not archived."""
    job = sandbox.run(files(programs, seconds=6), interval="200ms", BELAY_FAULT="agent.archive.begin#1=delay:2500",
                      options=["--archive", archive_of(sandbox), "--archive-every", "1"])
    job.wait_committed(4)
    assert "a former line is still being written" in job.errors
    wait_for(lambda: lines_of(sandbox) and lines_of(sandbox)[-1] > 4, 60, "a newer archived line")
    job.wait_lines()
    lose_all(sandbox, job)
    line = lines_of(sandbox)[-1]
    open(job.path("out"), "wb").close()
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on_in_the_middle(job, line)


@pytest.mark.campaign
def test_an_older_line(sandbox, programs):
    """It is named; the newer one is given up, since files go back to before it."""
    job, line = archived_and_lost(sandbox, files(programs, "rewrite", seconds=6))
    older = lines_of(sandbox)[0]
    go_on(job, os.path.join(archive_of(sandbox), "job", f"line-{older}"))
    job.wait_epoch(2)
    assert f"archived line {line} is given up for line {older}" in job.errors
    job.finish()
    assert_gone_on_in_the_middle(job, older)


@pytest.mark.campaign
def test_a_loss_after_a_restart_from_an_archive(sandbox, programs):
    """And everything once more: from a line that the second part has archived."""
    job, _ = archived_and_lost(sandbox, files(programs, "rewrite", seconds=8))
    go_on(job, archive_of(sandbox))
    job.wait_lines()
    status = job.kill_and_recover()
    line = status["history"][-1]["restored_line"]
    wait_for(lambda: lines_of(sandbox)[-1] > line, 60, "a newer archived line")
    job.wait_lines()
    lose_all(sandbox, job)
    line = lines_of(sandbox)[-1]
    open(job.path("out"), "wb").close()
    go_on(job, archive_of(sandbox))
    job.finish()
    result, reference = job.result(), job.sandbox.programs.reference(job.program)
    assert result.files == reference.files and reference.stdout.endswith(result.stdout)
    assert job.status()["history"][-1]["restored_line"] == line


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["SINGLE", "PARTNER", "XOR"])
def test_everything_is_lost_on_four_nodes(sandbox, programs, scheme):
    job, line = archived_and_lost(sandbox, files(programs, "append", seconds=8), *on_nodes(4),
                                  "--redundancy", scheme)
    go_on(job, archive_of(sandbox))
    job.finish()
    assert_gone_on_in_the_middle(job, line)
