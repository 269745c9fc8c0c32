"""What limits what may be said about a run, and about each value of it: the gates.

They are checked on the operands of each operator before it runs and on its results after (for exact arithmetic:
``exactness.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fxmorph.judge.reference.lanes import Lane
from fxmorph.judge.reference.operator_call import OperatorCall, strided
from fxmorph.judge.reference.overflow import may_overflow
from fxmorph.judge.reference.precision import AMPLITUDE, UNIT
from fxmorph.judge.reference.tables import CASTS, INDEX_PUTS
from fxmorph.programs.bits import plain
from fxmorph.programs.memory import overlap, overlaps_itself, same_elements
from fxmorph.torchapi.dispatch import is_random, tree_leaves
from fxmorph.torchapi.storages import storage_key

#: Operators by which Python learns values.
TO_PYTHON = frozenset("_local_scalar_dense equal".split())
#: Operators that write to places that indices name, and the position of the indices.
SCATTERS = {"scatter": 2, "scatter_": 2, "index_copy": 2, "index_copy_": 2}

#: Operators that write each window's number to the place in its plane that an index names, and a plane's dimensions.
UNPOOLS = {"max_unpool2d": 2, "max_unpool3d": 3}

#: Operators that look numbers up among boundaries, and the position of those.
LOOK_UPS = {"bucketize": 1, "searchsorted": 0}

#: Gates that close what was computed from where they closed, and nothing beside it.
LOCAL = (
    "uninitialised", "duplicate_indices", "unordered_boundaries", "overlapping_write", "overflow", "bit_cast",
    "cast_out_of_range", "integer_overflow", "random_values", "rounds_freely", "tied", "tied_twice", "low_precision",
)  # fmt: skip


@dataclass
class Gates:
    """What the run did that limits what may be said about it."""

    random: bool = False
    #: A kernel of fused attention that drops weights: how many numbers it draws is its own matter.
    fused_dropout: str = ""
    uninitialised: bool = False
    duplicate_indices: str = ""
    unordered_boundaries: str = ""
    overlapping_write: str = ""
    overflow: bool = False
    bit_cast: bool = False
    #: A number was cast to a float of a narrower type.
    narrowing_cast: bool = False
    #: A float was cast to an integer type that cannot hold it.
    cast_out_of_range: bool = False
    #: What may have made an integer that int32 or int64 cannot hold.
    integer_overflow: str = ""
    random_values: bool = False
    #: An operator that right code may compute other bits for (``single_roundings.py``).
    rounds_freely: str = ""
    #: A decision that the shadows do not agree on, and one of those that hangs on another such: of the many ways that
    #: both may go, each with the numbers that it leads to, a few shadows have a few.
    tied: bool = False
    tied_twice: str = ""
    #: Elements that were equal where an operator may take any of them, at most.
    equals: int = 0
    opaque: set[str] = field(default_factory=set)
    #: Of those, what compiled code may compute otherwise, or of which lanes have nothing of their own.
    blind: set[str] = field(default_factory=set)
    #: What Python learnt of a tensor (a truth value, an integer, a size) and rounding may decide otherwise.
    undecided: str = ""
    #: Python took a floating-point number that rounding reaches: what it does with it is not followed.
    number_taken: bool = False
    #: An operand was of a 16-bit type.
    low_precision: bool = False
    #: A whole quotient of operands that no rounding reached was taken: another one of inputs beside them says nothing.
    decided_quotient: bool = False
    exact: bool = True
    inexact_because: str = ""
    #: Values were, and not what was done with them: on others the same operators may be exact.
    inexact_values: bool = False
    ops: int = 0

    def summary(self) -> str:
        """What the run was like, in a few words."""
        said = [f"{self.ops} operators", "exact arithmetic" if self.exact else f"not exact ({self.inexact_because})"]
        said += [word for word, on in (("random numbers", self.random), ("16-bit", self.low_precision)) if on]
        said += [f"no fp64 for {', '.join(sorted(self.opaque))}"] if self.opaque else []
        return ", ".join(said)

    def not_exact(self, why: str, values: bool = False) -> None:
        if self.exact:
            self.exact, self.inexact_because, self.inexact_values = False, why, values

    def around(self, closed: frozenset[str]) -> Gates:
        """The gates for a value that of the :data:`LOCAL` ones only ``closed`` lie before."""
        return replace(self, **{name: type(getattr(self, name))() for name in LOCAL if name not in closed})

    def opened(self) -> dict[str, Any]:
        """Open the :data:`LOCAL` ones; what they were."""
        before = {name: getattr(self, name) for name in LOCAL}
        for name, value in before.items():
            setattr(self, name, type(value)())
        return before

    def closed_since(self, before: dict[str, Any]) -> frozenset[str]:
        """The :data:`LOCAL` ones that closed since they were :meth:`opened`; those of ``before`` are closed again."""
        closed = frozenset(name for name in LOCAL if getattr(self, name))
        for name in LOCAL:
            setattr(self, name, before[name] or getattr(self, name))
        return closed


class ClosedBefore:
    """Which of the :data:`LOCAL` gates lie before what a storage holds, and before all that is to come."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[Any, frozenset[str]]] = {}  # keeps them alive, so that keys stay unique
        self._all: frozenset[str] = frozenset()

    def of(self, t: torch.Tensor) -> frozenset[str]:
        return self._of_storage(t) | self._all

    def _of_storage(self, t: torch.Tensor) -> frozenset[str]:
        return self._storages[storage_key(t)][1] if storage_key(t) in self._storages else frozenset()

    def note(self, call: OperatorCall, closed: frozenset[str], out: Any) -> None:
        """What an operator gives or writes has behind it what its operands have, and what it ``closed`` itself."""
        closed = closed.union(*map(self._of_storage, strided(call.tensors)))
        if not closed:
            return
        if call.name in TO_PYTHON:
            self._all |= closed
        for t in strided([*tree_leaves(out), *call.written]):
            self._storages[storage_key(t)] = (t.untyped_storage(), self._of_storage(t) | closed)


