"""What a floating-point constant stands for: the rational, root or dyadic number that a program means by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch

#: Largest denominator of a rational number that a constant is taken for, by dtype of the constant.
#: Among floats of few bits nearly every one is next to some such fraction, so fewer are tried.
_DENOMINATORS = {torch.float64: 100_000, torch.float32: 400, torch.float16: 10, torch.bfloat16: 10}
_ROOT_DENOMINATORS = {torch.float64: 4096, torch.float32: 64}


@dataclass(frozen=True)
class Meaning:
    """``value`` times pi to the power ``pi``, or its positive square root, or that one's (``roots``)."""

    value: Fraction
    roots: int = 0
    pi: int = 0

    def exactly(self, constant: float) -> bool:
        """Whether it is the constant itself, and not what that was rounded from."""
        return not self.roots and not self.pi and self.value == Fraction(constant)


def _rounded(value: float, dtype: torch.dtype) -> float:
    return value if dtype == torch.float64 else float(torch.tensor(value, dtype=dtype))


def _shortest(value: float, dtype: torch.dtype) -> Fraction | None:
    """The decimal number that prints as the constant, where it has few digits (1e-5, 0.044715)."""
    import numpy

    if dtype not in (torch.float64, torch.float32):
        return None
    text = repr(value) if dtype == torch.float64 else str(numpy.float32(value))
    digits = text.split("e")[0].replace(".", "").replace("-", "").strip("0")
    return Fraction(text) if len(digits) <= (9 if dtype == torch.float64 else 4) else None


def _last_place(value: float, dtype: torch.dtype) -> float:
    return abs(value) * torch.finfo(dtype).eps


@lru_cache(maxsize=65536)
def meaning(value: float, dtype: torch.dtype, wide: bool = True) -> Meaning:
    """The number meant by a finite constant of a floating dtype (Python floats are float64).

    A dyadic number with a small denominator is itself; else the simplest fraction or decimal number
    that rounds to the constant (0.1, 1/3, 1e-5); else the root or
    fourth root of one (1/sqrt(2), to one unit in the last place, since
    such constants are computed), or one with pi; else the constant's exact value.  Some kernels round
    Python's numbers to float32, so unless it is computed with in float64 (``wide``) a float64 constant that is a
    float32 one is taken for that.
    """
    exact = Fraction(value)
    if exact.denominator <= 4096:
        return Meaning(exact)
    if not wide and dtype == torch.float64 and abs(value) < 3e38 and _rounded(value, torch.float32) == value:
        return meaning(value, torch.float32)
    near = exact.limit_denominator(_DENOMINATORS.get(dtype, 10))
    if near != 0 and _rounded(near.numerator / near.denominator, dtype) == value:
        return Meaning(near)
    short = _shortest(value, dtype)
    if short is not None:
        return Meaning(short)
    if value > 0 and dtype in _ROOT_DENOMINATORS:
        for roots, pi in ((1, 0), (2, 0), (1, 1), (1, -1), (1, 2), (1, -2)):
            power = Fraction(value ** (2 * roots) / math.pi**pi).limit_denominator(_ROOT_DENOMINATORS[dtype])
            if power > 0 and abs((power * math.pi**pi) ** (0.5 / roots) - value) <= _last_place(value, dtype):
                return Meaning(power, roots, pi)
    return Meaning(exact)


def residue(value: Fraction, modulus: int) -> float:
    """The fraction modulo a prime; NaN where its denominator is divisible by it."""
    if value.denominator % modulus == 0:
        return math.nan
    return float(value.numerator * pow(value.denominator, -1, modulus) % modulus)


def dyadic(values: torch.Tensor, modulus: int) -> torch.Tensor:
    """The exact values of many finite floats modulo a prime (float64)."""
    fraction, exponent = torch.frexp(values.double())
    mantissa = (fraction * 2.0**53).long() % modulus
    exponents = exponent.long() - 53
    least = int(exponents.min()) if exponents.numel() else 0
    most = int(exponents.max()) if exponents.numel() else 0
    powers = torch.tensor([pow(2, e, modulus) for e in range(least, most + 1)])
    return (mantissa * powers[exponents - least] % modulus).double()
