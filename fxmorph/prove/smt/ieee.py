"""IEEE arithmetic in SMT, in forms that solvers close.

Every function gives a term equal for all arguments to the SMT-LIB operator of its name (rounding to
nearest even); what is rewritten is exact in IEEE 754: subtraction as addition of the negative, signs
pulled out of products and quotients, operands of commutative operators in one order, division by a
power of two as multiplication.  One-NaN semantics, as in Brain, Tinelli, Ruemmer and Wahl, "An
Automatable Formal Semantics for IEEE-754 Floating-Point Arithmetic" (ARITH 2015).
"""

from __future__ import annotations

import math
from typing import Any

import z3

NEAREST = z3.RNE()
#: z3 has no types that mypy reads.
Fp = Any


def _ordered(a: Fp, b: Fp) -> tuple[Fp, Fp]:
    return (a, b) if (a.hash(), a.get_id()) <= (b.hash(), b.get_id()) else (b, a)


def is_negation(a: Fp) -> bool:
    return bool(z3.is_app_of(a, z3.Z3_OP_FPA_NEG))


def negated(a: Fp) -> Fp:
    """``-a``; twice is not at all, and numerals stay numerals."""
    if is_negation(a):
        return a.arg(0)
    return z3.simplify(z3.fpNeg(a)) if isinstance(a, z3.FPNumRef) else z3.fpNeg(a)


def absolute(a: Fp) -> Fp:
    return z3.fpAbs(a.arg(0) if is_negation(a) else a)


def _unsigned(a: Fp) -> tuple[Fp, bool]:
    """``a`` without a leading minus, and whether there was one."""
    if is_negation(a):
        return a.arg(0), True
    if isinstance(a, z3.FPNumRef) and not a.isNaN() and a.isNegative():
        return negated(a), True
    return a, False


def add(a: Fp, b: Fp) -> Fp:
    return z3.fpAdd(NEAREST, *_ordered(a, b))


def sub(a: Fp, b: Fp) -> Fp:
    return add(a, negated(b))


def mul(a: Fp, b: Fp) -> Fp:
    (p, minus_p), (q, minus_q) = _unsigned(a), _unsigned(b)
    if _is_two(p):
        out = z3.fpAdd(NEAREST, q, q)
    elif _is_two(q):
        out = z3.fpAdd(NEAREST, p, p)
    elif _is_one(p):
        out = q
    elif _is_one(q):
        out = p
    else:
        out = z3.fpMul(NEAREST, *_ordered(p, q))
    return negated(out) if minus_p != minus_q else out


def div(a: Fp, b: Fp) -> Fp:
    (p, minus_p), (q, minus_q) = _unsigned(a), _unsigned(b)
    inverse = _inverse_power(q)
    out = mul(p, inverse) if inverse is not None else z3.fpDiv(NEAREST, p, q)
    return negated(out) if minus_p != minus_q else out


def fma(a: Fp, b: Fp, c: Fp) -> Fp:
    """``a * b + c`` rounded once."""
    if _is_one(a) or _is_one(b):
        return add(b if _is_one(a) else a, c)
    return z3.fpFMA(NEAREST, *_ordered(a, b), c)


def sqrt(a: Fp) -> Fp:
    return z3.fpSqrt(NEAREST, a)


def to(a: Fp, sort: z3.FPSortRef) -> Fp:
    """``a`` rounded to ``sort``."""
    if a.sort() == sort:
        return a
    if isinstance(a, z3.FPNumRef):
        return z3.simplify(z3.fpToFP(NEAREST, a, sort))
    if is_negation(a):
        return negated(to(a.arg(0), sort))
    # Narrowing what was widened exactly gives it back.
    if z3.is_app_of(a, z3.Z3_OP_FPA_TO_FP) and a.num_args() == 2 and a.arg(1).sort() == sort and _wider(a.sort(), sort):
        return a.arg(1)
    return z3.fpToFP(NEAREST, a, sort)


def _wider(a: z3.FPSortRef, b: z3.FPSortRef) -> bool:
    return bool(a.ebits() >= b.ebits() and a.sbits() >= b.sbits())


def zero(sort: z3.FPSortRef) -> Fp:
    return z3.fpPlusZero(sort)


def _is_one(a: Fp) -> bool:
    return isinstance(a, z3.FPNumRef) and a.sbits() > 0 and _power(a) == 0


def _is_two(a: Fp) -> bool:
    return isinstance(a, z3.FPNumRef) and _power(a) == 1


def _power(a: z3.FPNumRef) -> int | None:
    """k where a normal ``a`` is 2**k; None for anything else."""
    if a.isNaN() or a.isInf() or a.isZero() or a.isSubnormal() or a.isNegative() or a.significand_as_long():
        return None
    return int(a.exponent_as_long(biased=False))


def _inverse_power(a: Fp) -> Fp | None:
    """1/a where ``a`` is a power of two and 1/a is normal."""
    if not isinstance(a, z3.FPNumRef):
        return None
    k = _power(a)
    if k is None or not 2 - 2 ** (a.ebits() - 1) <= -k < 2 ** (a.ebits() - 1):
        return None
    return z3.simplify(z3.fpToFP(NEAREST, z3.FPVal(math.ldexp(1.0, -k), z3.Float64()), a.sort()))


# -- up to the sign of zero ------------------------------------------------------


def equal_modulo_zero_sign(a: Fp, b: Fp) -> z3.BoolRef:
    """Equal bits, or both zero.

    A minus at a root moves to the other side, into a sum's operands where that is one: rounding to
    nearest is symmetric, so -(p+q) and (-p)+(-q) differ at most in the sign of a zero.
    """
    if is_negation(a) and not is_negation(b):
        a, b = a.arg(0), _flipped(b)
    elif is_negation(b) and not is_negation(a):
        a, b = _flipped(a), b.arg(0)
    return z3.Or(a == b, z3.And(z3.fpIsZero(a), z3.fpIsZero(b)))


def _flipped(a: Fp) -> Fp:
    if z3.is_app_of(a, z3.Z3_OP_FPA_ADD):
        return add(negated(a.arg(1)), negated(a.arg(2)))
    return negated(a)
