"""A run directory of its own for each test, and jobs in it that are watched, killed and judged."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import traces
from programs import PACE, collect, mpi_environment
from waiting import Late, run, wait_for

COMMAND_LIMIT_S = 60
SOCKET_PATH_LIMIT = 60  # of the run directory; a socket's whole path has 107 bytes


def short_folder(prefix):
    """A new folder whose path leaves room for a socket's name in it."""
    parent = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix=prefix, dir=parent if len(parent) < SOCKET_PATH_LIMIT else "/tmp")


def _raise_unless_gone(_function, _path, info):
    if not issubclass(info[0], FileNotFoundError):
        raise info[1]


class Sandbox:
    """One test's run directory, working folder and environment; everything started in it is found again."""

    def __init__(self, prefix, programs):
        self.prefix = prefix
        self.programs = programs
        self.base = short_folder("belay-")
        self.rundir = os.path.join(self.base, "run")
        self.folder = os.path.join(self.base, "work")
        self.shared_memory = os.path.join("/dev/shm", os.path.basename(self.base))
        temporary = os.path.join(self.base, "tmp")
        for path in (self.rundir, self.folder, self.shared_memory, temporary):
            os.mkdir(path, 0o700)
        self.command = os.path.join(prefix, "bin", "belay")
        # One mpirun that ends removes the folder in TMPDIR in which another is about to make its own.
        self.environment = {**os.environ, **mpi_environment(), "BELAY_RUNDIR": self.rundir, "TMPDIR": temporary,
                            "OMPI_MCA_btl_vader_backing_directory": self.shared_memory}
        self.environment.pop("BELAY_FAULT", None)
        self.user = []  # words before each command, to run it as somebody else
        self.jobs = []
        self.objects = traces.system_v()  # that were there before
        self.since_s = time.time() - 1

    def become(self, uid):
        """Run commands as this user from now on, with a home and a folder for temporary files of his own."""
        home = os.path.join(self.base, "home")
        os.mkdir(home)
        for path in (self.base, home, self.rundir, self.folder, self.shared_memory):
            os.chown(path, uid, uid)
        self.environment.update(HOME=home, TMPDIR=home)
        self.user = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--"]

    # ---- commands ----

    def belay(self, *arguments, timeout=COMMAND_LIMIT_S, **options):
        """Run `belay ARGUMENTS` to its end; a CompletedProcess with text."""
        options = {"cwd": self.folder, "env": self.environment, **options}
        return run([*self.user, self.command, *map(str, arguments)], timeout, text=True, **options)

    def status(self, job):
        """The object of `belay status JOB --json`, or None if the job is not known (yet)."""
        done = self.belay("status", job, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start_agent(self, number=0, **variables):
        """Start the agent of a local node before any job, with settings that the jobs do not get."""
        folder = os.path.join(self.rundir, f"node-{number}") if number else self.rundir
        agent = os.path.join(self.prefix, "lib", "belay", "belayd")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        subprocess.run([agent, "--rundir", folder], env={**self.environment, **variables}, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=COMMAND_LIMIT_S)

    def start_agent_of(self, number, **variables):
        """The same, and a connection to it: as long as that is open, the agent stays although it holds nothing."""
        self.start_agent(number, **variables)
        client = socket.socket(socket.AF_UNIX)
        client.connect(os.path.join(self.rundir, f"node-{number}" if number else "", "agent.sock"))
        return client

    def run(self, program, **options):
        """Start `belay run` of a Program; a Job. Options are those of Job."""
        job = Job(self, program, **options)
        self.jobs.append(job)
        job.start()
        return job

    def agent(self):
        """The process ids of the agent and of its keeper."""
        found = {os.path.basename(command.split(" ")[0]): pid
                 for pid, command in traces.processes_of(self.rundir).items()}
        return found["belayd"], found["belay-keeper"]

    # ---- what is left behind ----

    def wait_quiet(self, deadline_s=20):
        """Wait until no process of this sandbox is left."""
        wait_for(lambda: not traces.processes_of(self.rundir), deadline_s,
                 f"the end of {traces.processes_of(self.rundir)}")

    def assert_clean(self):
        """After `belay clean`: no process, no file in the run directory, no object that ranks share."""
        self.belay("clean")
        self.wait_quiet()
        assert self.left_behind() == []

    def left_behind(self):
        """Files, folders and objects that no job needs any more."""
        shared = [os.path.join(self.shared_memory, name) for name in os.listdir(self.shared_memory)]
        objects = sorted(traces.system_v() - self.objects)
        sessions = [path for top in self.sessions() for path in [top, *traces.files_under(top, folders=True)]]
        return [*traces.files_under(self.rundir), *shared, *sessions, *self.files_of_ranks(), *objects]

    def files_of_ranks(self):
        """What ranks that were seen have left in common folders, under names with their process ids."""
        pids = [pid for job in self.jobs for ranks in job.pids.values() for pid in ranks.values()]
        return traces.files_of(pids, self.since_s)

    def remove_files_of_ranks(self):
        """Of a program that was killed and given up: without Belay, it would have left them as well."""
        for path in self.files_of_ranks():
            os.unlink(path)

    def sessions(self):
        """The session folders of launchers."""
        folder = self.environment["TMPDIR"]
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("ompi.")]

    def remove_sessions(self):
        """Of a launcher that the test has killed before any rank of it had come: nobody knows of its folder.

        What is left of that launcher may be removing it at the same time.
        """
        for path in self.sessions():
            shutil.rmtree(path, onerror=_raise_unless_gone)

    def destroy(self):
        for job in self.jobs:
            job.report()
        self._print_file(os.path.join(self.rundir, "agent.log"))
        traces.kill_processes_of(self.rundir)
        traces.remove_system_v(traces.system_v() - self.objects)
        self.remove_files_of_ranks()
        for job in self.jobs:
            job.destroy()
        for path in (self.base, self.shared_memory):
            shutil.rmtree(path, ignore_errors=True)

    @staticmethod
    def _print_file(path):
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                print(f"---- {path}\n{file.read()[-4000:]}")


