"""The error map of a tensor as inline SVG."""

from __future__ import annotations

from html import escape

from fxmorph.core.exhibit import EQUAL, NOT_FINITE, SlotExhibit

CELL = 15
#: Opacity of the smallest error that is drawn.
FAINTEST = 0.18


def heat_map(slot: SlotExhibit) -> str:
    """``<svg>`` of the cells, a shade for each decade of error; "" where no value differs."""
    if not slot.wrong or not slot.cells:
        return ""
    errors = [c for row in slot.cells for c in row if c not in (EQUAL, NOT_FINITE)]
    low, high = (min(errors), max(errors)) if errors else (0.0, 0.0)
    cells = [_cell(value, x, y, low, high) for y, row in enumerate(slot.cells) for x, value in enumerate(row)]
    width, height = len(slot.cells[0]) * CELL + 2, len(slot.cells) * CELL
    says = _range(low, high) if errors else "NaN or Inf on one side" if _has_not_finite(slot) else "equal"
    label = f'<text x="1" y="{height + 14}">{escape(says)}</text>'
    wide = max(width, 7 * len(says))
    return (
        f'<svg class="heat" role="img" width="{wide}" height="{height + 20}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(f'errors of {slot.name}: {says}')}</title>{''.join(cells)}{label}</svg>"
    )


def _has_not_finite(slot: SlotExhibit) -> bool:
    return any(value == NOT_FINITE for row in slot.cells for value in row)


def _range(low: float, high: float) -> str:
    return f"{10**low:.1g}" if round(low, 1) == round(high, 1) else f"{10**low:.1g} … {10**high:.1g}"


def _cell(value: float, x: int, y: int, low: float, high: float) -> str:
    place = f'x="{x * CELL + 1}" y="{y * CELL + 1}" width="{CELL}" height="{CELL}"'
    if value == EQUAL:
        return f"<rect {place}><title>equal</title></rect>"
    if value == NOT_FINITE:
        return f'<rect class="e" {place}><title>NaN or Inf on one side</title></rect>'
    shade = 1.0 if high == low else FAINTEST + (1 - FAINTEST) * (value - low) / (high - low)
    return f'<rect class="e" fill-opacity="{shade:.2f}" {place}><title>{10**value:.2g}</title></rect>'