def check_operands(gates: Gates, call: OperatorCall) -> None:
    """The gates that the operands of a call decide, before it runs."""
    name, args = call.name, call.args
    if any(t.dtype in AMPLITUDE for t in call.tensors):
        gates.low_precision = True
    if name.startswith("_scaled_dot_product") and is_random(call.func, args, call.kwargs):
        gates.fused_dropout = name
    if name in CASTS:
        source = args[1] if name == "copy_" or name == "copy" else args[0]
        wanted = args[0].dtype if name != "_to_copy" else call.kwargs.get("dtype")
        if isinstance(source, torch.Tensor) and wanted is not None:
            gates.cast_out_of_range |= _cannot_hold(source, wanted)
            gates.narrowing_cast |= _cast_rounds(source, wanted)
    if may_overflow(name, args, call.kwargs):
        gates.integer_overflow = name
    if any(overlaps_itself(t) or _meets_another(t, call.tensors) for t in call.written):
        gates.overlapping_write = name
    if _writes_twice(call):
        gates.duplicate_indices = name
    if _unordered(call):
        gates.unordered_boundaries = name


def check_overflow(gates: Gates, made: list[torch.Tensor], wide: Lane) -> None:
    """An overflow among results that only the native dtype has: none is in the lane ``wide``."""
    for t in made:
        if t.dtype in UNIT and t.numel() and not gates.overflow:
            native_bad = ~torch.isfinite(plain(t))
            if bool(native_bad.any()) and bool((native_bad & torch.isfinite(wide.shadow(t))).any()):
                gates.overflow = True


def _writes_twice(call: OperatorCall) -> bool:
    """Whether two different values are written to one place."""
    if call.name in SCATTERS and call.kwargs.get("reduce") is None and len(call.args) > SCATTERS[call.name]:
        return _scatter_conflicts(call.name, call.args)
    if call.name in UNPOOLS:
        return _unpool_conflicts(call.args[0], call.args[1], UNPOOLS[call.name])
    return call.name in INDEX_PUTS and not call.accumulates and _index_put_conflicts(call.args, call.kwargs)


