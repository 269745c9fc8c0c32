"""How finely each dtype rounds, and how wide its shadow is."""

from __future__ import annotations

from typing import Any

import torch

#: Unit roundoff of the floats of 8 bits, of which releases have more and more.
NARROW: dict[torch.dtype, float] = {
    getattr(torch, name): unit
    for name, unit in {
        "float8_e4m3fn": 2.0**-4, "float8_e4m3fnuz": 2.0**-4, "float8_e5m2": 2.0**-3, "float8_e5m2fnuz": 2.0**-3,
        "float8_e8m0fnu": 2.0**-2,
    }.items()
    if hasattr(torch, name)
}  # fmt: skip

WIDE: dict[torch.dtype, torch.dtype] = {
    **dict.fromkeys(NARROW, torch.float64),
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

#: Unit roundoff of each dtype.
UNIT: dict[torch.dtype, float] = {
    **NARROW,
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.complex64: 2.0**-24,
    torch.complex128: 2.0**-53,
    torch.complex32: 2.0**-11,
}
#: Bits of significand.
PRECISION: dict[torch.dtype, int] = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
}
#: Units of roundoff by which one operator is perturbed, up or down: less where types of 16 and 8 bits
#: round the result of finer arithmetic.
AMPLITUDE: dict[torch.dtype, float] = {torch.float16: 2.0, torch.bfloat16: 2.0, **dict.fromkeys(NARROW, 2.0)}
DEFAULT_AMPLITUDE = 8.0
#: The envelope is this many times the root mean square deviation of the perturbed lanes: with four of
#: them around each reference one that decides otherwise covers its step.
SPREAD_FACTOR = 3.0
#: Units of roundoff that every element is allowed.
ROUNDED_TWICE = 2
#: The shadows of float64 are float64 too: eager's rounding is in the difference with the compiled one's.
OWN_PRECISION = {torch.float64: 2.0, torch.complex128: 2.0}


#: Float types whose subnormal numbers generated code for GPUs takes for zeros, and makes zeros of.
FLUSHED = frozenset((torch.float32, torch.bfloat16, torch.complex64))


def flushed(t: torch.Tensor) -> float:
    """Numbers of ``t``'s dtype smaller than this may be zeros to its device; 0 where none are."""
    return torch.finfo(t.dtype).smallest_normal if t.is_cuda and t.dtype in FLUSHED else 0.0


def widened(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the shadows of ``dtype``."""
    return WIDE.get(dtype, dtype)


def is_wide(value: Any) -> bool:
    """Whether it is a tensor of what shadows of floats are."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)
