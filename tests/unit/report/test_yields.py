"""What rungs yielded: units count once for each rung, lines are thinned and drawn."""

from __future__ import annotations

import re

from fxmorph.model import Status
from fxmorph.report.yields import MOST_POINTS, Point, Yields, chart


def test_a_unit_counts_once_for_each_rung() -> None:
    yields = Yields()
    yields.add("cpu", 2.0, ["a", "b"], [Status.CLEAN])
    yields.add("ir", 0.5, ["a"], [Status.FINDING])
    yields.add("cpu", 1.0, ["b", "c"], [Status.FINDING, Status.FINDING])
    assert yields.lines()["cpu"] == [Point(0.0, 0, 0), Point(2.0, 2, 0), Point(3.0, 3, 2)]
    assert yields.lines()["ir"][-1] == Point(0.5, 1, 1)


def test_of_a_long_run_the_first_and_the_last_point_stay() -> None:
    yields = Yields()
    for i in range(10 * MOST_POINTS):
        yields.add("pass", 0.1, [f"unit {i}"], [])
    line = yields.lines()["pass"]
    assert len(line) <= MOST_POINTS + 1
    assert (line[0].units, line[-1].units) == (0, 10 * MOST_POINTS)


def test_lines_end_where_their_rung_did() -> None:
    lines = {"cpu": [Point(0.0, 0, 0), Point(10.0, 4, 0)], "ir": [Point(0.0, 0, 0), Point(5.0, 2, 0)]}
    drawn = chart(lines, "units", "<units>")
    ends = {rung: points.split()[-2:] for rung, points in re.findall(r'class="r-(\w+)" points="([^"]+)"', drawn)}
    left, bottom = 44, 120
    across, down = (float(ends["cpu"][0]) - left, bottom - float(ends["cpu"][1]))
    assert float(ends["ir"][0]) - left == across / 2
    assert bottom - float(ends["ir"][1]) == down / 2
    assert "<units>" not in drawn
