"""Errors of a model's parts, in eager and compiled, as an SVG of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

ROW, LEFT, WIDTH, TOP = 22, 220, 420, 46
#: Decades of error that are drawn: from rounding in fp64 on.
LOWEST, HIGHEST = -16, 1


def error_picture(errors: Sequence[tuple[str, float, float]]) -> str:
    """A row for each (part, eager's error, the compiled one), relative to an fp64 run, on a scale of decades."""
    height = TOP + ROW * len(errors) + 24
    rows = "".join(_row(TOP + ROW * place, *each) for place, each in enumerate(errors))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>Errors of each part, relative to fp64</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<circle cx="{LEFT}" cy="16" r="5" fill="#888"/><text x="{LEFT + 10}" y="20">eager</text>'
        f'<circle cx="{LEFT + 80}" cy="16" r="5" fill="#c22"/><text x="{LEFT + 90}" y="20">compiled</text>'
        f"{_scale(height)}{rows}</svg>\n"
    )


def _scale(height: int) -> str:
    lines = ""
    for decade in range(LOWEST, HIGHEST + 1, 4):
        x = _along(10.0**decade)
        lines += f'<line x1="{x}" y1="30" x2="{x}" y2="{height - 20}" stroke="#ddd"/>'
        lines += f'<text x="{x}" y="{height - 6}" text-anchor="middle" fill="#555">1e{decade}</text>'
    return lines


def _row(y: int, name: str, eager: float, compiled: float) -> str:
    label = f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name[-30:])}</text>'
    return label + _point(y, eager, "#888", "eager") + _point(y, compiled, "#c22", "compiled")


def _point(y: int, error: float, colour: str, side: str) -> str:
    return f'<circle cx="{_along(error)}" cy="{y}" r="5" fill="{colour}"><title>{side}: {error:.2g}</title></circle>'


def _along(error: float) -> int:
    """Where an error stands; one that is no number lies at the far end."""
    decade = HIGHEST if math.isnan(error) else math.log10(error) if error else LOWEST
    return LEFT + round(WIDTH * (min(max(decade, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST))
