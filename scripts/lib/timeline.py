"""Draws what happened to a job that lost a node, as an SVG picture.

usage: timeline.py RECORDING.json PICTURE.svg

A recording (observe.py) is an object; all times are in seconds since `belay run` was started:

  lost         node, at_s, ranks: the node that was killed, when, and the ranks that ran there
  ended_s      the end of the last process
  processes    of rank, node, begun_s, ended_s: agents have the rank null
  lines        as of `belay status --json`, and begun_s
  epochs       its "history", and begun_s
  steps        of [time, step]: when the program had made the step; a second time after a restart
  undisturbed  the same of a run without Belay, from its first step on
  messages     of [time, text]: what `belay run` has said
"""
import json
import sys
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 1500
LEFT, RIGHT = 150, 40  # margins, of labels
PLOT = WIDTH - LEFT - RIGHT
ROW, GAP = 17, 10  # a rank's row; between nodes
POINTS = 900  # of a curve
GLYPH = 0.56  # mean width of a letter by its height, a little more than it is
COLOURS = ("#4c78a8", "#59a14f", "#e15759", "#b07aa1", "#f0a030", "#76b7b2", "#9c755f", "#d37295")
LINE, LOSS, AGAIN, INK, PALE = "#1f4e9c", "#c00000", "#e8871e", "#222222", "#777777"
PHASES = {"notice": "#c00000", "launch": "#7a7a7a", "fetch": "#8e44ad", "restore": "#2e7d32", "again": AGAIN, "copy": LINE}


# ---- what a recording says ----

@dataclass(frozen=True)
class Moments:
    """Of a recovery; in seconds since `belay run` was started."""

    lost_s: float
    opened_s: float  # the epoch without the node
    restore_s: float  # the new processes have initialized MPI
    running_s: float  # all ranks run again
    step_s: float  # the first step that was made then
    again_s: float  # the steps that the loss has cost are made again; or the program's end
    held_s: float  # the first line of the new epoch is held by two nodes; None: there was none
    lost_step: int  # the last one before the loss
    step: int  # the first one afterwards


def find_moments(recording):
    """Raises ValueError if the job was not restarted after the loss, or made no step then."""
    lost_s = recording["lost"]["at_s"]
    epoch = next((row for row in recording["epochs"] if row["begun_s"] >= lost_s), None)
    if not epoch:
        raise ValueError("the job was not restarted after the loss")
    before = [row for row in recording["steps"] if row[0] < epoch["begun_s"]]
    after = [row for row in recording["steps"] if row[0] >= epoch["begun_s"]]
    if not before or not after:
        raise ValueError("the program made no step before the loss, or none after it")
    running_s = epoch["begun_s"] + epoch["launch_ms"] / 1e3
    lines = [line for line in committed_lines(recording) if line["begun_s"] >= epoch["begun_s"]]
    return Moments(lost_s=lost_s, opened_s=epoch["begun_s"], running_s=running_s,
                   restore_s=running_s - epoch["restore_ms"] / 1e3, step_s=after[0][0],
                   again_s=next((at_s for at_s, step in after if step >= before[-1][1]), after[-1][0]),
                   held_s=end_of_line(lines[0]) if lines else None, lost_step=before[-1][1], step=after[0][1])


def committed_lines(recording):
    return [line for line in recording["lines"] if line["state"] == "committed"]


def end_of_line(line):
    return line["begun_s"] + line["total_ms"] / 1e3


def restart_of(recording):
    """The epoch that was opened after the loss."""
    return next(row for row in recording["epochs"] if row["begun_s"] >= recording["lost"]["at_s"])


# ---- drawing ----

class Picture:
    """Elements of SVG, in the order in which they are painted."""

    def __init__(self):
        self._elements = []

    def rectangle(self, x, y, width, height, fill, opacity=1.0, radius=0):
        self._elements.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" '
                              f'fill="{fill}" fill-opacity="{opacity:g}" rx="{radius}"/>')

    def stroke(self, points, colour, width=1.0, dashes=""):
        dashes = f' stroke-dasharray="{dashes}"' if dashes else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._elements.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>')

    def area(self, points, fill, opacity):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._elements.append(f'<polygon points="{path}" fill="{fill}" fill-opacity="{opacity:g}"/>')

    def text(self, x, y, text, size=13, colour=INK, anchor="start", weight="normal"):
        self._elements.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
                              f'font-weight="{weight}">{escape(text)}</text>')

    def svg(self, height):
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
                          f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">',
                          f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>', *self._elements, "</svg>", ""])


