"""Files are put back only where they are still the job's: others rename, replace and link what they can."""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

from belaytest import Job
from waiting import wait_for

NOBODY = 65534
HELD = 80  # the exit code of a job that is held because files could not be put back

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs files of two users")


class Deeds:
    """A job whose ranks change files as `begin` (before the line), `then` (after it) and `last` say."""

    def __init__(self, sandbox, programs, begin=(), then=(), last=(), ranks=2, **options):
        self.sandbox = sandbox
        self.job = Job(sandbox, programs.test_program("deeds", ranks=ranks), interval=None, trace=False, **options)
        sandbox.jobs.append(self.job)
        for name, lines in (("begin", begin), ("then", then), ("last", last)):
            self.add(name, lines)

    def add(self, script, lines):
        """Commands of rank 0, or of the rank that comes first in them."""
        with open(self.path(script), "a", encoding="utf-8") as file:
            for line in lines:
                file.write("\t".join(map(str, line if isinstance(line[0], int) else (0, *line))) + "\n")

    def then(self, lines):
        self.add("then", lines)

    def path(self, name):
        return os.path.join(self.job.folder, name)

    def write(self, name, text="", mode=None, uid=None):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        if uid is not None:
            os.chown(self.path(name), uid, uid)
        if mode is not None:
            os.chmod(self.path(name), mode)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def mkdir(self, name, mode=0o755, uid=None):
        os.mkdir(self.path(name))
        os.chmod(self.path(name), mode)
        if uid is not None:
            os.chown(self.path(name), uid, uid)

    def is_there(self, name):
        return os.path.lexists(self.path(name))

    def run(self, has_line=True):
        """Start, take a line, and have the files changed."""
        self.job.start()
        self.job.wait_epoch(1)
        if has_line:
            done = self.sandbox.belay("checkpoint", "job")
            assert done.returncode == 0, done.stderr
        self.change()
        return self

    def change(self):
        self.write("go")
        wait_for(lambda: self.is_there("did"), 20, f"the changes:\n{self.job.errors}")
        os.unlink(self.path("go"))

    def lose(self):
        """Kill a rank. What follows does not change files before it is told to."""
        self.job.kill_rank(0)

    def recover(self, epoch=2):
        self.lose()
        return self.job.wait_epoch(epoch)

    def hold(self):
        """Kill a rank; the restart must fail, and the job is held. What the status says of it."""
        self.lose()
        assert self.job.wait() == HELD, self.job.errors
        return self.held()

    def held(self):
        status = self.sandbox.status("job")
        assert status["state"] == "lost"
        assert "could not be put back" in status["message"], status["message"]
        return status

    def finish(self):
        """The changes once more, and the end."""
        self.change()
        self.write("end")
        assert self.job.wait() == 0, self.job.errors
        assert self.job.read("out") == b"done\n"
        return self.sandbox.status("job")


def restart(deeds):
    """`belay restart`, to its end; a CompletedProcess."""
    return deeds.sandbox.belay("restart", "job", cwd=deeds.job.folder)


@contextlib.contextmanager
def elsewhere():
    """A folder on another file system than the jobs' files, where a copy has to be kept of each."""
    folder = tempfile.mkdtemp(prefix="belay-", dir="/dev/shm")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


# ---- what others do to files ----

