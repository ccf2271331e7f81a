"""What others have made or planted, users as well as ranks, is checked before it is used or shown."""

import json
import os
import shutil
import subprocess

from belaytest import newest_line
from programs import Program

# What a terminal obeys: of ASCII, of eight bits, in UTF-8; and bytes that are no text.
PLANTED = b"\x1b]0;title\x07\x1b[2J\x7f\xc2\x9b31m\x9b7m\xe9"


def assert_harmless(text, what):
    """Nothing in it that a terminal would obey, and all of it is UTF-8."""
    decoded = text.decode("utf-8")
    obeyed = [character for character in decoded if ord(character) < 32 and character != "\n" or 127 <= ord(character) < 160]
    assert not obeyed, (what, text)


class Planter:
    """Commands of belay with planted texts; everything that they say is checked."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.folder = os.path.join(os.fsencode(sandbox.folder), PLANTED)
        os.mkdir(self.folder)

    def copy(self, path, name=PLANTED):
        copied = os.path.join(self.folder, name)
        shutil.copy(path, copied)
        return os.fsdecode(copied)

    def belay(self, *arguments, **variables):
        """Run it to its end. What the launcher says for itself is not ours to change."""
        done = subprocess.run([os.fsencode(word) for word in (self.sandbox.command, *arguments)], timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder,
                              env={**self.sandbox.environment, **variables})
        own = [line for line in done.stderr.splitlines() if b"belay" in line]
        assert_harmless(done.stdout, arguments)
        assert_harmless(b"\n".join(own), arguments)
        return done, own


def test_terminals_obey_nothing_that_was_planted(sandbox, programs):
    """In names of programs and folders, in words of the command line, in messages of ranks and in the log."""
    planter = Planter(sandbox)
    planted = os.fsdecode(PLANTED)
    ring = programs.test_program("ring", "--steps", 300, "--seconds", 3)
    program = Program((planter.copy(ring.argv[0]), *ring.argv[1:]), ranks=2)
    line = ["mpirun", "-x", f"PLANTED={planted}", "-n", "2", *program.argv]
    job = sandbox.run(program, line=line, trace=False, options=["--max-restarts", "0"])
    job.wait_committed(1)
    for command in ("status", "list"):
        done, _ = planter.belay(command)
        assert command == "list" or b"\\x1b]0;title\\x07" in done.stdout
        done, _ = planter.belay(command, "--json")
        value = json.loads(done.stdout)
        argv = (value if command == "status" else value["jobs"][0])["argv"]
        assert argv[2] == "PLANTED=" + PLANTED.decode("utf-8", errors="replace").replace("\ufffd", "?")
    job.kill_rank()
    assert job.wait() == 75
    shutil.copy(programs.test_program("collmix").argv[0], program.argv[0])
    done, own = planter.belay("restart", "job", "--", *line)
    assert done.returncode == 77 and any(b"\\x1b]0;title\\x07" in text for text in own), own
    with open(os.path.join(sandbox.rundir, "agent.log"), "rb") as log:
        text = log.read()
    assert b"\\x1b]0;title\\x07" in text
    assert_harmless(text, "agent.log")
    for text in own + job.read("err").splitlines():
        assert not text.startswith(b"belay") or newest_line(job.status()) >= 1


def test_terminals_obey_no_refusal(sandbox, programs):
    """What was refused is named in the refusal."""
    planter = Planter(sandbox)
    planted = os.fsdecode(PLANTED)
    static = planter.copy(programs.test_program("static").argv[0], b"static" + PLANTED)
    launched = ("--", "mpirun", "-n", "1", programs.test_program("exits").argv[0])
    done, _ = planter.belay("run", "--undo-dir", planted, *launched)
    assert done.returncode != 0
    for arguments in ((planted,), ("help", planted), ("status", planted), ("status", "--" + planted),
                      ("run", "--interval", planted, *launched), ("run", "--name", planted, *launched),
                      ("run", "--tracker", planted, *launched),
                      ("run", "--policy", planted, *launched), ("run", "--memory", planted, *launched),
                      ("run", "--", planted), ("run", "--", "mpirun", "-n", "1", static), ("restart", planted)):
        done, own = planter.belay(*arguments)
        assert done.returncode != 0 and any(b"\\x1b]0;title\\x07" in line for line in own), (arguments, done.stderr)
    folder = os.path.join(os.fsdecode(planter.folder), "file")
    with open(folder, "x", encoding="ascii"):
        pass
    for command in ("list", "doctor"):
        done, _ = planter.belay(command, BELAY_RUNDIR=folder)
        assert b"\\x1b]0;title\\x07" in done.stdout + done.stderr
    done, _ = planter.belay("doctor", "--json", BELAY_RUNDIR=folder)
    assert any(check["name"] == "run directory" and check["state"] == "missing"
               for check in json.loads(done.stdout)["checks"])
