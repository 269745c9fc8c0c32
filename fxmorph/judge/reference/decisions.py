"""Discrete decisions: what rounding may decide otherwise, decided both ways in the two tie lanes.

A few perturbed lanes miss some decisions on the edge by chance; these two do not.
"""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.judge.reference.divisions import QUOTIENTS, rounds_quotient
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.lanes import Lane, Lanes
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import UNIT, is_wide
from fxmorph.judge.reference.selections import Selections
from fxmorph.judge.reference.tables import ROUNDINGS
from fxmorph.programs.operators import COMPARISONS
from fxmorph.torchapi.dispatch import tree_map

#: Operators that say where elements are.
INDEX_GIVING = frozenset(
    "argmax argmin max min sort topk kthvalue median nanmedian mode cummax cummin argsort "
    "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d "
    "fractional_max_pool2d fractional_max_pool3d".split()
)
#: Of them, those that may take any of equal elements, and sorts that are not told to be stable.  The documentation of
#: argmax, argmin, max and min promises the first; kernels of the others agree on one.
ANY_OF_EQUALS = frozenset("topk kthvalue median nanmedian mode".split())
#: Operators that give an order, and with ``kthvalue`` those to which NaN is larger than any number.
ORDERS = frozenset("sort argsort topk".split())
SORTING = ORDERS | {"kthvalue"}
#: Which argument may name the dimension.
DIMENSION_AT = {"sort": 1, "argsort": 1, "mode": 1, "median": 1, "nanmedian": 1, "topk": 2, "kthvalue": 2}
#: Numbers of the reference that are this close, relative to them, are equal.
REFERENCE_NOISE = 2.0**-40
#: Operators whose operands round in the lanes whose casts do.
DISCRETE = (
    COMPARISONS
    | ROUNDINGS
    | frozenset(
        "floor_divide argmax argmin sort topk argsort max min median kthvalue mode cummax cummin bucketize "
        "searchsorted isin nonzero heaviside remainder fmod frac".split()
    )
)
#: Operators whose result depends on the sign of zero, which compiled code does not keep, and of NaN, which has none.
ZERO_SIGNS = frozenset("signbit copysign copysign_ atan2 atan2_ angle arctan2".split())


def decided_both_ways(
    lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall], gates: Gates, selections: Selections
) -> None:
    """Move the operands of a decision in ``lane_calls``, those of a call by lane, to either side of it."""
    decides = call.name in COMPARISONS or call.name in ROUNDINGS or (rounds_quotient(call) and not call.decided)
    if decides and not gates.exact:
        _move_apart(lanes, call, lane_calls, selections)
    if call.name in ZERO_SIGNS:
        _sign_zeros(lanes, call, lane_calls, gates)


def _move_apart(lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall], selections: Selections) -> None:
    """In the tie lanes, move the operands of a decision by what rounding may have moved them.

    Operands of ``eq`` and ``ne`` that are closer than that are made equal in one lane and
    unequal in the other.  What was taken from the other operand stays equal to it.
    """
    name, args = call.name, call.args
    floats = [i for i, t in enumerate(args) if isinstance(t, torch.Tensor) and t.dtype in UNIT and not t.is_complex()]
    if not floats:
        return
    reach = {i: 2 * lanes.deviation(args[i]) for i in floats}
    taken = selections.taken(lanes, call, lane_calls)
    if taken is not None:
        lane_calls[:] = map(taken.taken_in, lane_calls)
    if name in QUOTIENTS:
        first = floats[0]
        least = 2 * UNIT[args[first].dtype] * lanes.wide.shadow(args[first]).abs()
        reach[first] = torch.maximum(reach[first], least)
    for slot, lane in enumerate(lanes):
        if not lane.tie:
            continue
        new = list(lane_calls[slot].args)
        if name in ("eq", "ne"):
            i = floats[0]  # beside it may be integers or truth values, which nothing moves
            other = new[1 - i] if len(new) > 1 else 0.0
            if isinstance(other, torch.Tensor) and other.dtype == torch.bool:
                other = other.to(new[i].dtype)
            gap = new[i] - other
            total = sum(reach.values()) + torch.zeros_like(gap)
            near = (total > 0) & (gap.abs() <= total)  # equal data that nothing rounded stay equal
            away = torch.nextafter(new[i], torch.full_like(new[i], torch.inf))
            new[i] = torch.where(near, (other + torch.zeros_like(gap)) if lane.tie > 0 else away, new[i])
        else:
            for i in floats:
                new[i] = new[i] + (lane.tie if i == 0 else -lane.tie) * reach[i]
        if taken is not None:
            taken.keep_equal(new, lane_calls[slot].args)
        lane_calls[slot] = call.of_lane(tuple(new), lane_calls[slot].kwargs)