def test_other_files_are_left_alone(sandbox, programs):
    """Rotated, replaced, removed; a FIFO, a folder: one line names each, the program goes on from the line."""
    deeds = Deeds(sandbox, programs,
                  begin=[("open", 1, "log", "a"), ("put", 1, "one\\n"), ("open", 2, "kept", "rw")],
                  then=[("put", 1, "two\\n"), ("append", "replaced", "+"), ("append", "removed", "+"),
                        ("append", "fifo", "+"), ("append", "folder", "+"), ("create", "made", "by the job"),
                        ("unlink", "gone"), ("rename", "moved", "elsewhere"), ("write", "kept", 0, "X")],
                  last=[("put", 1, "three\\n"), ("put", 2, "end")])
    for name in ("replaced", "removed", "fifo", "folder", "gone", "moved", "kept"):
        deeds.write(name, "abc")
    deeds.run()
    assert deeds.text("log") == "one\ntwo\n"
    os.rename(deeds.path("log"), deeds.path("log.1"))
    for name in ("log", "gone", "moved"):
        deeds.write(name, "another's")
    for name in ("replaced", "made"):
        deeds.write("new", "another's")
        os.rename(deeds.path("new"), deeds.path(name))
    for name in ("removed", "fifo", "folder"):
        os.unlink(deeds.path(name))
    os.mkfifo(deeds.path("fifo"))
    os.mkdir(deeds.path("folder"))
    status = deeds.recover()
    assert deeds.text("log.1") == "one\n" and deeds.text("kept") == "abc"
    for name in ("log", "gone", "moved", "replaced", "made"):
        assert deeds.text(name) == "another's", name
    assert deeds.text("elsewhere") == "abc" and not deeds.is_there("removed")
    assert stat.S_ISFIFO(os.lstat(deeds.path("fifo")).st_mode) and os.path.isdir(deeds.path("folder"))
    left = ("replaced", "removed", "fifo", "folder", "made", "gone", "moved")
    for name in left:
        assert deeds.job.errors.count(f"/{name} is left as it is") == 1, deeds.job.errors
    assert status["files_left"] == len(left)
    os.unlink(deeds.path("fifo"))  # or the program would wait for a reader
    os.rmdir(deeds.path("folder"))
    for name in ("removed", "fifo", "folder", "moved"):
        deeds.write(name, "abc")
    os.unlink(deeds.path("elsewhere"))
    os.unlink(deeds.path("made"))
    deeds.finish()
    assert deeds.text("log.1") == "one\ntwo\nthree\n", "an open log goes on under its new name"
    assert deeds.text("kept") == "end"


def test_a_folder_swapped_for_a_link(sandbox, programs):
    """Nothing behind it is touched, nothing is forgotten: the job is held until the folder is there again."""
    deeds = Deeds(sandbox, programs, then=[("append", "box/file", "+"), ("unlink", "box/old"), ("create", "new", "x")])
    deeds.mkdir("box")
    deeds.mkdir("private", 0o700)
    for name in ("box/file", "box/old", "private/file", "private/old"):
        deeds.write(name, "abc")
    deeds.run()
    os.rename(deeds.path("box"), deeds.path("away"))
    os.symlink("private", deeds.path("box"))
    status = deeds.hold()
    assert "/box/" in status["message"] and "symbolic link" in status["message"]
    assert "belay restart job" in deeds.job.errors and status["held_bytes"] > 0
    os.unlink(deeds.path("box"))
    os.rename(deeds.path("private"), deeds.path("box"))  # a folder, but not the one
    done = restart(deeds)
    assert done.returncode == HELD and "another one now" in done.stderr, done.stderr
    refused = sandbox.belay("run", "--name", "job", "--", "mpirun", "-n", "1", "true")
    assert refused.returncode == 64 and "belay clean job" in refused.stderr, refused.stderr
    os.rename(deeds.path("box"), deeds.path("private"))
    assert deeds.text("private/file") == deeds.text("private/old") == "abc"
    assert deeds.text("away/file") == "abc+" and not deeds.is_there("away/old")
    os.rename(deeds.path("away"), deeds.path("box"))
    deeds.job.restart()
    deeds.job.wait_epoch(2)
    assert deeds.text("box/file") == deeds.text("box/old") == "abc" and not deeds.is_there("new")
    status = deeds.finish()
    assert status["files_left"] == 0 and status["restarts"] == 1


def test_a_held_job_is_given_up(sandbox, programs):
    deeds = Deeds(sandbox, programs, then=[("append", "box/file", "+"), ("append", "file", "+")])
    deeds.mkdir("box")
    deeds.write("box/file", "abc")
    deeds.write("file", "abc")
    deeds.run()
    os.rename(deeds.path("box"), deeds.path("away"))
    deeds.hold()
    deeds.job.restart(options=["--leave-files"])
    status = deeds.job.wait_epoch(2)
    assert status["files_left"] == 1 and "/box/file is left as it is" in deeds.job.errors
    assert deeds.text("file") == "abc" and deeds.text("away/file") == "abc+"
    os.rename(deeds.path("away"), deeds.path("box"))
    deeds.change()
    os.rename(deeds.path("box"), deeds.path("away"))
    deeds.hold()
    assert sandbox.belay("clean", "job").returncode == 0
    assert sandbox.status("job") is None and not os.path.exists(os.path.join(sandbox.rundir, "undo", "job"))
    assert deeds.text("away/file") == "abc++"


