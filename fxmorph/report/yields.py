"""What each rung yielded over its CPU time: units of Inductor reached for the first time, cases that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from fxmorph.model import Status

#: Pixels of a chart; points kept of a line.
WIDTH, HEIGHT, LEFT, BELOW, MOST_POINTS = 360, 150, 44, 30, 200


@dataclass(frozen=True)
class Point:
    """After ``seconds`` of CPU on this rung: ``units`` reached so far, ``differing`` cases so far."""

    seconds: float
    units: int
    differing: int


class Yields:
    """The lines, of all runs one after the other; a unit counts once for each rung."""

    def __init__(self) -> None:
        self._points: defaultdict[str, list[Point]] = defaultdict(lambda: [Point(0.0, 0, 0)])
        self._reached: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, rung: str, seconds: float, units: Iterable[str], statuses: Iterable[Status]) -> None:
        """One case, or one source of graphs for units alone, in the order in which they ended."""
        line, reached = self._points[rung], self._reached[rung]
        reached.update(units)
        differing = sum(status is Status.FINDING for status in statuses)
        line.append(Point(line[-1].seconds + seconds, len(reached), line[-1].differing + differing))

    def lines(self) -> Mapping[str, Sequence[Point]]:
        """By rung, few enough points to draw."""
        return {rung: _thinned(points) for rung, points in sorted(self._points.items())}


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    step = -(-len(points) // MOST_POINTS)
    return [*points[:-1:step], points[-1]]


def chart(lines: Mapping[str, Sequence[Point]], of: str, title: str) -> Markup:
    """A line for each rung of ``units`` or ``differing`` over CPU seconds, as SVG; colours come from the page."""
    longest = max((line[-1].seconds for line in lines.values()), default=0.0) or 1.0
    most = max((getattr(line[-1], of) for line in lines.values()), default=0) or 1
    across, down = WIDTH - LEFT - 50, HEIGHT - BELOW - 12

    def place(point: Point) -> str:
        x = LEFT + across * point.seconds / longest
        return f"{x:.1f} {12 + down * (1 - getattr(point, of) / most):.1f}"

    drawn = ""
    for rung, line in lines.items():
        x, y = map(float, place(line[-1]).split())
        drawn += f'<polyline class="r-{escape(rung)}" points="{" ".join(map(place, line))}"/>'
        drawn += f'<text class="r-{escape(rung)}" x="{x + 4:.0f}" y="{y + 4:.0f}">{escape(rung)}</text>'
    bottom = 12 + down
    return Markup(
        f'<svg class="yield" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        f"<title>{escape(title)}</title>"
        f'<path d="M{LEFT} 12V{bottom}H{LEFT + across}"/>'
        f'<text class="n" x="{LEFT - 6}" y="18">{most}</text><text class="n" x="{LEFT - 6}" y="{bottom}">0</text>'
        f'<text x="{LEFT}" y="{bottom + 16}">0</text>'
        f'<text class="n" x="{LEFT + across}" y="{bottom + 16}">{longest:.0f} CPU s</text>{drawn}</svg>'
    )
