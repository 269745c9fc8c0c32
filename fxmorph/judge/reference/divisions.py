"""Divisions with a whole quotient: what they round where no rounding reaches their operands.

Then the quotient is decided: what remains of it is exact (``fmod``) or rounded once, and rounds down to one whole
number (``floor_divide``), as Python does it.  Code that takes the rounded quotient first is off by a whole divisor
where that has passed an integer (pytorch 197895), and by as much as it likes where it has more digits than
fit (pytorch 198057).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fxmorph.judge.reference.lanes import Lane, Lanes
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import AMPLITUDE, OWN_PRECISION, PRECISION, UNIT
from fxmorph.programs.bits import same_bits

REMAINDERS = frozenset({"remainder", "fmod"})
#: Of them and of quotients that are rounded down the inner quotient may be rounded first, or not.
QUOTIENTS = REMAINDERS | frozenset("remainder_ fmod_ floor_divide floor_divide_ div div_".split())

#: x - floor(x / y) * y is off by the rounding of that product, a unit of x: a rounding while it is a small part of y.
SMALL_PART = 2.0**-8


def rounds_quotient(call: OperatorCall) -> bool:
    return call.name in QUOTIENTS and (not call.name.startswith("div") or call.kwargs.get("rounding_mode") is not None)


def is_decided(lanes: Lanes, call: OperatorCall) -> bool:
    """Whether ``call`` has a whole quotient that no rounding decides: in every lane its operands are eager's.

    Not of 16-bit quotients, which are rounded to finer types or not before they are rounded down, nor where the
    dividend is written.
    """
    if not rounds_quotient(call) or not all(isinstance(a, (torch.Tensor, int, float)) for a in call.args):
        return False
    floats = [t.dtype for t in call.tensors if t.dtype in PRECISION]
    if not floats or call.written or (call.name not in REMAINDERS and floats[0] in AMPLITUDE):
        return False
    natives = [(t, t.detach().to(lanes.wide.shadow(t).dtype)) for t in call.tensors]
    return all(same_bits(lane.shadow(t), n) for lane in lanes for t, n in natives)


def as_operand(call: OperatorCall, number: Any) -> Any:
    """A number as the operator takes it on the CPU: converted to the dtype of the tensor beside it, which may round."""
    if not isinstance(number, float) or not rounds_quotient(call) or not math.isfinite(number):
        return number
    beside = next((t for t in call.tensors if t.dtype in PRECISION and t.device.type == "cpu"), None)
    return number if beside is None else torch.tensor(number, dtype=beside.dtype).item()


def decided(call: OperatorCall) -> Any:
    """What a lane's call that :func:`is_decided` gives."""
    if call.kwargs.get("rounding_mode") != "trunc":
        return call.run()
    # The quotient is rounded, then cut off, in eager too.
    native = next(t.dtype for t in call.tensors if t.dtype in PRECISION)
    quotient = torch.true_divide(*call.args[:2])
    return quotient.to(native).to(quotient.dtype).trunc()


def rounded_once(lane: Lane, call: OperatorCall, dtype: torch.dtype, shadow: torch.Tensor) -> torch.Tensor:
    """The result of such a call in a perturbed lane."""
    size = UNIT[dtype] * OWN_PRECISION.get(dtype, 1.0) * shadow.abs()
    error = torch.where(shadow.to(dtype).to(shadow.dtype) == shadow, 0.0, size)
    if call.name in REMAINDERS:
        dividend, divisor = (torch.as_tensor(a, dtype=shadow.dtype).abs() for a in call.args[:2])
        unit = UNIT[torch.float32 if dtype in AMPLITUDE else dtype]
        # Nothing is off where the dividend itself is what remains.
        taken = torch.where(dividend < divisor, 0.0, unit * dividend)
        error = error + torch.minimum(taken, SMALL_PART * divisor)
    return shadow + error.nan_to_num(nan=0.0, posinf=0.0) * lane.noise(shadow)