class Scale:
    """Times to the picture's x."""

    def __init__(self, from_s, to_s):
        self.from_s, self.to_s = from_s, to_s

    def x(self, at_s):
        share = (at_s - self.from_s) / (self.to_s - self.from_s)
        return LEFT + PLOT * min(max(share, 0), 1)

    def ticks(self, most=12):
        """Times for labels: at most so many, at round distances."""
        length = self.to_s - self.from_s
        distance = next(step * 10 ** power for power in range(-4, 7) for step in (1, 2, 5)
                        if length / (step * 10 ** power) <= most)
        first = int(self.from_s / distance) - 1
        times = [k * distance for k in range(first, first + most + 4)]
        return [at_s for at_s in times if self.from_s <= at_s <= self.to_s]


def text_width(text, size):
    return len(text) * size * GLYPH


def draw(recording):
    """The picture as text of SVG."""
    picture, moments = Picture(), find_moments(recording)
    whole = Scale(0, recording["ended_s"])
    y = draw_title(picture, recording, moments)
    y = draw_nodes(picture, recording, moments, whole, y)
    y = draw_progress(picture, recording, moments, whole, y + 34)
    y = draw_recovery(picture, recording, moments, y + 40)
    return picture.svg(y + 16)


def draw_title(picture, recording, moments):
    epoch = restart_of(recording)
    lost = recording["lost"]
    picture.text(LEFT, 34, f"Node {lost['node']} is lost with ranks {list_words(lost['ranks'])}: the job goes on "
                 f"{moments.step_s - moments.lost_s:.2f} s later, from line {epoch['restored_line']}", 20, weight="bold")
    picture.text(LEFT, 56, "Bars: processes of the ranks, in the colour of their first node. Blue stripes: recovery lines, from "
                 "their beginning to the commit on all nodes.", 13, PALE)
    return 78


def list_words(ranks):
    return ", ".join(map(str, ranks))


def draw_nodes(picture, recording, moments, scale, top):
    """Of each node a band, and in it a row for each rank that ever ran there."""
    ranks = [row for row in recording["processes"] if row["rank"] is not None]
    homes = {row["rank"]: row["node"] for row in sorted(ranks, key=lambda row: -row["begun_s"])}
    top += 18  # for the numbers of lines
    y, bands = top, []
    for node in sorted({row["node"] for row in recording["processes"]}):
        rows = sorted({row["rank"] for row in ranks if row["node"] == node}, key=lambda rank: (homes[rank] != node, rank))
        height = max(len(rows), 1) * ROW + 6
        bands.append((node, rows, y, height))
        y += height + GAP
    bottom = y - GAP
    for node, _, at, height in bands:
        draw_agents(picture, recording, scale, node, at, height)
    draw_lines(picture, recording, moments, scale, bands)
    for node, rows, at, height in bands:
        draw_ranks(picture, [row for row in ranks if row["node"] == node], rows, homes, scale, at + 3)
        picture.text(LEFT - 12, at + height / 2 + 5, f"node {node}", 14, anchor="end", weight="bold")
    draw_loss(picture, recording, moments, scale, bands)
    draw_axis(picture, scale, bottom, "s")
    return bottom + 20


def draw_agents(picture, recording, scale, node, y, height):
    """A band's ground: grey as long as the node has an agent, and so its memory."""
    for row in recording["processes"]:
        if row["node"] == node and row["rank"] is None:
            begin, end = scale.x(row["begun_s"]), scale.x(row["ended_s"])
            picture.rectangle(begin, y, end - begin, height, "#e9ecef")


