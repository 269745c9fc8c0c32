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
#: Operators that give an order, and after which argument the dimension may be named.
ORDERS = {"sort": 1, "topk": 2}
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


def decided_both_ways(lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall], gates: Gates) -> None:
    """Move the operands of a decision in ``lane_calls``, those of a call by lane, to either side of it."""
    decides = call.name in COMPARISONS or call.name in ROUNDINGS or (rounds_quotient(call) and not call.decided)
    if decides and not gates.exact:
        _move_apart(lanes, call, lane_calls)
    if call.name in ZERO_SIGNS:
        _sign_zeros(lanes, call, lane_calls, gates)


def _move_apart(lanes: Lanes, call: OperatorCall, lane_calls: list[OperatorCall]) -> None:
    """In the tie lanes, move the operands of a decision by what rounding may have moved them.

    Operands of ``eq`` and ``ne`` that are closer than that are made equal in one lane and
    unequal in the other.
    """
    name, args = call.name, call.args
    floats = [i for i, t in enumerate(args) if isinstance(t, torch.Tensor) and t.dtype in UNIT and not t.is_complex()]
    if not floats:
        return
    reach = {i: 2 * lanes.deviation(args[i]) for i in floats}
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


def tie_broken(lanes: Lanes, lane: Lane, call: OperatorCall, exact: bool) -> Any:
    """A lane's call of an index-giving operator with ties broken by position; None where that changes nothing.

    Where an order is promised, elements are equal or not unless rounding may have moved them, which it has not
    where the run was ``exact`` so far.
    """
    if not lane.tie or call.name not in INDEX_GIVING:
        return None
    x = call.args[0]
    if not isinstance(x, torch.Tensor) or x.numel() < 2 or x.is_complex():
        return None
    y = x.double()
    if _promises_order(call):
        reach = 2 * lanes.deviation(call.tensors[0])
        if exact or not bool(reach.any()):
            return None
    else:
        y = _finite_in_order(call.name, y)
        size = float(torch.nan_to_num(y.abs(), nan=0.0).max())
        reach = torch.tensor(max(size, 1e-300) * 2.0**-40 if x.is_floating_point() else 0.25)
    ramp = reach * torch.arange(x.numel(), dtype=torch.float64, device=x.device).reshape(x.shape) / x.numel()
    shifted = call.func(y + lane.tie * ramp, *call.args[1:], **call.kwargs)
    if lane.tie < 0 and call.name in ORDERS:
        shifted = _without_fixed(call, shifted, call.func(y + ramp, *call.args[1:], **call.kwargs), 2 * reach)
    # Only indices are taken from there: the ramp is no error of the values.
    values = call.run()
    if isinstance(shifted, torch.Tensor):
        return values if shifted.is_floating_point() else shifted
    return tuple(p if s.is_floating_point() else s for p, s in zip(values, shifted, strict=True))


def _without_fixed(call: OperatorCall, reverse: Any, order: Any, reach: torch.Tensor) -> Any:
    """The reverse order of equals without those that stay where they are: the middle ones change with a neighbour."""
    dim = call.kwargs.get("dim", next((a for a in call.args[ORDERS[call.name] :] if type(a) is int), -1))
    values, places, ordered = (t.movedim(dim, -1) for t in (*reverse, order[1]))
    tied = (values[..., 1:] - values[..., :-1]).abs() <= reach
    stays = (places == ordered)[..., 1:] & tied
    swapped = torch.arange(places.shape[-1], device=places.device).expand(places.shape).clone()
    swapped[..., 1:] -= stays.long()
    swapped[..., :-1] += stays.long()
    return reverse[0], places.gather(-1, swapped).movedim(-1, dim)


def _finite_in_order(name: str, y: torch.Tensor) -> torch.Tensor:
    """The same order of elements without infinities, and without NaN where it is the largest: those are ties too."""
    beyond = 2 * float(torch.nan_to_num(y.abs(), nan=0.0, posinf=0.0).max()) + 1
    y = torch.where(y.isinf(), y.sign() * beyond, y) if bool(y.isinf().any()) else y
    ordered = name in ("sort", "argsort", "topk", "kthvalue") and bool(y.isnan().any())
    return torch.where(y.isnan(), 2 * beyond, y) if ordered else y


def _promises_order(call: OperatorCall) -> bool:
    """Whether the operator says which of equal elements it takes."""
    return bool(call.kwargs.get("stable")) if call.name in ("sort", "argsort") else call.name not in ANY_OF_EQUALS
