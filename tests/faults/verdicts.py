"""What the end of a disturbed run means."""

import seeds
import points
from belaytest import lines_of_belay, newest_line, without_launcher

RIGHT, ENDED, WRONG, HUNG = "right", "ended", "wrong", "hung"
IMAGES = "images were lost with all their copies"
UNKNOWN = "nobody is left who knows which line was committed"
SHARED = "memory that ranks share was lost with its node"
NOTHING = "no line was held when belay run was killed"
LOOP = "a rank was killed twice between two lines"
FILES = "a file was not protected while the disk was full, as one line told"
# Parts of the last words of a job that has ended over its losses, and what they are counted as.
REASONS = {
    "no node holds the images": IMAGES,
    "the images of line": IMAGES,
    "so it is not known which line was committed": UNKNOWN,
    "the agent has lost its records": UNKNOWN,
    "which are not copied to other nodes": SHARED,
    "and no images of it are held": NOTHING,
    "has no committed line": NOTHING,
    "there is no job": NOTHING,
    "and no line was committed in between": LOOP,
}
SHARING = ("mem_ops", )  # programs whose ranks share memory


class Exposure:
    """Which losses of memory there were, and whether two copies of each image could survive them."""

    def __init__(self, plan):
        self.plan = plan
        self.is_excused = False  # the job may end over its losses, or begin anew
        self.is_covered = True  # each image is on two nodes
        self.has_lost_node = False
        self.losses = 0

    def note(self, faults, status, is_amid_restart):
        """Before these faults are done. What a restart has to do with is what its round has left."""
        lost = sum(fault.kind == seeds.NODE for fault in faults)
        self.losses += sum(fault.kind in (seeds.RANK, seeds.NODE) for fault in faults)
        if not is_amid_restart:
            self.is_covered = is_covered(status)
        if lost and (lost > 1 or not self.is_covered or self.plan.nodes == 1 or self.has_damage()):
            self.is_excused = True
        if lost:
            self.is_covered = False
            self.has_lost_node = True

    def excuses(self, reason):
        """May the job have ended for this reason?"""
        if reason == SHARED:
            return self.has_lost_node and self.plan.program in SHARING
        if reason == LOOP:  # ranks have their faults again after each restart
            return self.losses > 1 or any(fault.point in points.OF_RANKS for fault in self.plan.fault_points)
        return self.is_excused

    def note_point(self, fault):
        """A fault point of the plan may be passed at any time: with the loss of a node at the same time it may be too much."""
        if fault.action == "error" and fault.point.damages and self.plan.nodes == 1:
            self.is_excused = True

    def has_damage(self):
        return any(fault.point.damages and fault.action == "error" for fault in self.plan.fault_points)


def is_covered(status):
    """Are all images of the newest line on two nodes?"""
    return all(len(row["holders"]) > 1 for node in status["nodes"] for row in node["ranks"])


def has_told_of_files(trial):
    """A file was changed while the disk was full, and not put back: the result may be another one, or none."""
    return has_told(trial, "it was not protected") or has_told(trial, "is not protected: its old content")


def has_told(trial, words):
    """These, and the disk was full."""
    return words in trial.job.errors and any(fault.kind == seeds.DISK for fault in trial.plan.faults())


def reason_of(errors):
    """Why the job has ended, in the words that such ends are counted by; None if no last word tells."""
    said = lines_of_belay(errors)[-4:]
    return next((name for line in reversed(said) for part, name in REASONS.items() if part in line), None)


def wrong_in(trial):
    """What is wrong with a job that has ended with status 0; "" if nothing."""
    job, reference = trial.job, trial.reference
    result = job.result()
    if without_launcher(result.stdout) != reference.stdout:
        return "its output is another one"
    if [name for name, _ in result.files] != [name for name, _ in reference.files]:
        return f"its files are others: {[name for name, _ in result.files]}"
    differing = [name for (name, mine), (_, theirs) in zip(result.files, reference.files) if mine != theirs]
    if differing:
        return f"files differ: {', '.join(differing)}"
    return wrong_in_history(trial)


def wrong_in_history(trial):
    status = trial.job.status()
    seen = [pid for ranks in trial.job.pids.values() for pid in ranks.values()]
    if len(seen) != len(set(seen)) and trial.has_one_space:
        return f"processes were not new: {trial.job.pids}"
    if not status:
        return "" if has_told(trial, 'the final status of job "job" cannot be written') else "its record is lost"
    for entry in status["history"]:
        least = trial.least_lines.get(entry["epoch"], 0)
        if entry["restored_line"] < least and not trial.exposure.is_excused:
            return f"epoch {entry['epoch']} went on from line {entry['restored_line']}, and line {least} was committed"
    return ""


def least_line(status):
    """That a restart after this status has to go on from, or a newer one."""
    return max(newest_line(status), max((entry["restored_line"] for entry in status["history"]), default=0))