def _sign_zeros(lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall], gates: Gates) -> None:
    """Zeros and NaN are positive in one tie lane and negative in the other."""
    if any(bool(_has_no_sign(t).any()) for t in call.tensors if t.dtype in UNIT):
        gates.not_exact(f"{call.name} of zero or NaN")
    for slot, lane in enumerate(lanes):
        if lane.tie:
            args, kwargs = tree_map(
                lambda s, sign=float(lane.tie): _signed(s, sign) if is_wide(s) else s,
                (lane_calls[slot].args, lane_calls[slot].kwargs),
            )
            lane_calls[slot] = call.of_lane(args, kwargs)


def _has_no_sign(t: torch.Tensor) -> torch.Tensor:
    return (t == 0) | t.isnan()


def _signed(s: torch.Tensor, sign: float) -> torch.Tensor:
    """With this sign where there is none."""
    if s.is_complex():
        return torch.where(s == 0, torch.full_like(s, sign * 0.0), s)
    return torch.where(_has_no_sign(s), s.copysign(torch.full_like(s, sign)), s)


def tie_broken(lanes: Lanes, lane: Lane, call: OperatorCall, gates: Gates) -> Any:
    """A lane's call of an index-giving operator with ties broken by position; None where that changes nothing.

    Where an order is promised, elements are equal or not unless rounding may have moved them, which it has not
    where the run was exact so far.
    """
    if not lane.tie or call.name not in INDEX_GIVING:
        return None
    x = call.args[0]
    if not isinstance(x, torch.Tensor) or x.numel() < 2 or x.is_complex():
        return None
    reach = 2 * lanes.deviation(call.tensors[0])
    if not _promises_order(call):
        return _of_equals(call, lane, reach, gates)
    if gates.exact or not bool(reach.any()):
        return None
    ramp = torch.arange(x.numel(), dtype=torch.float64, device=x.device).reshape(x.shape) / x.numel()
    return _with_values(call.run(), _of(call, x.double() + lane.tie * reach * ramp))


def _of_equals(call: OperatorCall, lane: Lane, reach: torch.Tensor, gates: Gates) -> Any:
    """The call with others taken of equal elements: those come in the order of their places, turned."""
    own, dim = call.run(), _dimension(call)
    x = call.args[0]
    if dim is None:
        x, reach = x.reshape(-1), reach.reshape(-1)
    along = 0 if dim is None else dim
    ranks = _ranks(x, reach, along, nan_is_largest=call.name in SORTING)
    place, count = _among_equals(ranks, along)
    gates.equals = max(gates.equals, int(count.max()))
    if dim is None:  # there are no indices
        return own
    turned = ((place + lane.turned) % count) / count
    if call.name == "mode":  # which decides by how many are equal
        keepdim = bool(call.kwargs.get("keepdim", len(call.args) > 2 and call.args[2]))
        taken = ranks.gather(dim, own[1] if keepdim else own[1].unsqueeze(dim))
        return own[0], ((ranks == taken) * (2 - turned)).argmax(dim, keepdim)
    other = _of(call, ranks + turned / 2)
    if call.name not in ORDERS:
        return _with_values(own, other)
    mine, theirs = (got if isinstance(got, torch.Tensor) else got[1] for got in (own, other))
    mine, theirs, mine_ranks = (t.movedim(dim, -1) for t in (mine, theirs, ranks.gather(dim, mine)))
    moved = _all_moved(mine, theirs, mine_ranks, by=lane.turned + 1).movedim(-1, dim)
    return moved if isinstance(own, torch.Tensor) else (own[0], moved)


