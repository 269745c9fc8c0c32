"""The signs of the errors that perturbed lanes make: the same draw for all lanes, of which each takes its own row."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

import torch


def sign(row: int, column: int) -> float:
    """1 or -1: the element of a Hadamard matrix of two, four, eight, … rows."""
    return (-1.0) ** (row & column).bit_count()


#: Perturbed lanes around each reference.
SPREAD = 4
#: Signs of the perturbed lanes (rows; the first half around ``wide``) at six roundings one after another:
#: columns of a Hadamard matrix.  Any two are orthogonal, so that up to six roundings of one element add
#: up by their squares exactly, not just on average; each has both signs, among the lanes of one kind too.
SIGNS = [[sign(row, column) for column in (1, 2, 3, 5, 6, 7)] for row in range(8)]
#: Roundings that are orthogonal to each other.
SPAN = len(SIGNS[0])


def _spans() -> list[list[list[float]]]:
    """:data:`SIGNS`, and those of six spans of roundings after them; then they begin again.

    No two of the 42 agree, or differ, in all lanes, or what one rounding adds another might take away in each of them:
    they agree in a quarter of the lanes at least, and differ in as many.  Those of one span are orthogonal, and have
    both signs among the lanes of one kind.  The next two combine the columns of either half otherwise; each of the last
    four turns one lane of either kind, none of them the same two.
    """
    spans = [SIGNS]
    for apart in (1, 2):
        spans.append([SIGNS[row] if row < SPREAD else _shifted(SIGNS[row], apart) for row in range(2 * SPREAD)])
    for k in range(SPREAD):
        turned = (0, SPREAD + k)
        spans.append([[-s if row in turned else s for s in signs] for row, signs in enumerate(SIGNS)])
    return spans


def _shifted(signs: list[float], by: int) -> list[float]:
    """Each three of them one after the other."""
    return [signs[3 * (k // 3) + (k + by) % 3] for k in range(SPAN)]


SPANS = _spans()
#: Draws that are kept, and elements of all of them: lanes run one operator after the other, each of a few roundings.
KEPT, ELEMENTS = 8, 2**25
#: How far apart the seeds of two roundings' draws are.
_APART = 40_503


@cache
def _table(row: int, device: torch.device) -> torch.Tensor:
    """The signs of a lane by span and column, then the opposite ones."""
    signs = [sign for rows in SPANS for sign in rows[row]]
    with torch.inference_mode(False):  # it outlives the run that asked for it first
        return torch.tensor([*signs, *(-sign for sign in signs)], dtype=torch.float64, device=device)


class Signs:
    """Draws from one seed, by the number of the rounding: what each lane asks for in its turn is drawn once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._places: OrderedDict[tuple[int, torch.Size, torch.device], torch.Tensor] = OrderedDict()

    def of(self, row: int, rounding: int, shape: torch.Size, device: torch.device) -> torch.Tensor:
        """1 or -1 by element, in float64: of the lane ``row`` at its rounding of that number."""
        places = self._drawn(rounding, shape, device)
        return _table(row, device).index_select(0, places).view(shape)

    def _drawn(self, rounding: int, shape: torch.Size, device: torch.device) -> torch.Tensor:
        """Places in :func:`_table`, of all lanes."""
        key = rounding, shape, device
        if key in self._places:
            return self._places[key]
        again, span = divmod(rounding // SPAN, len(SPANS))
        # Elements begin at different columns, so that the noise of a sum of them is not one draw for all lanes.
        begun = torch.Generator().manual_seed(self._seed + again)
        column = (torch.randint(0, SPAN, shape, generator=begun) - rounding) % SPAN
        which = (torch.randint(0, len(SPANS), shape, generator=begun) * bool(again) + span) % len(SPANS)
        turned = torch.Generator().manual_seed(self._seed + _APART * (rounding + 1))
        flip = torch.randint(0, 2, shape, generator=turned)
        places = which * SPAN + column + flip * (SPAN * len(SPANS))
        drawn = self._places[key] = places.flatten().to(device, torch.int32)
        while len(self._places) > 1 and (len(self._places) > KEPT or self._elements() > ELEMENTS):
            self._places.popitem(last=False)
        return drawn

    def _elements(self) -> int:
        return sum(places.numel() for places in self._places.values())
