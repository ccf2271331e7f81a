"""Graphs of papers: each policy is a curve, the paper's figures are a band, and values lie where the axes say."""

import os
import sys
from xml.etree import ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "lib"))

import papers  # noqa: E402
import svg  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def points_of(line):
    return [tuple(map(float, point.split(","))) for point in line.get("points").split()]


def test_curves_and_band():
    drawn = ElementTree.fromstring(svg.draw("a < b", "MiB", "s", {"cow": [(1, 0), (3, 1)], "cll": [(1, 0.5), (3, 0.5)]},
                                            (0.5, 1, "a paper")))
    cow, cll = (points_of(line) for line in drawn.iter(f"{SVG}polyline"))
    assert cow[0][0] == cll[0][0] < cow[1][0] == cll[1][0]
    assert cow[0][1] > cll[0][1] == cll[1][1] > cow[1][1]  # upwards
    assert abs(cll[0][1] - (cow[0][1] + cow[1][1]) / 2) < 0.2
    band = next(box for box in drawn.iter(f"{SVG}rect") if box.get("class") == "band")
    assert abs(float(band.get("y")) - cow[1][1]) < 0.2
    assert abs(float(band.get("y")) + float(band.get("height")) - cll[0][1]) < 0.2
    words = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "a < b" in words and "grey: a paper" in words and {"cow", "cll", "MiB"} <= set(words)


def test_one_value_and_negative_ones():
    for curve in ([(8, 0)], [(8, -2), (16, 3)]):
        drawn = ElementTree.fromstring(svg.draw("t", "x", "", {"cow": curve}))
        assert all(0 <= y <= svg.HEIGHT for line in drawn.iter(f"{SVG}polyline") for _, y in points_of(line))


def test_a_graph_for_each_measure(tmp_path):
    values = {graph: 0.5 for graph in papers.GRAPHS}
    found = {(policy, size): values for policy in papers.POLICIES for size in (8, 16)}
    paths = papers.write_graphs(found, "matrix", str(tmp_path), "a note")
    assert len(paths) == len(papers.GRAPHS)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            drawn = ElementTree.fromstring(file.read())
        assert len(list(drawn.iter(f"{SVG}polyline"))) == len(papers.POLICIES)
    rows = papers.table(found).splitlines()
    assert len(rows) == 2 + len(found) + 1 and papers.LI in rows[-1] and "80 to 97 %" in rows[-1]
