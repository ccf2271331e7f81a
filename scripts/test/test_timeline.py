"""timeline.py: what a recorded loss of a node says, and that its picture can be read."""
import copy
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIB = HERE.parent / "lib"
sys.path.insert(0, str(LIB))

import timeline  # noqa: E402

RECORDED = HERE / "recorded" / "lost-node.json"  # of a run of scripts/demo, with fewer steps
SVG = "{http://www.w3.org/2000/svg}"
ANCHORS = {"start": 0, "middle": 0.5, "end": 1}


@pytest.fixture(name="recording")
def read_recording():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def boxes(svg):
    """(left, top, right, bottom, text) of each text of the picture."""
    found = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        size, x, y = (float(element.get(name)) for name in ("font-size", "x", "y"))
        width = timeline.text_width(element.text, size)
        left = x - width * ANCHORS[element.get("text-anchor")]
        found.append((left, y - 0.75 * size, left + width, y + 0.2 * size, element.text))
    return found


def assert_readable(svg):
    """No text on another one, and none beyond the edge."""
    height = float(ElementTree.fromstring(svg).get("height"))
    texts = boxes(svg)
    for number, one in enumerate(texts):
        assert one[0] >= 0 and one[1] >= 0 and one[2] <= timeline.WIDTH and one[3] <= height, one
        for other in texts[:number]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1], (one, other)


def words(svg):
    return [box[4] for box in boxes(svg)]


def test_moments(recording):
    """Each from what was recorded: the clocks of program, agents and script agree on their order."""
    moments = timeline.find_moments(recording)
    epoch = timeline.restart_of(recording)
    assert epoch["epoch"] == 2 and epoch["reason"] == "node 2 was lost"
    assert moments.lost_s < moments.opened_s < moments.restore_s < moments.running_s < moments.held_s
    assert moments.opened_s < moments.step_s < moments.again_s
    assert moments.opened_s == epoch["begun_s"]
    assert moments.running_s == pytest.approx(epoch["begun_s"] + epoch["launch_ms"] / 1e3)
    assert moments.step == next(step for at_s, step in recording["steps"] if at_s > moments.opened_s)
    assert moments.lost_step == max(step for at_s, step in recording["steps"] if at_s < moments.opened_s)
    assert moments.step < moments.lost_step


def test_picture(recording):
    svg = timeline.draw(recording)
    assert_readable(svg)
    moments, told = timeline.find_moments(recording), words(svg)
    assert {f"node {node}" for node in range(4)} <= set(told)
    for rank in range(8):  # before the loss and after it
        assert told.count(f"rank {rank}") == 2
    assert f"the job goes on {moments.step_s - moments.lost_s:.2f} s later" in told[0]
    numbers = [str(line["line"]) for line in timeline.committed_lines(recording)]
    assert [text for text in told if text in numbers][:len(numbers)] == numbers
    assert f"steps {moments.step} to {moments.lost_step} are made again" in told


def test_ranks_of_the_lost_node_are_drawn_where_they_go_on(recording):
    """In the band of node 3, below its own ranks, and in the colour of node 2."""
    elements = list(ElementTree.fromstring(timeline.draw(recording)))
    rows = {}
    for bar, label in zip(elements, elements[1:]):
        if label.tag == f"{SVG}text" and (label.text or "").startswith("rank ") and bar.tag == f"{SVG}rect":
            rows.setdefault(label.text, []).append((float(bar.get("y")), bar.get("fill")))
    for rank in (4, 5):
        (before, colour), (after, same) = rows[f"rank {rank}"]
        assert after > rows["rank 7"][1][0] > before and colour == same == timeline.COLOURS[2]
    for rank in (0, 1, 2, 3, 6, 7):
        assert len(set(rows[f"rank {rank}"])) == 1


def lose_late(recording):
    """Shortly before the end of the run."""
    recording["ended_s"] = timeline.find_moments(recording).again_s + 0.1


def fetch(recording):
    timeline.restart_of(recording)["fetch_ms"] = 123.4


def take_many_lines(recording):
    first = recording["lines"][0]
    recording["lines"] = [{**first, "line": number, "begun_s": 0.05 * number + 1, "total_ms": 10.0} for number in range(1, 300)]


def take_no_line_afterwards(recording):
    opened_s = timeline.find_moments(recording).opened_s
    recording["lines"] = [line for line in recording["lines"] if line["begun_s"] < opened_s]


def end_before_steps_are_made_again(recording):
    moments = timeline.find_moments(recording)
    recording["steps"] = [row for row in recording["steps"] if row[0] <= moments.step_s]


def take_long(recording):
    """A launch of minutes."""
    timeline.restart_of(recording)["launch_ms"] = 1e5
    recording["ended_s"] = 200.0


@pytest.mark.parametrize("change", [lose_late, fetch, take_many_lines, take_no_line_afterwards,
                                    end_before_steps_are_made_again, take_long])
def test_other_runs_can_be_read_as_well(recording, change):
    plain = timeline.draw(copy.deepcopy(recording))
    change(recording)
    svg = timeline.draw(recording)
    assert svg != plain
    assert_readable(svg)


def test_fetched_images_are_told(recording):
    assert not [text for text in words(timeline.draw(recording)) if "come from other nodes" in text]
    fetch(recording)
    assert "123 ms: images come from other nodes" in words(timeline.draw(recording))


@pytest.mark.parametrize("lists, message", [({"epochs": []}, "was not restarted"), ({"steps": []}, "made no step")])
def test_what_cannot_be_drawn(recording, lists, message):
    with pytest.raises(ValueError, match=message):
        timeline.draw({**recording, **lists})


def test_command(recording, tmp_path):
    subprocess.run([sys.executable, LIB / "timeline.py", RECORDED, tmp_path / "picture.svg"], check=True)
    picture = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert picture == timeline.draw(recording)
    assert re.match(r"<svg [^>]*viewBox=", picture)
