"""The same program at other sizes: one size is changed wherever the inputs have it, or the ranks of all inputs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import NotApplicable
from fxmorph.torchapi.dispatch import tensors_of, tree_leaves, tree_map
from fxmorph.torchapi.storages import storage_key

if TYPE_CHECKING:  # it changes the arguments of a case by what is here
    from fxmorph.programs.load import Invocation

    #: A program as it is (None), or with other arguments.
    Make = Callable[[Callable[[list[Any]], list[Any]] | None], Invocation]

#: The new size under each plan.  Larger is not a multiple, so that tails of vectors and tiles change.
NEW_SIZE: dict[ValuePlan, Callable[[int], int]] = {
    ValuePlan.LARGER: lambda n: 2 * n + 3,
    ValuePlan.SMALLER: lambda n: max(n // 2, 2),
    ValuePlan.ONE: lambda n: 1,
    ValuePlan.EMPTY: lambda n: 0,
}


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
    made = t
    for d in range(t.ndim):
        if t.shape[d] == old:
            made = made.index_select(d, torch.arange(new, device=t.device) % old)
    return _laid(made, t.stride())


def _laid(values: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """``values`` in memory of their own, dense, with dimensions in the order of ``strides``; those of 0 expanded."""
    order = sorted(range(values.ndim), key=lambda d: (-strides[d], d))
    out = values.permute(order)
    for k, d in enumerate(order):
        if strides[d] == 0:
            out = out.narrow(k, 0, min(1, out.shape[k]))
    out = out.contiguous().clone().expand([values.shape[d] for d in order])
    return out.permute(sorted(range(values.ndim), key=lambda d: order[d]))


# -- other shapes for a case ---------------------------------------------------


@dataclass(frozen=True)
class Reshaping:
    """A change of shapes throughout a program's arguments: of the size ``old``, or of all ranks from ``least`` on."""

    kind: str
    old: int = 0
    least: int = 0

    @property
    def _new(self) -> int:
        return NEW_SIZE[ValuePlan(self.kind)](self.old)

    def of(self, values: Sequence[Any]) -> list[Any]:
        """Dtypes, the order in memory and ``requires_grad`` stay; raises :class:`NotApplicable`."""
        tensors = tensors_of(list(values))
        if not all(type(t) is torch.Tensor and t.layout == torch.strided and not t.is_quantized for t in tensors):
            raise NotApplicable("not plain tensors")
        if self.old:
            return resize(values, self.old, self._new)
        if len({*map(storage_key, tensors)}) != len(tensors):
            raise NotApplicable("inputs share memory")
        change = _deeper if self.kind == "deeper" else _flatter

        def one(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.ndim < self.least:
                return value
            return change(value.detach()).requires_grad_(value.requires_grad)

        with torch.no_grad():
            return [tree_map(one, v) for v in values]

    def __str__(self) -> str:
        if self.old:
            return f"size {self.old} becomes {self._new}"
        what = "one more leading dimension, of size 2," if self.kind == "deeper" else "no first dimension"
        return f"{what} in tensors of rank {self.least} and more"


def reshapings(kind: str, values: Sequence[Any], rng: random.Random) -> list[Reshaping]:
    """What ``kind``, one of RESHAPES, may mean for these arguments, in the order to be tried."""
    if kind in ("deeper", "flatter"):
        ranks = sorted({t.ndim for t in tensors_of(list(values))})
        return [Reshaping(kind, least=rank) for rank in ranks if rank > 0 or kind == "deeper"]
    sizes = candidates(values)
    return [Reshaping(kind, old) for old in rng.sample(sizes, min(TRIES, len(sizes)))]


def _deeper(t: torch.Tensor) -> torch.Tensor:
    """Two of ``t``, the second rolled by one, but not along a last dimension in which it ascends, as edges do."""
    d = next((d for d in range(t.ndim) if t.shape[d] > 1 and t.stride(d)), None)
    ascends = d == t.ndim - 1 and not t.is_complex() and bool((t[..., 1:] >= t[..., :-1]).all())
    other = t if d is None or ascends else t.roll(1, d)
    return _laid(torch.stack([t, other]), (max((1, *t.stride())), *t.stride()))


def _flatter(t: torch.Tensor) -> torch.Tensor:
    return _laid(t[0], t.stride()[1:])
