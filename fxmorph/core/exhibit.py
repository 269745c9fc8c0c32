"""What a finding shows: values side by side, where in a tensor they differ, and the graphs.

Records of text and numbers only, made by ``fxmorph/triage/demonstration.py`` where the program runs and
drawn by ``fxmorph/report/``.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Cells of an error map along each side, at most.
MAP_SIDE = 16
#: Elements of a table of values, slots, and characters of a graph's text, at most.
MOST_ELEMENTS, MOST_SLOTS, MOST_TEXT = 12, 4, 24_000
#: What a relation says of a side: whether two tensors share memory, or are one object.
SHARED, APART = "yes", "no"
#: A cell of an error map: nothing differs; NaN or Inf on one side only.
EQUAL, NOT_FINITE = -999.0, 999.0


@dataclass(frozen=True)
class Element:
    """One element of a tensor; ``reference`` is in fp64, "" where there is none.  ``error`` is against it, else eager.

    ``eager_error`` is eager's own against the reference.
    """

    at: tuple[int, ...]
    eager: str
    compiled: str
    reference: str
    error: str
    eager_error: str = ""


@dataclass(frozen=True)
class SlotExhibit:
    """An output, an input after the call or a gradient that differs between eager and compiled.

    ``eager`` and ``compiled`` are dtype, shape and strides.  ``cells`` are the rows of the error
    map: log10 of the largest absolute error of a block (EQUAL, NOT_FINITE); rows are all
    dimensions but the last, columns the last one.  ``worst`` are the elements furthest off.
    """

    name: str
    eager: str
    compiled: str
    numel: int = 0
    wrong: int = 0
    cells: tuple[tuple[float, ...], ...] = ()
    worst: tuple[Element, ...] = ()


@dataclass(frozen=True)
class GraphPair:
    """Two graphs to look at side by side, as text: before and after ``by``."""

    title: str
    by: str
    before: str
    after: str


@dataclass(frozen=True)
class Exhibit:
    """``relations`` are (what, eager's, compiled's) where they differ, as aliasing; ``raised`` (eager, compiled).

    ``trouble`` says what could not be shown, and why.
    """

    slots: tuple[SlotExhibit, ...] = ()
    relations: tuple[tuple[str, str, str], ...] = ()
    raised: tuple[str, str] = ("", "")
    graphs: tuple[GraphPair, ...] = ()
    trouble: tuple[str, ...] = ()