def _unordered(call: OperatorCall) -> bool:
    """Whether numbers are looked up among boundaries in no order: what is returned is undefined."""
    at = LOOK_UPS.get(call.name)
    if at is None or not isinstance(boundaries := call.args[at], torch.Tensor) or boundaries.ndim == 0:
        return False
    sorter = call.kwargs.get("sorter")
    ordered = plain(boundaries if sorter is None else boundaries.gather(-1, sorter))
    low, high = ordered[..., :-1], ordered[..., 1:]
    return not bool(((low <= high) | high.isnan()).all())


def _scatter_conflicts(name: str, args: Any) -> bool:
    x, dim, index = args[0], args[1], args[2]
    source = args[3] if len(args) > 3 else None
    if not isinstance(index, torch.Tensor) or not isinstance(source, torch.Tensor) or not index.numel():
        return False
    if index.ndim == 0 or x.ndim == 0:
        return False
    if "index_copy" in name:
        return _conflict(index.flatten(), source.movedim(dim, 0).reshape(index.numel(), -1))
    d = dim % x.ndim
    source = source[tuple(slice(0, n) for n in index.shape)]
    rows = index.movedim(d, 0).reshape(index.shape[d], -1)
    values = source.movedim(d, 0).reshape(index.shape[d], -1)
    columns = torch.arange(rows.shape[1], device=rows.device).expand_as(rows)
    return _conflict((rows * rows.shape[1] + columns).flatten(), values.reshape(-1, 1))


def _unpool_conflicts(values: torch.Tensor, places: torch.Tensor, dims: int) -> bool:
    planes = places.flatten(-dims).reshape(-1, places.shape[-dims:].numel())
    if not planes.numel():
        return False
    size = int(planes.max()) + 1
    of_plane = torch.arange(planes.shape[0], device=planes.device)[:, None]
    return _conflict((of_plane * size + planes).flatten(), values.reshape(-1, 1))


def _index_put_conflicts(args: Any, kwargs: Any) -> bool:
    x, indices = args[0], args[1]
    values = args[2] if len(args) > 2 else kwargs.get("values")
    if not isinstance(values, torch.Tensor):
        return False
    try:
        numbers = torch.arange(x.numel(), device=x.device).reshape(x.shape)
        places = torch.ops.aten.index(numbers, indices)
        return _conflict(places.flatten(), values.expand(places.shape).reshape(-1, 1))
    except Exception:
        return False  # the operator itself will say what is wrong with its indices


def _conflict(places: torch.Tensor, values: torch.Tensor) -> bool:
    """Two different values written to one place: which one stays is undefined."""
    order = places.argsort(stable=True)
    p, v = places[order], values[order]
    same = p[1:] == p[:-1]
    differs = (v[1:] != v[:-1]).any(-1) if v.numel() else same
    return bool((same & differs).any())


def _meets_another(written: torch.Tensor, operands: list[torch.Tensor]) -> bool:
    """Whether another operand has a part of what is written: what it is when it is read hangs on the kernel."""
    key = storage_key(written)
    beside = [t for t in strided(operands) if t is not written and storage_key(t) == key]
    return any(overlap(written, t) and not same_elements(written, t) for t in beside)


def _cannot_hold(source: torch.Tensor, wanted: torch.dtype) -> bool:
    """Whether floats are cast to an integer type that cannot hold all of them: C++ leaves that undefined."""
    if not source.is_floating_point() or wanted.is_floating_point or wanted.is_complex or wanted == torch.bool:
        return False
    info, x = torch.iinfo(wanted), source.detach().double()
    return bool((x.isnan() | (x.trunc() < info.min) | (x.trunc() > info.max)).any())


def _cast_rounds(source: torch.Tensor, wanted: torch.dtype) -> bool:
    """Whether numbers are cast to floats of a narrower type that does not have all of them."""
    if UNIT.get(source.dtype, 0.0) >= UNIT.get(wanted, 0.0):
        return False
    return not bool(torch.isclose(source.to(wanted).to(source.dtype), source, rtol=0, atol=0, equal_nan=True).all())