# ---- whose files come back as whose ----

def rights(path):
    entry = os.lstat(path)
    return entry.st_uid, stat.S_IMODE(entry.st_mode)


REMOVED = ("suid", "own-suid", "plain", "link", "empty", "open")


@needs_root
@pytest.mark.parametrize("where", ["by a link", "by a copy"])
def test_nothing_of_others_comes_back_as_ours(sandbox, programs, where):
    """Root's ranks remove files of another user, in a folder that he may write to."""
    with contextlib.ExitStack() as stack:
        options = ["--undo-dir", stack.enter_context(elsewhere())] if where == "by a copy" else []
        deeds = Deeds(sandbox, programs, options=options,
                      then=[("rmdir" if name == "empty" else "unlink", f"tmp/{name}") for name in REMOVED])
        deeds.mkdir("tmp", 0o1777)
        deeds.write("tmp/suid", "bad code", 0o6755, NOBODY)
        deeds.write("tmp/own-suid", "good code", 0o4755, 0)
        deeds.write("tmp/plain", "another's", 0o644, NOBODY)
        deeds.write("tmp/open", "ours", 0o666, 0)
        deeds.mkdir("tmp/empty", 0o777, NOBODY)
        os.symlink("/etc/shadow", deeds.path("tmp/link"))
        os.lchown(deeds.path("tmp/link"), NOBODY, NOBODY)
        deeds.run()
        assert os.listdir(deeds.path("tmp")) == []
        deeds.recover()
        found = {name: rights(deeds.path(f"tmp/{name}")) for name in os.listdir(deeds.path("tmp"))}
        expected = {"own-suid": (0, 0o755), "open": (0, 0o666)}
        if where == "by a link":
            expected["plain"] = (NOBODY, 0o644)
        assert found == expected
        assert "/tmp/suid is not protected: it belongs to another user" in deeds.job.errors
        for name in set(REMOVED) - set(expected):
            assert f"/tmp/{name} is left as it is: it was not protected" in deeds.job.errors
        deeds.mkdir("tmp/empty")
        for name in set(REMOVED) - set(expected) - {"empty"}:
            deeds.write(f"tmp/{name}")
        deeds.finish()


@needs_root
def test_an_ordinary_user_removes_files_of_root(sandbox, programs):
    """The kernel may refuse a link to them; a copy would be his."""
    sandbox.become(NOBODY)
    deeds = Deeds(sandbox, programs, then=[("unlink", "file"), ("rename", "new", "other")])
    for name in ("file", "other"):
        deeds.write(name, "root's", 0o644, 0)
    deeds.write("new", "mine", 0o644, NOBODY)
    os.chown(deeds.job.folder, NOBODY, NOBODY)
    deeds.run()
    deeds.recover()
    assert deeds.text("new") == "mine" and rights(deeds.path("new"))[0] == NOBODY
    for name in ("file", "other"):
        assert not deeds.is_there(name) or rights(deeds.path(name))[0] == 0
        assert deeds.is_there(name) or f"/{name} is left as it is: it was not protected" in deeds.job.errors
        deeds.write(name)
    deeds.finish()


def test_copies_come_back_as_they_were(sandbox, programs):
    """Permissions whatever the umask, holes, and what the program did to them before they went."""
    with elsewhere() as folder:
        deeds = Deeds(sandbox, programs, options=["--undo-dir", folder], begin=[("umask", "0777")],
                      then=[("append", "file", "+"), ("unlink", "file"), ("unlink", "sparse"), ("append", "late", "+"),
                            ("mkdir", "dir/x"), ("rmdir", "dir/x"), ("rename", "dir", "dir2"), ("unlink", "dir2/in"),
                            ("rmdir", "dir2"), ("umask", "022")],
                      last=[("open", 1, "file", "rw"), ("put", 1, "same")])
        deeds.write("file", "text", 0o640)
        deeds.write("late", "text")
        deeds.mkdir("dir", 0o775)
        deeds.write("dir/in", "text", 0o604)
        deeds.write("sparse", "", 0o600)
        os.truncate(deeds.path("sparse"), 1 << 30)
        deeds.run()
        kept = os.listdir(folder)
        assert kept == [f"job-{os.geteuid()}.undo"]
        for path, folders, files in os.walk(folder):
            for name in [*folders, *files]:
                mode = stat.S_IMODE(os.lstat(os.path.join(path, name)).st_mode)
                assert mode == (0o700 if name in folders else 0o600), (path, name)
        deeds.recover()
        assert deeds.text("file") == deeds.text("late") == deeds.text("dir/in") == "text"
        modes = [rights(deeds.path(name))[1] for name in ("file", "dir", "dir/in", "sparse")]
        assert modes == [0o640, 0o775, 0o604, 0o600]
        assert os.stat(deeds.path("sparse")).st_size == 1 << 30 and os.stat(deeds.path("sparse")).st_blocks < 100
        assert "not protected" not in deeds.job.errors
        deeds.job.kill_and_recover(1)  # again from the same line, whose files are others by now
        assert deeds.text("file") == "text"
        deeds.write("last", "")
        deeds.finish()