def draw_lines(picture, recording, moments, scale, bands):
    """A stripe in the band of each node that was there, and the numbers above them, as far as there is room."""
    top, taken = bands[0][2], 0
    for line in committed_lines(recording):
        begin, end = scale.x(line["begun_s"]), scale.x(end_of_line(line))
        for node, _, y, height in bands:
            if node != recording["lost"]["node"] or line["begun_s"] < moments.lost_s:
                picture.rectangle(begin, y - 4, max(end - begin, 1.5), height + 8, LINE, 0.28)
        label, middle = str(line["line"]), (begin + end) / 2
        half = text_width(label, 11) / 2
        if middle - half > taken:
            picture.text(middle, top - 8, label, 11, LINE, "middle")
            taken = middle + half + 4
    picture.text(LEFT - 12, top - 8, "line", 11, LINE, "end")


def draw_ranks(picture, processes, rows, homes, scale, y):
    for row in processes:
        begin, end = scale.x(row["begun_s"]), scale.x(row["ended_s"])
        at = y + rows.index(row["rank"]) * ROW
        picture.rectangle(begin, at + 2, end - begin, ROW - 4, COLOURS[homes[row["rank"]] % len(COLOURS)], 0.85, 3)
        label = f"rank {row['rank']}"
        if end - begin > text_width(label, 10) + 8:
            picture.text(begin + 5, at + ROW - 5, label, 10, "white")


def draw_loss(picture, recording, moments, scale, bands):
    x = scale.x(moments.lost_s)
    picture.stroke([(x, bands[0][2] - 4), (x, bands[-1][2] + bands[-1][3] + 4)], LOSS, 1.5)
    lost = next(band for band in bands if band[0] == recording["lost"]["node"])
    middle = lost[2] + lost[3] / 2
    picture.stroke([(x - 6, middle - 6), (x + 6, middle + 6)], LOSS, 3)
    picture.stroke([(x - 6, middle + 6), (x + 6, middle - 6)], LOSS, 3)
    note = f"agent, keeper and ranks killed at {moments.lost_s:.2f} s: their memory is gone"
    if x + 14 + text_width(note, 12) < WIDTH - RIGHT:
        picture.text(x + 14, middle + 4, note, 12, LOSS)
    else:
        picture.text(x - 14, middle + 4, note, 12, LOSS, "end")


def draw_axis(picture, scale, y, unit, origin_s=0.0):
    """Labels are times since origin_s."""
    picture.stroke([(LEFT, y + 3), (LEFT + PLOT, y + 3)], PALE)
    factor = 1000 if unit == "ms" else 1
    for at_s in Scale(scale.from_s - origin_s, scale.to_s - origin_s).ticks():
        x = scale.x(at_s + origin_s)
        picture.stroke([(x, y + 3), (x, y + 8)], PALE)
        picture.text(x, y + 21, f"{at_s * factor:g} {unit}", 11, PALE, "middle")


def thin(points):
    """At most POINTS of them, the last one included."""
    every = len(points) // POINTS + 1
    return points[::every] + points[-1:]


def draw_progress(picture, recording, moments, scale, top):
    """The program's step over time, and what was done again."""
    height, steps = 150, recording["steps"]
    last = max(step for _, step in steps + recording["undisturbed"])
    bottom = top + height

    def place(row):
        return scale.x(row[0]), bottom - height * row[1] / last

    picture.text(LEFT - 12, top + height / 2 - 4, "steps of", 13, anchor="end", weight="bold")
    picture.text(LEFT - 12, top + height / 2 + 12, "the program", 13, anchor="end", weight="bold")
    picture.text(LEFT - 12, top + 8, str(last), 11, PALE, "end")
    picture.text(LEFT - 12, bottom, "0", 11, PALE, "end")
    begin_s = steps[0][0]
    free = [[at_s + begin_s, step] for at_s, step in recording["undisturbed"] if at_s + begin_s <= scale.to_s]
    picture.stroke([place(row) for row in thin(free)], PALE, 1.2, "5 4")
    before = [row for row in steps if row[0] < moments.opened_s]
    after = [row for row in steps if row[0] >= moments.opened_s]
    again = [row for row in after if row[0] <= moments.again_s]
    corners = [place(row) for row in thin(again)]
    picture.area([(corners[0][0], bottom), *corners, (corners[-1][0], bottom)], AGAIN, 0.35)
    picture.stroke([place(row) for row in thin(before)], INK, 2)
    picture.stroke([place(before[-1]), place(after[0])], LOSS, 1.2, "3 3")
    picture.stroke([place(row) for row in thin(after)], INK, 2)
    x = corners[-1][0] + 12
    note = f"steps {moments.step} to {moments.lost_step} are made again"
    is_right = x + text_width(note, 12) < LEFT + PLOT
    picture.text(x if is_right else corners[0][0] - 12, bottom - 10, note, 12, AGAIN, "start" if is_right else "end")
    picture.text(LEFT + 8, top + 12, "dashed: the undisturbed run, without Belay", 12, PALE)
    draw_axis(picture, scale, bottom, "s")
    return bottom + 20


