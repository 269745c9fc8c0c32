"""Sorts and values: torch dtypes as SMT sorts, and Python numbers as their elements and back."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import torch
import z3

#: Exponent and significand bits (with the hidden one) of floating-point dtypes.
FLOATS = {torch.float16: (5, 11), torch.bfloat16: (8, 8), torch.float32: (8, 24), torch.float64: (11, 53)}
#: Bits of integer dtypes; uint8 is unsigned, the others are two's complement.
INTEGERS = {torch.uint8: 8, torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}
SIXTEEN = (torch.float16, torch.bfloat16)

_SORTS = {FLOATS[torch.float32]: torch.float32, FLOATS[torch.float64]: torch.float64,
          FLOATS[torch.float16]: torch.float16, FLOATS[torch.bfloat16]: torch.bfloat16}  # fmt: skip
Number = int | float | bool


def float_sort(dtype: torch.dtype) -> z3.FPSortRef:
    return z3.FPSort(*FLOATS[dtype])


def float_dtype(term: z3.ExprRef) -> torch.dtype:
    """The dtype whose sort an IEEE term has."""
    return _SORTS[(term.sort().ebits(), term.sort().sbits())]


def float_value(value: float, dtype: torch.dtype) -> z3.FPNumRef:
    """The numeral of ``value`` rounded to ``dtype`` as eager rounds a Python scalar: through float32 for 16 bits."""
    width = sum(FLOATS[dtype])
    if math.isnan(value):
        return z3.fpNaN(float_sort(dtype))
    view = {16: torch.int16, 32: torch.int32, 64: torch.int64}[width]
    bits = int(torch.tensor(value, dtype=dtype).view(view)) % 2**width
    return z3.simplify(z3.fpBVToFP(z3.BitVecVal(bits, width), float_sort(dtype)))


def float_of(numeral: z3.ExprRef) -> float | None:
    """The Python value of an IEEE numeral (exact); None for other terms."""
    if not isinstance(numeral, z3.FPNumRef):
        return None
    if numeral.isNaN():
        return math.nan
    if numeral.isInf():
        return -math.inf if numeral.isNegative() else math.inf
    if numeral.isZero():
        return -0.0 if numeral.isNegative() else 0.0
    eb, sb = numeral.sort().ebits(), numeral.sort().sbits()
    exponent, fraction = numeral.exponent_as_long(biased=True), numeral.significand_as_long()
    lowest = 2 - 2 ** (eb - 1)
    scaled = fraction + (2 ** (sb - 1) if exponent else 0)
    value = math.ldexp(scaled, max(exponent, 1) - 1 + lowest - (sb - 1))
    return -value if numeral.isNegative() else value


def real_value(value: Number | Fraction) -> z3.RatNumRef:
    """The rational that a finite Python number is."""
    fraction = Fraction(value)
    return z3.RealVal(f"{fraction.numerator}/{fraction.denominator}")


def python_value(term: z3.ExprRef, dtype: torch.dtype) -> Number | None:
    """What a model's value is as an element of ``dtype``; None for what is not a value."""
    term = z3.simplify(term)
    if z3.is_bool(term):
        return z3.is_true(term)
    if z3.is_bv_value(term):
        value = term.as_long()
        signed = dtype != torch.uint8 and value >= 1 << (term.size() - 1)
        return int(value - (1 << term.size()) if signed else value)
    if z3.is_fp(term):
        return float_of(term)
    if z3.is_algebraic_value(term):
        term = term.approx(40)
    if z3.is_rational_value(term):
        return _nearest(term.numerator_as_long(), term.denominator_as_long(), dtype)
    return None


def _nearest(numerator: int, denominator: int, dtype: torch.dtype) -> float:
    try:
        value = float(Fraction(numerator, denominator))
    except OverflowError:
        value = math.copysign(math.inf, numerator)
    return float(torch.tensor(value, dtype=dtype)) if dtype in FLOATS else value


def value_bits(value: float) -> str:
    """A float64's bits in hexadecimal, for names."""
    return struct.pack(">d", value).hex()


def sort_of(dtype: torch.dtype, real: bool) -> Any:
    """The sort of elements of ``dtype``; floats are reals in real mode.  Raises ``KeyError`` for other dtypes."""
    if dtype == torch.bool:
        return z3.BoolSort()
    if dtype in INTEGERS:
        return z3.BitVecSort(INTEGERS[dtype])
    if real and dtype in FLOATS:
        return z3.RealSort()
    return float_sort(dtype)