@pytest.mark.parametrize("first, second", [("one", "two"), ("two", "one")])
def test_a_copy_is_no_second_file(sandbox, programs, first, second):
    """A file with two names, which is kept by a copy, is one file again, whichever names it has lost."""
    with elsewhere() as folder:
        deeds = Deeds(sandbox, programs, options=["--undo-dir", folder],
                      then=[("append", "one", "+"), ("unlink", first), ("append", "three", "+"), ("unlink", "four"),
                            ("append", "three", "-"), ("unlink", second), ("unlink", "three")])
        for name, other in (("one", "two"), ("three", "four")):
            deeds.write(name, "text")
            os.link(deeds.path(name), deeds.path(other))
        deeds.run()
        deeds.recover()
        for name, other in (("one", "two"), ("three", "four")):
            assert deeds.text(name) == deeds.text(other) == "text"
            assert os.path.samefile(deeds.path(name), deeds.path(other))
        deeds.finish()


def test_ranks_that_race_for_the_same_names(sandbox, programs):
    """Whoever comes first: what the others had announced has not happened."""
    race = [("-unlink", "gone"), ("-rename", "from", "to"), ("-create", "new", "x"), ("append", "both", "+"),
            ("-mkdir", "dir"), ("-rmdir", "empty")]
    deeds = Deeds(sandbox, programs, ranks=4, then=[(rank, *deed) for deed in race for rank in range(4)])
    for name in ("gone", "from", "both"):
        deeds.write(name, name)
    deeds.mkdir("empty")
    deeds.run()
    assert deeds.text("both") == "both++++"
    status = deeds.recover()
    for name in ("gone", "from", "both"):
        assert deeds.text(name) == name
    assert os.path.isdir(deeds.path("empty"))
    assert not any(map(deeds.is_there, ("to", "new", "dir")))
    assert status["files_left"] == 0, deeds.job.errors
    deeds.finish()


# ---- the undo folder ----

def test_undo_directories_of_others(sandbox, programs):
    folder = os.path.join(sandbox.folder, "undo")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    line = ["--name", "job", "--undo-dir", folder, "--", "mpirun", "-n", "1", *programs.test_program("exits").argv]
    done = sandbox.belay("run", *line)
    assert done.returncode == 64 and "chmod +t" in done.stderr, done.stderr
    os.chmod(folder, 0o1777)
    os.symlink("/tmp", os.path.join(folder, f"job-{os.geteuid()}.undo"))
    done = sandbox.belay("run", *line)
    assert done.returncode == 64 and "is there already" in done.stderr, done.stderr
    os.unlink(os.path.join(folder, f"job-{os.geteuid()}.undo"))


def test_a_forged_undo_folder(sandbox, programs):
    """Whoever can rename the folder puts another one there, with the logs of another job of the same user."""
    with elsewhere() as folder:
        deeds = Deeds(sandbox, programs, options=["--undo-dir", folder], then=[("append", "file", "+")])
        deeds.write("file", "abc")
        deeds.run()
        own = os.path.join(folder, f"job-{os.geteuid()}.undo")
        shutil.copytree(own, own + ".forged")
        os.rename(own, own + ".away")
        os.rename(own + ".forged", own)
        deeds.lose()
        assert deeds.job.wait() == HELD, deeds.job.errors
        assert "not the one that was made for the job" in sandbox.status("job")["message"]
        assert deeds.text("file") == "abc+"
        shutil.rmtree(own)
        os.rename(own + ".away", own)
        deeds.job.restart()
        deeds.job.wait_epoch(2)
        assert deeds.text("file") == "abc"
        deeds.finish()
        assert os.listdir(folder) == []


