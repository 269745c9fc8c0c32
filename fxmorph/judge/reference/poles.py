"""Operands that rounding may bring to a pole: what comes of them may be anything.

The spread of a few lanes says what roundings do where a function is smooth.  Where the pole is within their reach none
of them need come near to it, and a number that is rounded to 0 does: ``(E[x²] - E[x]² + eps).rsqrt()``.
"""

from __future__ import annotations

import torch

from fxmorph.judge.reference.lanes import Lanes
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import UNIT

#: Operators that have a pole where an operand is 0, and which operand.
POLES = {"div": 1, "true_divide": 1, "reciprocal": 0, "rsqrt": 0, "log": 0, "log2": 0, "log10": 0, "pow": 0}
#: How many times what the lanes are off by is within reach: as far as operands of decisions are moved.
REACH = 2.0


def at_poles(lanes: Lanes, call: OperatorCall) -> torch.Tensor | None:
    """Elements whose operand may be that of a pole, broadcast as the result; None where there are none."""
    place = POLES.get(call.name.removesuffix("_"))
    if place is None or len(call.args) <= place or not isinstance(operand := call.args[place], torch.Tensor):
        return None
    if call.name.startswith("pow") and not _falls(call.args[1]):
        return None
    native = call.tensors[0 if place == 0 or len(call.tensors) == 1 else 1]
    if native.dtype not in UNIT:
        return None
    reach = REACH * lanes.deviation(native)
    near = (reach > 0) & (reach >= operand.abs())
    return near if bool(near.any()) else None


def _falls(exponent: object) -> bool:
    return isinstance(exponent, (int, float)) and exponent < 0


def leave_numbers(lanes: Lanes, t: torch.Tensor, where: torch.Tensor) -> None:
    """The perturbed lanes have no number there."""
    for lane in lanes:
        if lane.perturb is not None:
            lane.shadow(t).masked_fill_(where, torch.nan)
            if lane.anew is not None:
                lane.anew.shadow(t).masked_fill_(where, torch.nan)
