"""Elements that are taken from a tensor and compared with it again: equal, however they were rounded.

Gradients of maxima are given to the elements that are equal to them.  A lane that moved the two apart, or computed the
tensor anew in between, would give them to none, and divide by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fxmorph.judge.reference.lanes import Lanes
from fxmorph.judge.reference.operator_call import OperatorCall, strided
from fxmorph.judge.reference.precision import UNIT
from fxmorph.programs.operators import COMPARISONS
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.storages import storage_key

#: Operators whose results are elements of the tensors that they are given, always and by some reductions; and those
#: that hand such results on.
_SELECTING = frozenset({"amax", "amin", "max", "min", "aminmax"})
_REDUCING = frozenset({"scatter_reduce", "scatter_reduce_", "index_reduce", "index_reduce_"})
_REDUCTIONS = frozenset({"amax", "amin"})
_HANDING_ON = frozenset({"gather", "index_select", "index", "clone"})


class Taken(Protocol):
    """One operand of a comparison was taken from the other."""

    def taken_in(self, lane_call: OperatorCall) -> OperatorCall:
        """The lane's call with what it would take from what it has of the other operand, where it computes that anew
        too.
        """

    def keep_equal(self, new: list[Any], own: tuple[Any, ...]) -> None:
        """In ``new``, have what of a lane's ``own`` operands was taken equal still."""


@dataclass(frozen=True)
class Extreme:
    """The operand at ``extreme`` is the largest or the smallest of that at ``of`` along some dimensions."""

    of: int
    extreme: int
    take: Callable[..., torch.Tensor]
    dims: tuple[int, ...]

    @staticmethod
    def among(lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall]) -> Extreme | None:
        """Seen by values, as the gradient of a norm has them: the program's own, and those of lanes that compute
        nothing anew, to which a number that is as large by chance is no extreme.
        """
        found = next((e for e in _extremes(call) if e.holds(call)), None)
        own = [c for lane, c in zip(lanes, lane_calls, strict=True) if lane.anew is None]
        return found if found is not None and all(map(found.holds, own)) else None

    def holds(self, call: OperatorCall) -> bool:
        x, y = call.args[self.of], call.args[self.extreme]
        return torch.equal(self.take(x, self.dims, keepdim=True).expand(x.shape), y.expand(x.shape))

    def taken_in(self, lane_call: OperatorCall) -> OperatorCall:
        args = list(lane_call.args)
        args[self.extreme] = self.take(args[self.of], self.dims, keepdim=True)
        return _with(lane_call, args, self.taken_in)

    def keep_equal(self, new: list[Any], own: tuple[Any, ...]) -> None:
        held = own[self.of] == own[self.extreme]
        for place in (self.of, self.extreme):
            new[place] = torch.where(held, own[self.of], new[place])


def _extremes(call: OperatorCall) -> Iterator[Extreme]:
    for of, extreme in _pairs(call):
        x, y = call.args[of], call.args[extreme]
        apart = x.ndim - y.ndim
        if not x.numel() or apart < 0:
            continue
        if any(mine not in (1, size) for mine, size in zip(y.shape, x.shape[apart:], strict=True)):
            continue
        dims = tuple(d for d in range(x.ndim) if x.shape[d] > 1 and (d < apart or _is_one(y, d - apart)))
        if dims:
            yield from (Extreme(of, extreme, take, dims) for take in (torch.amax, torch.amin))


def _pairs(call: OperatorCall) -> Iterator[tuple[int, int]]:
    """Places of the operands of a comparison of real numbers of one dtype, either way round."""
    if call.name not in COMPARISONS or len(call.args) < 2:
        return
    x, y = call.args[:2]
    tensors = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    if tensors and x.dtype == y.dtype in UNIT and not x.is_complex():
        yield from ((0, 1), (1, 0))


def _is_one(t: torch.Tensor, dim: int) -> bool:
    return t.shape[dim] == 1 or t.stride(dim) == 0


def _with(lane_call: OperatorCall, args: list[Any], of_anew: Callable[[OperatorCall], OperatorCall]) -> OperatorCall:
    anew = None if lane_call.anew is None else of_anew(lane_call.anew)
    return lane_call.of_lane(tuple(args), lane_call.kwargs, anew)


@dataclass(frozen=True)
class Picked:
    """At ``places`` the operand ``picked`` has, broadcast, the elements of the operand ``of``."""

    of: int
    picked: int
    places: torch.Tensor

    def taken_in(self, lane_call: OperatorCall) -> OperatorCall:
        args = list(lane_call.args)
        args[self.picked] = torch.where(self.places, args[self.of], args[self.picked])
        return _with(lane_call, args, self.taken_in)

    def keep_equal(self, new: list[Any], own: tuple[Any, ...]) -> None:
        for place in (self.of, self.picked):
            new[place] = torch.where(self.places, own[self.of], new[place])


class Selections:
    """Which storages hold elements of which others, taken by the program's operators."""

    def __init__(self) -> None:
        self._sources: dict[int, tuple[Any, frozenset[int]]] = {}  # keeps them alive, so that keys stay unique

    def note(self, call: OperatorCall, out: Any) -> None:
        """What an operator returned, or wrote."""
        reduces = call.name in _REDUCING and not _REDUCTIONS.isdisjoint(v for v in call.args if isinstance(v, str))
        if reduces or call.name in _SELECTING:
            sources = frozenset(storage_key(t) for t in strided(call.tensors) if t.dtype in UNIT)
        elif call.name in _HANDING_ON:
            sources = self._of(call.args[0])
        else:
            return
        for t in strided([*tree_leaves(out), *call.written]) if sources else ():
            self._sources[storage_key(t)] = (t.untyped_storage(), sources)

    def _of(self, t: torch.Tensor) -> frozenset[int]:
        return self._sources.get(storage_key(t), (None, frozenset()))[1]

    def taken(self, lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall]) -> Taken | None:
        """How one operand of a call was taken from the other, if it was."""
        for of, picked in _pairs(call) if self._sources else ():
            x, y = call.args[of], call.args[picked]
            if storage_key(x) in self._of(y):
                return Picked(of, picked, x == y)
        return Extreme.among(lanes, call, lane_calls)