@needs_root
def test_two_users_share_an_undo_directory(sandbox, other_sandbox, programs):
    """With jobs of the same name; neither gets in the other's way."""
    with elsewhere() as folder:
        os.chmod(folder, 0o1777)
        other_sandbox.become(NOBODY)
        all_deeds = []
        for box in (sandbox, other_sandbox):
            deeds = Deeds(box, programs, options=["--undo-dir", folder], then=[("append", "file", "+")])
            deeds.write("file", "abc", uid=NOBODY if box is other_sandbox else 0)
            all_deeds.append(deeds.run())
        assert sorted(os.listdir(folder)) == ["job-0.undo", f"job-{NOBODY}.undo"]
        for deeds in all_deeds:
            deeds.recover()
            assert deeds.text("file") == "abc"
            deeds.finish()
        assert os.listdir(folder) == []


# ---- room ----

@pytest.mark.parametrize("setting, reason", [(["--undo-limit", "64K"], "--undo-limit"),
                                             (["--undo-total", "160K"], "--undo-total")])
def test_a_limit_that_is_reached(sandbox, programs, setting, reason):
    """What fits is put back, what does not is named and left as it is, whole."""
    deeds = Deeds(sandbox, programs, options=setting)
    deeds.then((rank, "write", f"small{rank}", 0, "x" * 4096) for rank in (0, 1))
    for rank in (0, 1):
        deeds.then([(0, "barrier"), *((rank, "write", f"large{rank}", at * 9000, "x" * 9000) for at in range(8))])
    for rank in (0, 1):
        deeds.write(f"small{rank}", "a" * 4096)
        deeds.write(f"large{rank}", "a" * (200 << 10))
    deeds.run()
    status = deeds.recover()
    large = [set(deeds.text(f"large{rank}")) for rank in (0, 1)]
    for rank in (0, 1):
        assert set(deeds.text(f"small{rank}")) == {"a"}
    if reason == "--undo-total":  # there is room for one of them
        assert sorted(map(len, large)) == [1, 2] and status["files_left"] == 1
    else:
        assert large == [{"a", "x"}] * 2 and status["files_left"] == 2
    assert "/large" in deeds.job.errors and reason in deeds.job.errors
    deeds.finish()


def test_the_length_of_files_is_limited(sandbox, programs):
    """A program that limits it is not killed for what is kept of its files, and all is put back."""
    deeds = Deeds(sandbox, programs, begin=[("limit", 30000)])
    deeds.then([("write", "file", at * 1000, "x" * 900) for at in range(25)] + [("unlink", "long")])
    deeds.write("file", "a" * 100000)
    deeds.write("long", "a" * 100000)
    with elsewhere() as folder:
        deeds.job.options += ["--undo-dir", folder]
        deeds.run()
        assert "is not protected" not in deeds.job.errors
        deeds.recover()
        for name in ("file", "long"):
            assert deeds.text(name) == "a" * 100000
        deeds.finish()


def test_the_length_of_files_is_limited_after_a_write(sandbox, programs):
    """The log is open by then, and longer than the limit."""
    deeds = Deeds(sandbox, programs)
    deeds.then([("write", "first", 0, "x"), ("limit", 30000), ("write", "second", 0, "x")])
    for name in ("first", "second"):
        deeds.write(name, "a" * 100000)
    deeds.run()
    assert "is not protected" not in deeds.job.errors
    deeds.recover()
    for name in ("first", "second"):
        assert deeds.text(name) == "a" * 100000
    deeds.finish()


@contextlib.contextmanager
def mounted(folder, size):
    os.mkdir(folder)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder], check=False)
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@needs_root
def test_a_part_of_the_file_system_stays_free(sandbox, programs):
    """Of memory, half: what was there before counts."""
    with mounted(os.path.join(sandbox.base, "small"), "8m") as folder:
        deeds = Deeds(sandbox, programs, options=["--undo-dir", folder])
        deeds.then(("write", name, at * 16384, "x" * 16384) for name in ("one", "two") for at in range(160))
        for name in ("one", "two"):
            deeds.write(name, "a" * (2560 << 10))
        deeds.run()
        assert "/two is not protected: the file system of the undo folder would get too full" in deeds.job.errors
        usage = os.statvfs(folder)
        assert usage.f_bavail >= usage.f_blocks // 2
        status = deeds.recover()
        assert set(deeds.text("one")) == {"a"} and set(deeds.text("two")) == {"x"} and status["files_left"] == 1
        deeds.finish()


