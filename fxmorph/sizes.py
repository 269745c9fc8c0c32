"""The same program at other sizes: one size is changed wherever the inputs have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fxmorph.inputs import NotApplicable, storage_key
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.torchapi.dispatch import tree_leaves, tree_map

#: The new size under each plan.  Larger is not a multiple, so that tails of vectors and tiles change.
NEW_SIZE: dict[ValuePlan, Callable[[int], int]] = {
    ValuePlan.LARGER: lambda n: 2 * n + 3,
    ValuePlan.SMALLER: lambda n: max(n // 2, 2),
    ValuePlan.ONE: lambda n: 1,
    ValuePlan.EMPTY: lambda n: 0,
}


#: A program as it is (None), or with other arguments.
Make = Callable[[Callable[[list[Any]], list[Any]] | None], Invocation]
#: How many sizes are tried per plan.
TRIES = 4


class Sizes:
    """Chooses once per plan which size of a program to change."""

    def __init__(self) -> None:
        #: (old, new) by plan; None where eager accepts no other size.
        self.chosen: dict[ValuePlan, tuple[int, int] | None] = {}

    def changed(self, plan: ValuePlan, make: Make) -> Invocation:
        """The program with a size changed that eager accepts; raises :class:`NotApplicable`."""
        if plan not in self.chosen:
            self.chosen[plan] = _accepted(plan, make)
        chosen = self.chosen[plan]
        if chosen is None:
            raise NotApplicable("eager accepts no other size")
        return make(lambda args: resize(args, *chosen))


def _accepted(plan: ValuePlan, make: Make) -> tuple[int, int] | None:
    for old in candidates(make(None).args)[:TRIES]:
        new = NEW_SIZE[plan](old)
        if new == old:
            continue
        try:
            made = make(lambda args, old=old, new=new: resize(args, old, new))  # type: ignore[misc]
            with torch.no_grad():
                made.drive(made.fn)
        except Exception:
            continue
        return old, new
    return None


def candidates(values: Any) -> list[int]:
    """Sizes of at least 2 that tensors among nested ``values`` have, the most frequent first."""
    found: Counter[int] = Counter()
    for t in tree_leaves(values):
        if isinstance(t, torch.Tensor):
            found.update(n for n in t.shape if n >= 2)
    return [n for n, _ in sorted(found.items(), key=lambda kv: (-kv[1], -kv[0]))]


def resize(values: Sequence[Any], old: int, new: int) -> list[Any]:
    """``values`` with every dimension of size ``old`` made ``new``: elements repeat or are dropped.

    The order of dimensions in memory and expanded dimensions are kept.  Raises
    :class:`NotApplicable` where tensors share memory or are not strided.
    """
    keys = [storage_key(t) for t in tree_leaves(list(values)) if isinstance(t, torch.Tensor)]
    if len(set(keys)) != len(keys):
        raise NotApplicable("inputs share memory")

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or old not in value.shape:
            return value
        if value.layout != torch.strided:
            raise NotApplicable(f"layout {value.layout}")
        return _resized(value.detach(), old, new).requires_grad_(value.requires_grad)

    with torch.no_grad():
        return [tree_map(one, v) for v in values]


def _resized(t: torch.Tensor, old: int, new: int) -> torch.Tensor:
    strides = t.stride()
    order = sorted(range(t.ndim), key=lambda d: (-strides[d], d))
    out = t.permute(order)
    expanded = [d for d in range(out.ndim) if out.stride(d) == 0 and out.shape[d] > 1]
    for d in range(out.ndim):
        if d in expanded:
            out = out.narrow(d, 0, 1)
        elif out.shape[d] == old:
            out = out.index_select(d, torch.arange(new, device=t.device) % old)
    out = out.contiguous().clone()
    sizes = [new if t.shape[k] == old else t.shape[k] for k in order]
    out = out.expand(sizes) if expanded else out
    inverse = sorted(range(t.ndim), key=lambda d: order[d])
    return out.permute(inverse)
