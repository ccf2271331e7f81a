"""What others have made or planted, users as well as ranks, is checked before it is used or shown."""

import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

from belaytest import assert_recovered, assert_same_result, lines_of_belay, newest_line
from programs import Program
from waiting import communicate

NOBODY = 65534

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


# ---- the run directory ----

# Listens as whoever runs it, where everybody may connect, and tells how much it has heard when its input ends.
IMPOSTOR = """
import os, select, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen(16)
print("ready", flush=True)
heard, clients = 0, []
while True:
    ready = select.select([0, listener, *clients], [], [])[0]
    if 0 in ready:
        break
    for sock in ready:
        if sock is listener:
            clients.append(listener.accept()[0])
        else:
            heard += len(sock.recv(4096)) or clients.remove(sock) or 0
print(heard, flush=True)
"""


def each_client(sandbox, programs, rundir):
    """What the belay command, a preloaded rank and an agent say that are to use this run directory."""
    program = programs.test_program("exits").argv[0]
    environment = {**sandbox.environment, "BELAY_RUNDIR": rundir, "SECRET": "only for the agent"}
    lib = os.path.join(sandbox.prefix, "lib", "belay")
    for command in ([sandbox.command, "run", "--", "mpirun", "-n", "1", program],
                    [sandbox.command, "list"], [sandbox.command, "restart", "job"],
                    ["mpirun", "-x", f"LD_PRELOAD={lib}/libbelay.so", "-n", "1", program],
                    [os.path.join(lib, "belayd"), "--rundir", rundir]):
        yield subprocess.run([*sandbox.user, *command], env=environment, text=True, stdin=subprocess.DEVNULL,
                             capture_output=True, timeout=60, cwd=sandbox.folder)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become other users")
def test_directory_that_another_user_was_first_to_make(sandbox, programs):
    """As /tmp/belay-UID may be: nobody says anything to what listens there, and nobody changes or removes it."""
    sandbox.become(NOBODY)
    place = os.path.join(sandbox.base, "all")
    os.mkdir(place)
    os.chmod(place, 0o1777)
    os.chmod(sandbox.base, 0o755)
    rundir = os.path.join(place, "run")
    other = ["setpriv", "--reuid", str(NOBODY - 1), "--regid", str(NOBODY - 1), "--clear-groups", "--"]
    subprocess.run([*other, "mkdir", "-m", "777", rundir], check=True)
    with subprocess.Popen([*other, sys.executable, "-c", IMPOSTOR, os.path.join(rundir, "agent.sock")], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as impostor:
        assert impostor.stdout.readline() == "ready\n"
        for done in each_client(sandbox, programs, rundir):
            lines = lines_of_belay(done.stderr)
            assert done.returncode != 0 and len(lines) == 1, (done.args, done.stderr)
            assert rundir in lines[0] and "another user" in lines[0]
        heard = communicate(impostor, 20, "")[0]
    assert heard == "0\n" and os.listdir(rundir) == ["agent.sock"]


def test_directory_that_others_may_replace(sandbox, programs):
    """Though it is ours: somebody could put another one in its place between two looks."""
    place = os.path.join(sandbox.base, "all")
    rundir = os.path.join(place, "run")
    os.mkdir(place)
    os.mkdir(rundir, 0o700)
    os.chmod(place, 0o777)
    for done in each_client(sandbox, programs, rundir):
        lines = lines_of_belay(done.stderr)
        assert done.returncode != 0 and len(lines) == 1 and "may rename" in lines[0], (done.args, done.stderr)
    assert os.listdir(rundir) == []


CROWD = """
import os, select, socket, sys
path, count = sys.argv[1], int(sys.argv[2])
socks = []
for number in range(count):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    try:
        sock.send(b"\\x10\\x00")  # the half of a header
    except BrokenPipeError:
        pass
    socks.append(sock)
by_number = {sock.fileno(): sock for sock in socks}
poll = select.poll()
for number in by_number:
    poll.register(number, select.POLLIN)
told = over = 0
while over < count - 64:
    for number, _ in poll.poll(60000) or sys.exit("nobody answers"):
        poll.unregister(number)
        over += 1
        try:
            told += b"close some" in by_number[number].recv(4096)
        except ConnectionResetError:
            pass
print("waiting", told, flush=True)
sys.stdin.readline()
"""


def test_a_process_that_connects_thousands_of_times(sandbox, programs):
    """It is told that these are too many, and nobody else notices: neither another process nor the job."""
    job = sandbox.run(programs.test_program("ring", "--steps", 400, "--seconds", 4, ranks=2))
    job.wait_lines()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(2000, hard - 50)
    command = [sys.executable, "-c", CROWD, os.path.join(sandbox.rundir, "agent.sock"), str(count)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))) as crowd:
        words = crowd.stdout.readline().split()
        assert words and words[0] == "waiting" and int(words[1]) > 0, words
        assert sandbox.belay("list").returncode == 0
        line = job.status()["newest_line"]
        assert sandbox.belay("checkpoint", "job").returncode == 0
        assert job.status()["newest_line"] > line
        communicate(crowd, 20, "\n")
    with open(os.path.join(sandbox.rundir, "agent.log"), encoding="utf-8") as log:
        refusals = [line for line in log if "connections to the agent already" in line]
    assert 1 <= len(refusals) <= 8  # not one for each of them
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become other users")
def test_another_user_cannot_connect(sandbox, programs):
    """Not even to be turned away: nothing of an agent is spent on users other than its own."""
    job = sandbox.run(programs.test_program("ring", "--steps", 200, "--seconds", 2, ranks=2))
    job.wait_lines()
    other = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"]
    done = subprocess.run([*other, sys.executable, "-c", CROWD, os.path.join(sandbox.rundir, "agent.sock"), "1"],
                          text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert "PermissionError" in done.stderr and not done.stdout, done.stderr
    job.finish()
    assert_same_result(job)
    sandbox.assert_clean()


# ---- memory ----

@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become another user")
def test_images_are_for_nobody_else(sandbox, programs):
    """No core file of the agent and its keeper, and no look into them, not even for their user's other processes."""
    sandbox.become(NOBODY)
    if subprocess.run([*sandbox.user, "test", "-x", sandbox.command], check=False).returncode:
        pytest.skip("other users cannot execute what was built")
    job = sandbox.run(programs.test_program("ring", "--steps", 400, ranks=2), seconds=4)
    job.wait_committed(2)
    rank, (agent, keeper) = job.pids[1][0], sandbox.agent()
    assert os.stat(f"/proc/{rank}/environ").st_uid == NOBODY
    for pid in (agent, keeper):
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # so the kernel shows a process that leaves no core
        for look in ("ls -l /proc/{}/fd/", "cat /proc/{}/environ", "head -c 1 /proc/{}/maps"):
            done = subprocess.run([*sandbox.user, *look.format(pid).split()], capture_output=True, text=True, check=False)
            assert done.returncode != 0 and "ermission denied" in done.stderr, done
    with open(os.path.join(sandbox.rundir, "agent.log"), encoding="utf-8") as log:
        assert "captured whole" not in log.read()  # what the agent may not read of itself it need not
    for folder, _, names in os.walk(sandbox.rundir):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            assert os.lstat(path).st_mode & 0o077 == 0, path
    job.kill_and_recover()
    assert job.finish() == 0
    assert_recovered(job)
