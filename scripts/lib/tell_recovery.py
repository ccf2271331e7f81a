"""The story that scripts/demo tells: a run, the same run with a node lost, the comparison, and a picture of it.

usage: tell_recovery.py PREFIX PICTURES     the folder that Belay is installed in; the one for the picture

Four nodes of one machine, each with an agent and a keeper of its own. One node is killed: agent, keeper and ranks, and
with them all memory that the node held. Every time that is printed or drawn was measured in this run: lines and the
parts of the recovery by the agents (`belay status --json`), steps by the program itself, which notes the time of each in
a trace file, and the ends of processes by this script (observe.py). timeline.py draws the picture.
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

import observe
import timeline

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "lib"))

import traces  # noqa: E402

RANKS = 8
NODES = 4
GRID = 1024
RUN_S = 12  # how long the undisturbed run is to take
FEWEST_STEPS, TRIAL_STEPS = 2000, 400
INTERVAL_S = 1
INTERVAL = f"{INTERVAL_S}s"
LINES_TOLD = 4  # at each end
VICTIM = 2  # the node
KILL_AT = 0.45  # of the steps, at least
KILL_BEHIND = 0.6  # of the interval behind the beginning of the newest line, which has committed
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
        self.steps = TRIAL_STEPS
        # An agent of our own: nothing of this user's other jobs is touched.
        self.environment = dict(os.environ, BELAY_RUNDIR=str(folder / "run"))

    def heat(self, name):
        """The launch line of heat, with its files in a folder of that name."""
        place = self.folder / name
        place.mkdir()
        return ["mpirun", "-n", str(RANKS), str(self.apps / "heat"), "--input", str(self.folder / "input.h5"),
                "--steps", str(self.steps), "--snapshot-every", str(self.steps // 4), "--output", str(place / "heat"),
                "--report-every", str(self.steps // 8), "--trace", str(place / "trace")]

    def make_input(self):
        subprocess.run([self.apps / "heat-input", "--nx", str(GRID), "--ny", str(GRID), "--seed", "7",
                        "--sources", "6", self.folder / "input.h5"], check=True)

    def choose_steps(self):
        """As many as take RUN_S on this machine; a multiple of eight."""
        self.run_native("trial")
        trace = observe.read_steps(self.folder / "trial" / "trace")
        middle = len(trace) // 2  # processes that have just begun are slow
        step_s = (trace[-1].seconds - trace[middle].seconds) / (trace[-1].step - trace[middle].step)
        self.steps = max(FEWEST_STEPS, int(RUN_S / step_s)) // 8 * 8

    def run_native(self, name):
        began = time.monotonic()
        with open(self.folder / f"{name}.out", "wb") as output:
            subprocess.run(self.heat(name), stdout=output, stdin=subprocess.DEVNULL,
                           timeout=DEADLINE_S, check=True)
        return time.monotonic() - began

    def start_protected(self):
        """`belay run`, and what watches it."""
        command = [self.belay, "run", "--name", self.job, "--interval", INTERVAL, "--nodes", str(NODES), "--local",
                   "--"] + self.heat("belay")
        with open(self.folder / "belay.out", "wb") as output:
            run = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=self.environment, text=True)
        recorder = observe.Recorder(self.status, self.folder / "belay" / "trace")
        threading.Thread(target=pass_on, args=(run.stderr, recorder), daemon=True).start()
        return run, recorder

    def status(self):
        """The job's status, or None while the agent does not know it yet."""
        return observe.ask_status([self.belay, "status", self.job, "--json"], self.environment)

    def wait_for_the_middle(self, run, recorder):
        """The status when the run is in its middle, and in the middle between two lines, too."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if run.poll() is not None:
                raise DemoFailure(f"the run ended before its middle, with status {run.returncode}")
            status = self.status()
            if status and recorder.last_step() >= KILL_AT * self.steps and is_between_lines(status):
                recorder.take_status(status)
                return status
            time.sleep(0.05)
        raise DemoFailure("no line was committed in time")

    def kill_node(self, status):
        """Agent, keeper and ranks of the node; the agent first, so that the ranks die with a node that is gone."""
        service, ranks = traces.service_of(str(self.folder / "run"), VICTIM), ranks_of(status, VICTIM)
        if not ranks:
            raise DemoFailure(f"node {VICTIM} has no ranks that could be killed")
        for pid in [*service, *ranks.values()]:
            os.kill(pid, signal.SIGKILL)
        return service, ranks

    def clean(self):
        """Let go of the job, so that the agents end, and wait for that."""
        for command in (["stop", self.job], ["clean", self.job]):
            subprocess.run([self.belay, *command], capture_output=True, env=self.environment, timeout=60,
                           check=False)
        deadline = time.monotonic() + 10
        while traces.processes_of(str(self.folder / "run")) and time.monotonic() < deadline:
            time.sleep(0.05)


def pass_on(stream, recorder):
    """Belay's messages are told, mpirun's only recorded."""
    for line in stream:
        recorder.note_message(line.rstrip())
        if line.startswith("belay:"):
            print(f"      {line.rstrip()}", flush=True)


def say(text=""):
    print(text, flush=True)


def is_between_lines(status):
    newest = status["lines"][-1] if status["lines"] else {"state": "none"}
    return newest["state"] == "committed" and time.time() - newest["begun_at_ms"] / 1e3 >= KILL_BEHIND * INTERVAL_S


def ranks_of(status, node):
    """{rank: process id} of a node."""
    return {row["rank"]: row["pid"] for entry in status["nodes"] if entry["number"] == node for row in entry["ranks"]}


def tell_lines(lines):
    """The first and the last few; on a slow machine there may be a hundred."""
    for number, line in enumerate(lines):
        if LINES_TOLD <= number < len(lines) - LINES_TOLD:
            if number == LINES_TOLD:
                say(f"      ... {len(lines) - 2 * LINES_TOLD} more")
            continue
        say(f"      line {line['line']:3d}: images {line['image_bytes'] / 2**20:4.0f} MiB, {line['sent_bytes'] / 2**20:4.0f} MiB "
            f"copied to other nodes, pause {line['pause_ms']:6.1f} ms, in all {line['total_ms']:6.1f} ms")
    pauses = sorted(line["pause_ms"] for line in lines)
    say(f"      half of the pauses were shorter than {pauses[len(pauses) // 2]:.1f} ms")


def tell_recovery(recording, newest_line):
    moments, restart = timeline.find_moments(recording), timeline.restart_of(recording)
    if restart["restored_line"] < newest_line:
        raise DemoFailure(f"the job was restarted from line {restart['restored_line']}, although line {newest_line} had committed")
    begins = {process["rank"]: process["node"] for process in recording["processes"]
              if process["begun_s"] > moments.lost_s and process["rank"] in recording["lost"]["ranks"]}
    if not begins or VICTIM in begins.values():
        raise DemoFailure("the lost ranks did not move to another node")
    places = ", ".join(f"{rank} on node {node}" for rank, node in sorted(begins.items()))

    story = []

    def told(at_s, text):
        story.append((at_s, text))

    told(moments.lost_s, f"node {VICTIM} is killed: agent, keeper, ranks {timeline.list_words(recording['lost']['ranks'])}")
    told(moments.opened_s, f"epoch {restart['epoch']} is opened: {restart['reason']} ({restart['detect_ms']:.0f} ms from the "
         "first sign until the old launch had ended)")
    if restart["fetch_ms"] > 0:
        told(moments.opened_s + restart["fetch_ms"] / 1e3, f"images have come from other nodes, in {restart['fetch_ms']:.0f} ms")
    told(moments.running_s, f"all ranks run again from line {restart['restored_line']}: ranks {places}; "
         f"{restart['restore_ms']:.0f} ms since MPI was up")
    told(moments.step_s, f"the first step afterwards, step {moments.step}")
    told(moments.again_s, f"step {moments.lost_step}, the last one before the loss, is done again: "
         f"{moments.lost_step - moments.step + 1} steps in all")
    if moments.held_s:
        told(moments.held_s, "each image is on two nodes again")
    for at_s, text in sorted(story):
        say(f"      {(at_s - moments.lost_s) * 1e3:8.0f} ms  {text}")


def draw_timeline(recording, folder):
    """Leaves the recording, its picture, and the picture as PNG; says where."""
    folder.mkdir(exist_ok=True)
    (folder / "recording.json").write_text(json.dumps(recording), encoding="utf-8")
    picture = folder / "timeline.svg"
    picture.write_text(timeline.draw(recording), encoding="utf-8")
    say(f"      {picture}")
    if not shutil.which("rsvg-convert"):
        say("      (no PNG: rsvg-convert is not installed; scripts/install-deps installs it)")
        return
    subprocess.run(["rsvg-convert", "--output", picture.with_suffix(".png"), picture], check=True, timeout=60)
    say(f"      {picture.with_suffix('.png')}")


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


def lose_a_node(demo):
    """Run the job, kill the node in the middle. Returns what was recorded, and the newest line before the loss."""
    run, recorder = demo.start_protected()
    try:
        before = demo.wait_for_the_middle(run, recorder)
        recorder.note_loss(VICTIM, sorted(ranks_of(before, VICTIM)))
        service, ranks = demo.kill_node(before)
        say(f"4. kill -9 {' '.join(map(str, [*service, *ranks.values()]))}: node {VICTIM} is dead with agent, keeper and "
            f"{len(ranks)} ranks, at step {recorder.last_step()} of {demo.steps}.")
        status = run.wait(timeout=DEADLINE_S)
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=30)
        recorder.stop()
    if status != 0:
        raise DemoFailure(f"belay run ended with status {status}")
    recording = recorder.recording(observe.read_steps(demo.folder / "undisturbed" / "trace"))
    return recording, before["lines"][-1]["line"]


def tell(demo, pictures):
    say(f"1. An input for the 2-D heat equation: {GRID} x {GRID} cells, 6 sources.")
    demo.make_input()
    demo.choose_steps()
    say(f"2. The undisturbed run: mpirun -n {RANKS} heat, {demo.steps} steps.")
    say(f"      {demo.run_native('undisturbed'):.1f} s")
    say(f"3. The same on {NODES} nodes: belay run --interval {INTERVAL} --nodes {NODES} --local -- mpirun -n {RANKS} heat ...")
    recording, newest_line = lose_a_node(demo)
    say("5. The recovery, from the loss on:")
    tell_recovery(recording, newest_line)
    say()
    say("   The lines that were taken:")
    tell_lines(timeline.committed_lines(recording))
    say("6. The results, compared with the undisturbed run's:")
    differences = compare(demo)
    if differences:
        raise DemoFailure("; ".join(differences))
    say("7. A picture of it all:")
    draw_timeline(recording, pictures)


def main():
    prefix, pictures = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="belay-demo-"))
    demo = Demo(prefix, folder)
    try:
        tell(demo, pictures)
        say("\nThe run with the lost node and the undisturbed run have the same result.")
        return 0
    except (DemoFailure, OSError, ValueError, subprocess.SubprocessError) as failure:
        say(f"\ndemo: FAILED: {describe(failure)}")
        return 1
    finally:
        demo.clean()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