class Job:
    """One `belay run` (or `belay restart`), its standard streams in files."""

    def __init__(self, sandbox, program, name="job", interval="300ms", options=(), seed=None, trace=True,
                 line=None, folder=None, piped=False, stdin=None, seconds=None, **variables):
        self.sandbox = sandbox
        self.program = program
        self.name = name
        self.variables = variables
        self.folder = folder or tempfile.mkdtemp(prefix=f"{name}-", dir=sandbox.folder)
        self.trace_path = os.path.join(self.folder, "trace") if trace else None
        self.seed = random.randrange(1 << 30) if seed is None else seed
        self.random = random.Random(self.seed)
        self.interval = interval
        self.options = ["run", "--name", name, *(["--interval", interval] if interval else []), *options]
        self.pace_path = f"{self.folder}.pace"
        self.seconds = seconds  # how long its steps take at least; the undisturbed run takes as long as it likes
        self.line = line or self.launch_line()
        self.piped = piped  # standard output and error through pipes
        self.stdin = stdin  # a file that comes through a pipe
        self.pipes = []
        self.process = None
        self.pids = {}  # epoch: {rank: pid}, as seen
        self.outages = []  # of Outage
        if sandbox.user:
            os.chmod(self.folder, 0o777)

    def launch_line(self):
        trace = ["--trace", self.trace_path] if self.trace_path else []
        pace = ["--seconds", str(self.seconds)] if self.seconds else []
        return ["mpirun", "-n", str(self.program.ranks), *self.program.argv, *trace, *pace]

    def start(self):
        self._start([*self.options, "--", *self.line])

    def restart(self, line=(), options=()):
        """`belay restart` of the same job, after its first process has ended."""
        self._set_pace(None)
        self._start(["restart", *options, self.name, *(["--", *line] if line else [])])

    def _start(self, arguments):
        with open(self.path("out"), "ab") as out, open(self.path("err"), "ab") as err:
            ends = [self._pipe_to(out), self._pipe_to(err)] if self.piped else [out, err]
            source = self._pipe_from(self.stdin) if self.stdin else subprocess.DEVNULL
            self.process = subprocess.Popen([*self.before(), self.sandbox.command, *arguments],
                                            stdin=source, stdout=ends[0], stderr=ends[1], cwd=self.folder,
                                            env={**self.sandbox.environment, PACE: self.pace_path, **self.variables},
                                            process_group=0)
            for end in [*ends, source] if self.piped else [source]:
                if end is not subprocess.DEVNULL:
                    end.close()

    def before(self):
        """The words before those of `belay run`."""
        return self.sandbox.user

    def _pipe_to(self, file):
        self.pipes.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file))
        return self.pipes[-1].stdin

    def _pipe_from(self, path):
        with open(path, "rb") as file:
            self.pipes.append(subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE))
        return self.pipes[-1].stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    @property
    def errors(self):
        return self.read("err").decode(errors="replace")

    # ---- watching ----

    def status(self):
        status = self.sandbox.status(self.name)
        if status:
            ranks = {rank["rank"]: rank["pid"] for node in status["nodes"] for rank in node["ranks"] if rank["pid"]}
            if len(ranks) == self.program.ranks:
                self.pids[status["epoch"]] = ranks
        return status

    def wait_status(self, condition, deadline_s=30, what="a status"):
        """Wait for condition(status) while the job runs; the status."""

        def look():
            has_ended = self.process.poll() is not None
            status = self.status()
            if status and condition(status):
                return status
            assert not has_ended, f"the job ended ({self.process.returncode}) before {what}:\n{self.errors}"
            return None

        return self._wait(look, deadline_s, what)

    def _wait(self, look, deadline_s, what):
        """What is late tells what the job said last."""
        try:
            return wait_for(look, deadline_s, what)
        except Late as late:
            raise Late(f"{late}; {self.name} said last: {self.errors[-200:]!r}") from None

    def wait_committed(self, at_least=1, deadline_s=30):
        """Wait until all ranks run and a line with this number or a later one is committed; its number."""
        status = self.wait_status(
            lambda status: status["state"] == "running" and newest_line(status) >= at_least and
            status["epoch"] in self.pids, deadline_s, f"line {at_least}")
        return newest_line(status)

    def wait_epoch(self, epoch, deadline_s=30):
        """Wait until all ranks of this epoch or a later one run; the status."""
        return self.wait_status(
            lambda status: status["epoch"] >= epoch and status["state"] == "running" and
            status["epoch"] in self.pids, deadline_s, f"epoch {epoch}")

    def steps(self):
        """(time, step) of each step that rank 0 has taken, as the trace has it now."""
        if not self.trace_path or not os.path.exists(self.trace_path):
            return set()
        with open(self.trace_path, encoding="ascii") as file:
            rows = [row.split() for row in file.read().splitlines(keepends=True) if row.endswith("\n")]
        return {(float(row[2]), int(row[1])) for row in rows if len(row) == 3}

    def wait_step(self, at_least, deadline_s=60):
        """Also of a job that has ended since."""

        def look():
            has_ended = self.process.poll() is not None
            if any(step >= at_least for _, step in self.steps()):
                return True
            assert not has_ended, f"the job ended ({self.process.returncode}) before step {at_least}:\n{self.errors}"
            return False

        self._wait(look, deadline_s, f"step {at_least}")

    def wait_lines(self, more=2):
        """Wait until two steps are taken, if the job notes them, and then so many lines are committed: all of
        these but the first are behind the steps, so that a restart from the last one does not begin anew."""
        if self.trace_path:
            self.wait_step(2)
        self.wait_committed(self.wait_committed(0) + more)

    def find_launcher(self):
        """The process id of the running launch's mpirun; None between two launches."""
        children = traces.children_of(self.process.pid)
        return next((pid for pid, name in children.items() if name != "belay-guard"), None)

    # ---- disturbing ----

    def kill_rank(self, rank=None, state="running"):
        """kill -9 of a rank (None: a random one) of the epoch, when the job is in this state; the Outage."""
        status = self.wait_status(lambda status: status["epoch"] in self.pids and status["state"] == state)
        rank = self.random.randrange(self.program.ranks) if rank is None else rank
        pid = self.pids[status["epoch"]][rank]
        print(f"{self.name}: kill rank {rank} (pid {pid}) of epoch {status['epoch']}, seed {self.seed}")
        os.kill(pid, signal.SIGKILL)
        outage = Outage(status["epoch"], rank, newest_line(status), self.steps())
        wait_for(lambda: not any(map(traces.is_alive, self.pids[outage.epoch].values())), 20,
                 "the end of the other ranks")
        outage.note_end(self.steps())
        self.outages.append(outage)
        return outage

    def kill_and_recover(self, rank=None):
        """Kill a rank and wait until all ranks run again; the status."""
        outage = self.kill_rank(rank)
        return self.wait_epoch(outage.epoch + 1)

    # ---- the end ----

    def _set_pace(self, contents):
        """None: the last steps wait. Otherwise they do not, and steps with contents take as little time as they can."""
        if contents is None:
            if os.path.exists(self.pace_path):
                os.unlink(self.pace_path)
        else:
            with open(self.pace_path + ".new", "w", encoding="ascii") as file:
                file.write(contents)
            os.rename(self.pace_path + ".new", self.pace_path)

    def let_hurry(self):
        """The job may end from now on, as fast as it can."""
        self._set_pace("hurry")

    def let_end(self):
        """The job may end from now on, at its own pace."""
        if not os.path.exists(self.pace_path):
            self._set_pace("")

    def finish(self, deadline_s=90):
        """After one more line, if there are lines by themselves, let the job hurry to its end; its status."""
        if self.interval and not self.program.ends_by_itself:
            self.wait_committed(self.wait_committed(0) + 1)
        self.let_hurry()
        return self.wait(deadline_s)

    def wait(self, deadline_s=90):
        """Let the job end, and wait until `belay run` has; its status."""
        self.let_end()
        for process in (self.process, *self.pipes):
            wait_for(lambda process=process: process.poll() is not None, deadline_s, f"the end of {self.name}")
        return self.process.returncode

    def result(self):
        return collect(self.program, self.folder, self.process.returncode, self.read("out"))

    def report(self):
        """Print what the job said, for a test that failed."""
        for name in ("out", "err"):
            print(f"---- {self.name} {name}\n{self.read(name).decode(errors='replace')[-4000:]}")
        if self.process and self.process.poll() is None:
            print(f"---- status\n{json.dumps(self.sandbox.status(self.name), indent=1)[-4000:]}")

    def destroy(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in self.pipes:
            pipe.kill()
            pipe.wait()


class Outage:
    """A kill: what was there before it, and when the last process of the epoch was gone."""

    def __init__(self, epoch, rank, line, steps):
        self.epoch = epoch
        self.rank = rank
        self.line = line  # newest committed just before
        self.steps = steps
        self.time = None

    def note_end(self, steps):
        self.time = time.monotonic()
        self.steps |= {(when, step) for when, step in steps if when < self.time}

    @property
    def steps_before(self):
        return max((step for _, step in self.steps), default=0)


def newest_line(status):
    """The number of the newest committed line, 0: none."""
    return max((line["line"] for line in status["lines"] if line["state"] == "committed"), default=0)


def lines_of_belay(text):
    """What Belay said on a standard error stream that it shares with the launcher and the program."""
    return [line for line in text.splitlines() if line.startswith("belay:")]


def without_launcher(text):
    """mpirun says on its standard output how many processes it has killed on other hosts, and its daemons, in a frame, that
    they do not reach one another while it is being killed."""
    text = re.sub(rb"^\d+ total process(es)? killed .*\n", b"", text, flags=re.MULTILINE)
    return re.sub(rb"^-{60}\nA process or daemon was unable to complete a TCP connection\n(?:.*\n)*?-{60}\n", b"", text, flags=re.MULTILINE)


# ---- judgements ----

def assert_same_result(job):
    """Exit status, standard output and files are those of an undisturbed native run."""
    reference = job.sandbox.programs.reference(job.program)
    result = job.result()
    assert reference.status == 0
    assert (result.status, result.stdout) == (reference.status, reference.stdout), job.errors
    assert [name for name, _ in result.files] == [name for name, _ in reference.files]
    for (name, mine), (_, theirs) in zip(result.files, reference.files):
        assert mine == theirs, f"{name} differs"


def assert_restored(job, restarts):
    """The history shows this many restarts, each from a line, each with new processes."""
    status = job.status()
    assert status["restarts"] == restarts and status["restarts_from_start"] == 0, status["history"]
    epochs = [entry["epoch"] for entry in status["history"]]
    assert epochs == sorted(set(epochs)) and status["epoch"] == epochs[-1]
    for entry in status["history"][1:]:
        assert entry["restored_line"] >= 1, entry
    if restarts:
        assert status["history"][-1]["restore_ms"] > 0  # an epoch that was lost in its restore has none
    seen = [pid for ranks in job.pids.values() for pid in ranks.values()]
    assert len(job.pids) > restarts and len(seen) == len(set(seen)), f"processes were not new: {job.pids}"


def assert_little_done_again(job):
    """After each outage the program went on from a step, not from its start."""
    if not job.trace_path:
        return
    later = job.steps()
    for outage in job.outages:
        after = [step for when, step in later if when > outage.time]
        assert after, "no step after the restart"
        done_again = outage.steps_before - min(after) + 1
        print(f"rank {outage.rank} killed at step {outage.steps_before}: {done_again} steps done again")
        assert done_again < outage.steps_before


def assert_recovered(job, restarts=None):
    """The job has ended as if nothing had happened, and it was restored from lines, not run again."""
    assert_same_result(job)
    assert_restored(job, len(job.outages) if restarts is None else restarts)
    assert_little_done_again(job)


def run_and_recover(sandbox, program, interval="100ms", **options):
    """Under frequent lines: a kill between two of them, more lines, the result of an undisturbed run. The Job."""
    job = sandbox.run(program, interval=interval, **options)
    job.wait_lines()
    status = job.kill_and_recover()
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_recovered(job)
    return job


def recover_twice(job):
    """Two kills, each after more lines; then the result of an undisturbed run."""
    for _ in range(2):
        job.wait_lines()
        job.kill_and_recover()
    job.finish()
    assert_recovered(job)


def kill_three_times(job, lines):
    """Each time after so many lines, and one, beyond the one that was restored last; then wait for the end."""
    line = 0
    for _ in range(3):
        job.wait_committed(line + 1 + lines)
        line = job.kill_and_recover()["history"][-1]["restored_line"]
    job.wait(200)
    assert_recovered(job)