def _of(call: OperatorCall, operand: torch.Tensor) -> Any:
    """The call's result for another first operand."""
    return call.func(operand, *call.args[1:], **call.kwargs)


def _with_values(own: Any, other: Any) -> Any:
    """The indices of ``other``, which is a result for an operand of float64, and all else of ``own``."""
    if isinstance(other, torch.Tensor):
        return own if other.is_floating_point() else other
    return tuple(p if s.is_floating_point() else s for p, s in zip(own, other, strict=True))


def _dimension(call: OperatorCall) -> int | None:
    """The dimension along which an operator of :data:`ANY_OF_EQUALS` or :data:`ORDERS` takes elements; None: all."""
    at = DIMENSION_AT[call.name]
    default = None if "median" in call.name else -1
    dim: int | None = call.kwargs.get("dim", call.args[at] if len(call.args) > at else default)
    return dim


def _ranks(x: torch.Tensor, reach: torch.Tensor, dim: int, nan_is_largest: bool) -> torch.Tensor:
    """The rank of each element along ``dim``, as float64; equals have the same, and neighbours that
    rounding, which moves each by ``reach`` at most, may have made of equals.

    NaN stays NaN where it is not the largest.
    """
    ordered, order = (x if x.is_floating_point() else x.long()).sort(stable=True, dim=dim)
    n = ordered.shape[dim] - 1
    low, high = ordered.narrow(dim, 0, n), ordered.narrow(dim, 1, n)
    same = (low == high) | (low.isnan() & high.isnan())
    if x.is_floating_point():
        moved = reach.expand(x.shape).gather(dim, order)
        noise = REFERENCE_NOISE * torch.maximum(low.abs(), high.abs())
        near = moved.narrow(dim, 0, n) + moved.narrow(dim, 1, n) + noise
        same |= (high - low <= near) & low.isfinite() & high.isfinite()
    rank = torch.zeros_like(ordered, dtype=torch.float64)
    rank.narrow(dim, 1, n).copy_((~same).cumsum(dim))
    rank = rank if nan_is_largest else torch.where(ordered.isnan(), torch.nan, rank)
    return torch.zeros_like(rank).scatter(dim, order, rank)


def _among_equals(ranks: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each element its place among those of its rank, in the order in which they are there, and their number."""
    ordered, order = ranks.movedim(dim, -1).sort(stable=True)
    first, last = _ends(ordered)
    at = torch.arange(ordered.shape[-1], device=ranks.device).expand(ordered.shape)
    place, count = (torch.zeros_like(t).scatter(-1, order, t).movedim(-1, dim) for t in (at - first, last - first + 1))
    return place, count


def _ends(ranks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where along the last dimension the run of equal ranks begins that an element is in, and where it ends."""
    n = ranks.shape[-1]
    at = torch.arange(n, device=ranks.device).expand(ranks.shape)
    new = torch.ones_like(ranks, dtype=torch.bool)
    new[..., 1:] = ranks[..., 1:] != ranks[..., :-1]
    first = torch.where(new, at, 0).cummax(-1).values
    last = torch.where(new.roll(-1, -1), at, n).flip(-1).cummin(-1).values.flip(-1)
    return first, last


def _all_moved(mine: torch.Tensor, theirs: torch.Tensor, ranks: torch.Tensor, by: int) -> torch.Tensor:
    """``theirs``, but equals of which one stays where ``mine`` has it are those of ``mine``, turned ``by`` so many.

    Places along the last dimension, in either order; ``ranks`` are those of ``mine``.
    """
    first, last = _ends(ranks)
    at = torch.arange(ranks.shape[-1], device=ranks.device)
    turned = first + (at - first + by) % (last - first + 1)
    stays = torch.zeros_like(first).scatter_reduce(-1, first, (mine == theirs).long(), "amax").gather(-1, first)
    return torch.where(stays.bool(), mine.gather(-1, turned), theirs)


def _promises_order(call: OperatorCall) -> bool:
    """Whether the operator says which of equal elements it takes."""
    return bool(call.kwargs.get("stable")) if call.name in ("sort", "argsort") else call.name not in ANY_OF_EQUALS