@needs_root
def test_a_disk_that_is_full_or_read_only_when_files_are_put_back(sandbox, programs):
    with mounted(os.path.join(sandbox.base, "small"), "8m") as folder:
        deeds = Deeds(sandbox, programs, then=[("truncate", f"{folder}/file", 10), ("append", "other", "+")])
        deeds.write(f"{folder}/file", "a" * (4 << 20))
        deeds.write("other", "abc")
        deeds.run()
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 65536):
                pass
        status = deeds.hold()
        assert f"{folder}/file could not be put back as it was at the line: No space left" in status["message"]
        os.unlink(os.path.join(folder, "filler"))
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        done = restart(deeds)
        assert done.returncode == HELD and "Read-only file system" in done.stderr, done.stderr
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        deeds.job.restart()
        deeds.job.wait_epoch(2)
        assert deeds.text(f"{folder}/file") == "a" * (4 << 20) and deeds.text("other") == "abc"
        deeds.finish()


# ---- names ----

def test_odd_names_in_messages(sandbox, programs):
    """They stay on one line, say nothing to a terminal, and the status is JSON whatever they are."""
    deeds = Deeds(sandbox, programs, then=[("append", "a\\nbelay: b\\e[31m", "+"), ("append", "box/f\\n", "+")])
    deeds.mkdir("box")
    for name in ("a\nbelay: b\x1b[31m", "box/f\n"):
        deeds.write(name, "abc")
    deeds.run()
    os.unlink(deeds.path("a\nbelay: b\x1b[31m"))
    os.rename(deeds.path("box"), deeds.path("away"))
    status = deeds.hold()
    assert status["message"].startswith("/") and "box/f\\x0a could not" in status["message"]
    for line in sandbox.belay("status", "job").stdout, deeds.job.errors:
        assert "\x1b" not in line and "\nbelay: b" not in line
    os.rename(deeds.path("away"), deeds.path("box"))
    deeds.job.restart()
    deeds.job.wait_epoch(2)
    assert "a\\x0abelay: b\\x1b[31m is left as it is" in deeds.job.errors
    deeds.write("a\nbelay: b\x1b[31m", "abc")
    deeds.finish()


