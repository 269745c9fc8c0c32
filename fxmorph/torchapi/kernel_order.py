"""Which iteration of a kernel touched an element: what no order of its iterations may change.

Iterations of a kernel run in any order and at a time, but for what generated code does in one of them.  So what an
iteration reads of an element that another one writes, before or after, is one value in some orders and another one in
others.  That is seen in one run.  Whether it matters is seen in a second one, in which such reads give something else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: No iteration.
_NONE = -1


@dataclass(frozen=True)
class Lanes:
    """The iterations of the steps of one loop body, in the shape that its values have.

    ``outer`` are iterations of the kernel's outermost loops, ``inner`` those of all its loops, where the body has
    them.
    """

    outer: torch.Tensor
    inner: torch.Tensor | None


class Touched:
    """Of one memory, who read and wrote each element in a run of a kernel."""

    def __init__(self, size: int) -> None:
        self.size = size

        def table(fill: int) -> torch.Tensor:
            return torch.full((size,), fill, dtype=torch.int64)

        self._wrote, self._wrote_inner, self._added = table(_NONE), table(_NONE), torch.zeros(size, dtype=torch.bool)
        self._first_reader, self._last_reader = table(torch.iinfo(torch.int64).max), table(_NONE)

    def read(self, at: torch.Tensor, lanes: Lanes) -> torch.Tensor:
        """Where an iteration reads what another one wrote; ``at`` and the lanes are in one dimension."""
        wrong = self.by_others(at, lanes)
        self._first_reader.scatter_reduce_(0, at, lanes.outer, "amin")
        self._last_reader.scatter_reduce_(0, at, lanes.outer, "amax")
        return wrong

    def by_others(self, at: torch.Tensor, lanes: Lanes) -> torch.Tensor:
        """Where another iteration wrote what one touches; shapes go together."""
        wrote = self._wrote[at]
        others = (wrote != _NONE) & (wrote != lanes.outer)
        if lanes.inner is not None:
            inner = self._wrote_inner[at]
            others = others | ((wrote != _NONE) & (inner != _NONE) & (inner != lanes.inner))
        return others

    def write(self, at: torch.Tensor, lanes: Lanes, adds: bool) -> torch.Tensor:
        """Where an iteration writes what another one read, or wrote in another body; two may add to one element."""
        first, last, wrote = self._first_reader[at], self._last_reader[at], self._wrote[at]
        wrong = (last != _NONE) & ((first != lanes.outer) | (last != lanes.outer))
        twice = (wrote != _NONE) & (wrote != lanes.outer)
        wrong |= twice & ~self._added[at] if adds else twice
        self._wrote[at], self._added[at] = lanes.outer, adds
        self._wrote_inner[at] = _NONE if lanes.inner is None else lanes.inner
        return wrong
