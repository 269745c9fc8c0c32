"""What term execution knows of operators: what they move, promote, commute and reduce."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from fxmorph.programs.operators import MOVES
from fxmorph.torchapi.dispatch import aten_packet

#: Operators whose own kernels run on the names: moves, and more of the kind that the reference run does not count
#: among the exact ones (copies of views, mostly, which functionalized graphs have).
RUN_ON_SHADOWS = MOVES | frozenset(
    """expand_copy view_copy alias_copy detach_copy squeeze_copy unsqueeze_copy t_copy transpose_copy select_copy
    slice_copy narrow_copy as_strided_copy unfold_copy lift lift_fresh_copy contiguous diagonal_backward""".split()
)
#: Those of them that have no kernel for integers.
FLOAT_ONLY = frozenset(
    """reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d im2col""".split()
)
FILLS = frozenset("fill zero full zeros ones full_like zeros_like ones_like new_full new_zeros new_ones".split())
#: Operators whose tensor operands are promoted to one dtype before anything is computed.
PROMOTES = frozenset(
    """add sub mul div maximum minimum fmax fmin eq ne lt le gt ge remainder fmod floor_divide atan2 addcmul addcdiv
    lerp bitwise_and bitwise_or bitwise_xor hypot copysign""".split()
)
#: Of PROMOTES, those that compute integers as floating point.
TO_FLOAT = frozenset("div atan2 copysign".split())
#: Equal with operands exchanged, bit for bit but for NaN payloads.
COMMUTES = frozenset("add mul eq ne bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor".split())
#: Reductions by name of the term; those in SORTED do not depend on the order of what they reduce,
#: but for the sign of zero: which of two zeros is the largest depends on the lane.
REDUCTIONS = frozenset("sum mean prod amax amin any all".split())
SORTED = frozenset("amax amin any all".split())
#: Operators of one element whose kernels give the same bits in every lane: in vector loops, in the rest of a loop,
#: in strided memory (``bench/lanes.py``: every 16-bit value, hard and random ones of 32 and 64 bits).  Of any other
#: operator on floating-point numbers that is not known.
LANE_INDEPENDENT = frozenset(
    """abs acos acosh add addcdiv addcmul asin asinh atan ceil clamp clamp_max clamp_min copysign cos deg2rad digamma
    div eq erf erfc erfinv exp expm1 floor floor_divide fmax fmin frac ge gt hardshrink hardsigmoid hardswish hardtanh
    heaviside i0 igamma isfinite isinf isnan le leaky_relu lerp lgamma log log10 log1p log2 logical_and logical_not
    logical_or logical_xor lt maximum minimum mul nan_to_num ne neg nextafter positive rad2deg reciprocal relu relu6
    round rsub sgn sign signbit sin sinc special_erfcx special_i1 special_log_ndtr special_ndtri special_xlog1py sqrt
    square sub tan tanh threshold true_divide trunc where xlogy cast""".split()
)
#: Of ``pow``, exponents that have kernels of their own.
_PLAIN_EXPONENTS = (0, 1, 2, 3, -1, -2, 0.5)


def depends_on_lane(name: str, arguments: Mapping[str, Any], dtype: torch.dtype) -> bool:
    """Whether an operator, computed in ``dtype``, may give other bits for one number by where that lies."""
    if name == "pow":
        exponent = arguments.get("exponent")
        return not isinstance(exponent, (int, float)) or exponent not in _PLAIN_EXPONENTS
    if dtype.itemsize == 2 and (name == "floor_divide" or arguments.get("alpha", 1) not in (1, -1)):
        return True  # fewer roundings in vector loops than in others, or where a divisor is a number
    return name not in LANE_INDEPENDENT


@functools.cache
def is_pointwise(name: str) -> bool:
    """Whether each element of the result is of one element of each operand; torch tags some overloads only."""
    packet = aten_packet(name)
    if packet is None:
        return False
    tagged = (torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())
    return name == "floor_divide" or any(tagged)


def common_dtype(arguments: dict[str, Any]) -> torch.dtype:
    """The dtype that operands are promoted to."""
    numbers = {k: v for k, v in arguments.items() if k not in ("alpha", "value")}
    operands = [v for v in numbers.values() if isinstance(v, (torch.Tensor, int, float))]
    if len(operands) == 1 or not isinstance(operands[-1], (torch.Tensor, int, float)):
        return operands[0].dtype  # type: ignore[union-attr]
    # Elements count before 0-dim tensors, and those before numbers.
    common: torch.Tensor | None = None
    for shape in ((1,), ()):
        dtypes = [t.dtype for t in operands if isinstance(t, torch.Tensor) and min(t.ndim, 1) == len(shape)]
        if dtypes:
            alike = torch.empty(shape, dtype=functools.reduce(torch.promote_types, dtypes))
            common = alike if common is None else torch.empty(1, dtype=torch.result_type(common, alike))
    assert common is not None
    for number in (v for v in operands if not isinstance(v, torch.Tensor)):
        common = torch.empty(common.shape, dtype=torch.result_type(common, number))
    return common.dtype
