"""The picture of a model's errors."""

from __future__ import annotations

import math
import xml.etree.ElementTree as xml

from fxmorph.report.error_picture import error_picture


def circles(text: str) -> list[tuple[str, int]]:
    found = [node for node in xml.fromstring(text).iter() if node.tag.endswith("circle")]
    return [(node[0].text or "", int(node.attrib["cx"])) for node in found if len(node)]


def test_a_larger_error_stands_further_right() -> None:
    (_, small), (told, large) = circles(error_picture([("block", 1e-7, 1e-2)]))
    assert small < large and told == "compiled: 0.01"


def test_no_error_and_no_number_stand_at_the_ends() -> None:
    points = [x for _, x in circles(error_picture([("a<b", 0.0, math.nan), ("c", 1e-300, math.inf)]))]
    assert points[0] == points[2] == min(points) and points[1] == points[3] == max(points)
