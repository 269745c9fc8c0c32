"""Inputs some of whose rows have other rows beside them, of programs that promise to be batch-invariant.

A row is what one index of the first dimension has; the batch are all tensors among the arguments whose first dimension
is as long as that of the first of them.  Every other row stays, the first included; the rest become copies of it, which
are as good a value (indices stay in range, masks stay masks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.programs.inputs import NotApplicable
from fxmorph.torchapi.dispatch import tensors_of, tree_map

#: Of the rows, those that stay.
KEPT = slice(None, None, 2)
_REST = slice(1, None, 2)


@dataclass(frozen=True)
class OtherRows:
    """``count``: rows of the batch."""

    count: int

    def of(self, args: list[Any]) -> list[Any]:
        """Arguments with other rows; raises :class:`NotApplicable` where all rows are equal."""
        made = [tree_map(self._beside_others, value) for value in args]
        pairs = zip(tensors_of(args), tensors_of(made), strict=True)
        if all(a is b or torch.equal(a, b) for a, b in pairs):
            raise NotApplicable("rows are equal")
        return made

    def in_batch(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.shape[:1] == (self.count,)

    def _beside_others(self, value: Any) -> Any:
        if not self.in_batch(value):
            return value
        changed = value.detach().clone()
        changed[_REST] = changed[0].clone()
        return changed.requires_grad_(value.requires_grad)

    def text(self) -> str:
        """A function ``drive`` of a script: whether rows that stay keep their values, for each result of the batch."""
        return f"""def drive(g, *inputs):  # the program promises that rows do not hang on others
    from torch.utils._pytree import tree_leaves, tree_map
    def of_batch(v): return torch.is_tensor(v) and v.shape[:1] == ({self.count},)
    def beside_others(v):
        if not of_batch(v): return v
        v = v.detach().clone()
        v[1::2] = v[0].clone()
        return v
    mine, theirs = ([v[::2] for v in tree_leaves(g(*args)) if of_batch(v)]
                    for args in (inputs, tree_map(beside_others, inputs)))
    return [((a == b) | ((a != a) & (b != b))).all() for a, b in zip(mine, theirs)]"""


def other_rows(args: list[Any]) -> OtherRows:
    """Raises :class:`NotApplicable` where the first tensor has no two rows."""
    first = next(iter(tensors_of(args)), None)
    if first is None or first.ndim == 0 or first.shape[0] < 2:
        raise NotApplicable("no batch of rows among the arguments")
    return OtherRows(first.shape[0])