def make_deep(top, name="d" * 200):
    """Folders in one another until the path of a file there is longer than a system call takes."""
    depth = 0
    here = os.open(top, os.O_RDONLY)
    while depth < 22:
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, depth = below, depth + 1
    with os.fdopen(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w", encoding="ascii") as file:
        file.write("abc")
    os.close(here)
    return [("chdir", name)] * depth


def test_a_path_that_is_too_long(sandbox, programs):
    deeds = Deeds(sandbox, programs)
    deeds.mkdir("deep")
    way = make_deep(deeds.path("deep"))
    deeds.then([("chdir", deeds.path("deep")), *way, ("append", "file", "+"), ("unlink", "file"), ("chdir", "/")])
    deeds.run()
    assert "is not protected: its path cannot be told, or is longer" in deeds.job.errors
    deeds.recover()
    deeds.write("then", "")
    status = deeds.finish()
    assert status["files_left"] >= 1


# ---- what is open at the line ----

def test_open_files_are_found_by_what_they_are(sandbox, programs):
    """A log that was rotated away and compressed is written to in vain, as without Belay; the rest is found."""
    deeds = Deeds(sandbox, programs,
                  begin=[("open", 1, "log", "a"), ("open", 2, "input", "r"), ("open", 3, "data", "rw"),
                         ("chdir", "inner")],
                  last=[("put", 1, "lost"), ("put", 3, "X"), ("create", "here", "")])
    deeds.mkdir("inner")
    deeds.write("input", "abc")
    deeds.write("data", "abc")
    deeds.run()
    os.unlink(deeds.path("log"))
    deeds.write("log", "another's")
    shutil.copy2(deeds.path("input"), deeds.path("copy"))
    os.rename(deeds.path("copy"), deeds.path("input"))
    os.rename(deeds.path("data"), deeds.path("data.old"))
    deeds.write("data", "another's")
    deeds.recover()
    assert "log has been removed or replaced: what the program writes to it (descriptor" in deeds.job.errors
    deeds.finish()
    assert deeds.text("log") == deeds.text("data") == "another's"
    assert deeds.text("data.old") == "Xbc" and deeds.is_there("inner/here")


@pytest.mark.parametrize("what", ["input", "data", "inner", "map", "mpi"])
def test_no_other_file_is_opened_in_its_place(sandbox, programs, what):
    """The restart is refused; nothing is written to the wrong file, or read from it, and nothing is lost."""
    deeds = Deeds(sandbox, programs, begin=[("open", 2, "input", "r"), ("open", 3, "data", "rw"), ("map", "map"),
                                            ("mpiopen", "mpi"), ("chdir", "inner")],
                  last=[("put", 3, "X"), ("poke", "X"), ("mpiput", "X")], options=["--max-restarts", "1"])
    deeds.mkdir("inner")
    for name in ("input", "data", "map", "mpi"):
        deeds.write(name, "abc")
    deeds.run()
    os.mkdir(deeds.path("away"))
    os.rename(deeds.path(what), deeds.path(f"away/{what}"))
    if what == "inner":
        deeds.mkdir(what)
    else:
        deeds.write(what, "another's")
    deeds.lose()
    assert deeds.job.wait() not in (0, HELD)
    assert re.search(f"/{what}.*(another file is there now|is another one now)", deeds.job.errors), deeds.job.errors
    if what == "inner":
        os.rmdir(deeds.path(what))
    else:
        assert deeds.text(what) == "another's"
        os.unlink(deeds.path(what))
    os.rename(deeds.path(f"away/{what}"), deeds.path(what))
    deeds.job.restart()
    deeds.job.wait_epoch(3)
    deeds.finish()
    for name in ("data", "map", "mpi"):
        assert deeds.text(name) == "Xbc"


# ---- kills in the middle of it ----

@pytest.mark.parametrize("point, has_line", [("step#2", True), ("stepped#2", False), ("end", True), ("forget", False)])
def test_the_agent_is_killed_while_it_puts_back(sandbox, programs, point, has_line):
    sandbox.start_agent(BELAY_FAULT=f"agent.undo.{point}=kill")
    deeds = Deeds(sandbox, programs, then=[("append", "file", "+"), ("unlink", "other"), ("create", "new", "x"),
                                           ("rename", "third", "other")])
    for name in ("file", "other", "third"):
        deeds.write(name, name)
    deeds.run(has_line)
    deeds.lose()
    deeds.job.wait_epoch(2)
    for name in ("file", "other", "third"):
        assert deeds.text(name) == name
    assert not deeds.is_there("new") and not deeds.is_there("did")
    status = deeds.finish()
    assert status["files_left"] == 0
    assert (status["restarts"], status["restarts_from_start"]) == ((1, 0) if has_line else (0, 1))


def test_the_agent_is_lost_before_the_first_line(sandbox, programs):
    """The job begins anew: with files as they were when it began."""
    deeds = Deeds(sandbox, programs, then=[("append", "file", "+"), ("unlink", "other"), ("create", "new", "x")])
    for name in ("file", "other"):
        deeds.write(name, name)
    deeds.run(has_line=False)
    os.kill(sandbox.agent()[0], signal.SIGKILL)
    deeds.job.wait_epoch(2)
    assert deeds.text("file") == "file" and deeds.text("other") == "other" and not deeds.is_there("new")
    deeds.finish()


def test_what_an_agent_has_left_is_cleaned(sandbox, belay):
    """Of a job that nobody knows any more, with and without an agent."""
    for starts_agent in (False, True):
        for job in ("one", "two"):
            os.makedirs(os.path.join(sandbox.rundir, "undo", job, "3"), 0o700)
        if starts_agent:
            sandbox.start_agent()
        assert belay("clean", "one").returncode == 0
        assert belay("clean", "one").returncode == 66
        assert belay("clean").stdout == "1 job cleaned\n"
        sandbox.wait_quiet()
        assert not os.path.exists(os.path.join(sandbox.rundir, "undo"))
        os.makedirs(sandbox.rundir, 0o700, exist_ok=True)
