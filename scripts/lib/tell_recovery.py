"""The story that scripts/demo tells: a run, the same run with a rank killed, and the comparison.

usage: tell_recovery.py PREFIX     the folder that Belay is installed in

Every time printed was measured in this run: lines and the restore by the agent (`belay status --json`),
the outage by the program itself, which notes the time of each step in a trace file.
"""
import filecmp
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RANKS = 4
GRID = 1024
STEPS = 8000
SNAPSHOT_EVERY = 2000
REPORT_EVERY = 1000
INTERVAL = "1s"
LINES_TOLD = 4  # at each end
VICTIM = 2
TRACING = 0  # the rank that notes the time of each step
KILL_AT_STEP = STEPS * 45 // 100  # not before it, and not before a line has committed
DEADLINE_S = 300


class DemoFailure(Exception):
    """One line that says what went wrong."""


def describe(failure):
    """The failure of a command in words, not with all its arguments."""
    if not isinstance(failure, (subprocess.TimeoutExpired, subprocess.CalledProcessError)):
        return failure
    command = os.path.basename(failure.cmd[0])
    if isinstance(failure, subprocess.TimeoutExpired):
        return f"{command} did not end within {failure.timeout:.0f} s; is this machine busy with other work?"
    return f"{command} ended with status {failure.returncode}"