def phases_of(recording, moments):
    """(kind, begin, end, words) of the recovery, in the order in which they are drawn."""
    epoch = restart_of(recording)

    def span(begin_s, end_s):
        return f"{(end_s - begin_s) * 1e3:.0f} ms"

    found = [("notice", moments.lost_s, moments.opened_s,
              f"{span(moments.lost_s, moments.opened_s)}: the loss is seen, the old launch ended "
              f"(first sign to end: {epoch['detect_ms']:.0f} ms), epoch {epoch['epoch']} opened on the nodes that are left")]
    if epoch["fetch_ms"] > 0:
        found.append(("fetch", moments.opened_s, moments.opened_s + epoch["fetch_ms"] / 1e3,
                      f"{epoch['fetch_ms']:.0f} ms: images come from other nodes"))
    found += [("launch", moments.opened_s, moments.restore_s,
               f"{span(moments.opened_s, moments.restore_s)}: mpirun and MPI_Init of the new processes"),
              ("restore", moments.restore_s, moments.running_s,
               f"{epoch['restore_ms']:.0f} ms: images are mapped, MPI's objects made again, from line {epoch['restored_line']}"),
              ("again", moments.step_s, moments.again_s,
               f"first new step {span(moments.lost_s, moments.step_s)} after the loss; "
               f"{span(moments.step_s, moments.again_s)} of work are done again")]
    if moments.held_s:
        found.append(("copy", moments.running_s, moments.held_s,
                      f"each image is on two nodes again {span(moments.lost_s, moments.held_s)} after the loss"))
    return found


def draw_recovery(picture, recording, moments, top):
    """The time from the loss until all is as it was, enlarged."""
    phases = phases_of(recording, moments)
    end_s = max(phase[2] for phase in phases)
    margin_s = 0.03 * (end_s - moments.lost_s)
    scale = Scale(moments.lost_s - margin_s, end_s + margin_s)
    row = 26
    picture.text(LEFT - 12, top + 6, "the recovery,", 13, anchor="end", weight="bold")
    picture.text(LEFT - 12, top + 22, "enlarged", 13, anchor="end", weight="bold")
    bottom = top + len(phases) * row
    picture.stroke([(scale.x(moments.lost_s), top - 10), (scale.x(moments.lost_s), bottom)], LOSS, 1.5)
    for number, (kind, begin_s, finish_s, words) in enumerate(phases):
        begin, end, y = scale.x(begin_s), scale.x(finish_s), top - 8 + number * row
        picture.rectangle(begin, y, end - begin, row - 8, PHASES[kind], 0.85, 3)
        draw_words(picture, begin, end, y + row - 13, words)
    draw_axis(picture, scale, bottom, "ms", moments.lost_s)
    return bottom + 24


def draw_words(picture, begin, end, y, words):
    """Behind a bar, before it, or in it: where there is room."""
    width = text_width(words, 12)
    if end + 8 + width < WIDTH - 10:
        picture.text(end + 8, y, words, 12)
    elif begin - 8 - width > LEFT:
        picture.text(begin - 8, y, words, 12, anchor="end")
    else:
        picture.text(begin + 8, y, words, 12, "white")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        picture = draw(json.load(file))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