class Demo:
    def __init__(self, prefix, folder):
        self.belay = prefix / "bin" / "belay"
        self.apps = prefix / "lib" / "belay" / "apps"
        self.folder = folder
        self.job = f"demo-{os.getpid()}"
        # An agent of our own: nothing of this user's other jobs is touched.
        self.environment = dict(os.environ, BELAY_RUNDIR=str(folder / "run"))

    def heat(self, name):
        """The launch line of heat, with its files in a folder of that name."""
        place = self.folder / name
        place.mkdir()
        return ["mpirun", "-n", str(RANKS), str(self.apps / "heat"), "--input", str(self.folder / "input.h5"),
                "--steps", str(STEPS), "--snapshot-every", str(SNAPSHOT_EVERY), "--output",
                str(place / "heat"), "--report-every", str(REPORT_EVERY), "--trace", str(place / "trace")]

    def make_input(self):
        subprocess.run([self.apps / "heat-input", "--nx", str(GRID), "--ny", str(GRID), "--seed", "7",
                        "--sources", "6", self.folder / "input.h5"], check=True)

    def run_undisturbed(self):
        began = time.monotonic()
        with open(self.folder / "undisturbed.out", "wb") as output:
            subprocess.run(self.heat("undisturbed"), stdout=output, stdin=subprocess.DEVNULL,
                           timeout=DEADLINE_S, check=True)
        return time.monotonic() - began

    def start_protected(self):
        command = [self.belay, "run", "--name", self.job, "--interval", INTERVAL, "--"] + self.heat("belay")
        with open(self.folder / "belay.out", "wb") as output:
            run = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=self.environment, text=True)
        threading.Thread(target=pass_on, args=(run.stderr,), daemon=True).start()
        return run

    def status(self):
        """The job's status, or None while the agent does not know it yet."""
        done = subprocess.run([self.belay, "status", self.job, "--json"], capture_output=True, text=True,
                              env=self.environment, timeout=30, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait_for_the_middle(self, run):
        """The status when a line has committed and the run is in its middle."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if run.poll() is not None:
                raise DemoFailure(f"the run ended before its middle, with status {run.returncode}")
            status = self.status()
            if status and committed_lines(status) and last_step(self.folder / "belay") >= KILL_AT_STEP:
                return status
            time.sleep(0.05)
        raise DemoFailure("no line was committed in time")

    def clean(self):
        """Let go of the job, so that the agent ends, and wait for that."""
        for command in (["stop", self.job], ["clean", self.job]):
            subprocess.run([self.belay, *command], capture_output=True, env=self.environment, timeout=60,
                           check=False)
        deadline = time.monotonic() + 10
        while (self.folder / "run" / "agent.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)


def pass_on(stream):
    for line in stream:
        print(f"      {line.rstrip()}", flush=True)


def say(text=""):
    print(text, flush=True)


def committed_lines(status):
    return [line for line in status["lines"] if line["state"] == "committed"]


def pid_of(status, rank):
    for node in status["nodes"]:
        for entry in node["ranks"]:
            if entry["rank"] == rank:
                return entry["pid"]
    raise DemoFailure(f"belay status names no process of rank {rank}")


def read_trace(place):
    """(step, seconds, process) of each step noted so far; the last one may be half written."""
    path = place / "trace"
    rows = [line.split() for line in path.read_text().splitlines()[:-1]] if path.exists() else []
    return [(int(row[1]), float(row[2]), int(row[0])) for row in rows if len(row) == 3]


def last_step(place):
    trace = read_trace(place)
    return trace[-1][0] if trace else 0


def first_step_after(place, former):
    """(step, seconds) of the first step that a process other than the former one has noted."""
    for step, seconds, process in read_trace(place):
        if process != former:
            return step, seconds
    raise DemoFailure("the run took no step after the kill")


def kill_rank(status):
    pid = pid_of(status, VICTIM)
    os.kill(pid, signal.SIGKILL)
    return pid, time.monotonic()


def tell_lines(status):
    """The first and the last few; on a slow machine there may be a hundred."""
    lines = committed_lines(status)
    for number, line in enumerate(lines):
        if LINES_TOLD <= number < len(lines) - LINES_TOLD:
            if number == LINES_TOLD:
                say(f"      ... {len(lines) - 2 * LINES_TOLD} more")
            continue
        mib = line["image_bytes"] / 2**20
        say(f"      line {line['line']:3d}: {mib:6.0f} MiB, pause {line['pause_ms']:6.1f} ms, "
            f"in all {line['total_ms']:6.1f} ms")
    pauses = sorted(line["pause_ms"] for line in lines)
    say(f"      half of the pauses were shorter than {pauses[len(pauses) // 2]:.1f} ms")


def tell_recovery(demo, before, kill_s, kill_step):
    after = demo.status()
    if after is None or len(after["history"]) < 2:
        raise DemoFailure("the job was not restarted")
    restart = after["history"][-1]
    if restart["restored_line"] < 1:
        raise DemoFailure("the job was restarted from its beginning, not from a line")
    say(f"      newest line before the kill  {committed_lines(before)[-1]['line']}")
    say(f"      restored line                {restart['restored_line']}")
    say(f"      reason                       {restart['reason']}")
    say(f"      restore (MPI is up -> first instruction)   {restart['restore_ms']:8.1f} ms")
    step, resumed_s = first_step_after(demo.folder / "belay", pid_of(before, TRACING))
    say(f"      outage  (kill -> first step afterwards)    {(resumed_s - kill_s) * 1000:8.1f} ms")
    say(f"      went on at step {step}; {max(0, kill_step - step + 1)} steps were done again")
    say()
    say("   The lines that were taken:")
    tell_lines(after)


def compare(demo):
    """The differences, as lines for the reader."""
    differences = []
    expected, found = demo.folder / "undisturbed", demo.folder / "belay"
    snapshots = sorted(path.name for path in expected.glob("*.h5"))
    if snapshots != sorted(path.name for path in found.glob("*.h5")):
        differences.append("not the same snapshot files")
    for name in snapshots:
        if (found / name).exists() and not filecmp.cmp(expected / name, found / name, shallow=False):
            differences.append(f"snapshot {name} differs")
    outputs = [(demo.folder / name).read_text() for name in ("undisturbed.out", "belay.out")]
    if outputs[0] != outputs[1]:
        differences.append("standard output differs")
    if not differences:
        say(f"      {len(snapshots)} snapshot files      the same, byte for byte")
        say("      standard output       the same")
        say(f"      {outputs[0].splitlines()[-1]}")
    return differences


def tell(demo):
    say(f"1. An input for the 2-D heat equation: {GRID} x {GRID} cells, 6 sources.")
    demo.make_input()
    say(f"2. The undisturbed run: mpirun -n {RANKS} heat, {STEPS} steps.")
    say(f"      {demo.run_undisturbed():.1f} s")
    say(f"3. The same under Belay: belay run --interval {INTERVAL} -- mpirun -n {RANKS} heat ...")
    run = demo.start_protected()
    try:
        before = demo.wait_for_the_middle(run)
        pid, kill_s = kill_rank(before)
        kill_step = last_step(demo.folder / "belay")
        say(f"4. kill -9 {pid}: rank {VICTIM} is dead, at step {kill_step} of {STEPS}.")
        status = run.wait(timeout=DEADLINE_S)
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=30)
    if status != 0:
        raise DemoFailure(f"belay run ended with status {status}")
    say("5. The recovery:")
    tell_recovery(demo, before, kill_s, kill_step)
    say("6. The results, compared with the undisturbed run's:")
    differences = compare(demo)
    if differences:
        raise DemoFailure("; ".join(differences))


def main():
    prefix = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="belay-demo-"))
    demo = Demo(prefix, folder)
    try:
        tell(demo)
        say("\nThe run with the lost rank and the undisturbed run have the same result.")
        return 0
    except (DemoFailure, OSError, subprocess.SubprocessError) as failure:
        say(f"\ndemo: FAILED: {describe(failure)}")
        return 1
    finally:
        demo.clean()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
