"""Mixed-radix indices of unknown sizes: cut, joined and grouped anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from fxmorph.prove.sizes.extents import ONE, ZERO, Case, NoFit, Poly, product

Axis = tuple[Poly, ...]
Digits = list[list[Any]]
#: Products of an unknown with a digit of fewer values than this are written out by cases.
FEW = 17


def regroup(case: Case, want: Sequence[Poly], have: Sequence[Poly], digits: Sequence[Any]) -> list[Any]:
    """Digits for the factors ``want`` from digits for ``have``, which multiply to the same."""
    want, have = [case.norm(f) for f in want], [case.norm(f) for f in have]
    zero = case.int_val(0)
    if ZERO in want or ZERO in have:
        return [zero] * len(want)  # there is no index
    kept = [(f, d) for f, d in zip(have, digits, strict=True) if f != ONE]
    needed = [f for f in want if f != ONE]
    out: list[Any] = []
    while needed or kept:
        take, give = _block(needed, [f for f, _ in kept])
        factors, parts = [f for f, _ in kept[:give]], [d for _, d in kept[:give]]
        if take == give == 1:
            out += parts
        else:
            out += _cut(case, needed[:take], _join(case, factors, parts))
        needed, kept = needed[take:], kept[give:]
    left = iter(out)
    return [zero if f == ONE else next(left) for f in want]


def _block(want: Sequence[Poly], have: Sequence[Poly]) -> tuple[int, int]:
    """How many of each make the first equal products."""
    seen: dict[Poly, int] = {}
    p = ONE
    for k, f in enumerate(have):
        p = p * f
        seen.setdefault(p, k + 1)
    p = ONE
    for k, f in enumerate(want):
        p = p * f
        if p in seen:
            return k + 1, seen[p]
    raise NoFit("the indices of the two sides do not line up")


def _join(case: Case, factors: Sequence[Poly], digits: Sequence[Any]) -> Any:
    """The one digit that several make."""
    out, values = case.int_val(0), 1  # of how many values ``out`` is one; 0 for unknown
    for f, digit in zip(factors, digits, strict=True):
        number = f.constant
        out = z3.simplify(scaled(case, out, values, f) + digit)
        values = values * number if number is not None else 0
    case.joined[out.get_id()] = (out, tuple(factors), tuple(digits))
    return out


def scaled(case: Case, digit: Any, values: int, by: Poly) -> Any:
    """A digit of so many values (0: unknown) times a size.

    Written out by cases, or left uninterpreted: equal factors have equal products, and that is
    all that is known of them.
    """
    if by.constant is not None:
        return digit * by.constant
    size = case.term(by)
    if z3.is_int_value(digit):
        return size * digit
    if 0 < values < FEW:
        out = case.int_val(0)
        for v in range(1, values):
            out = z3.If(digit == v, size * v, out)
        return out
    integer = case.int_val(0).sort()
    return z3.Function("times", integer, integer, integer)(digit, size)


def _cut(case: Case, factors: Sequence[Poly], digit: Any) -> list[Any]:
    """The several digits that one is made of."""
    if digit.get_id() in case.joined:
        _, made, digits = case.joined[digit.get_id()]
        made = tuple(map(case.norm, made))
        if made == tuple(factors):
            return list(digits)
        if product(made) == product(factors) and _block(factors, made) != (len(factors), len(made)):
            return regroup(case, factors, made, digits)
    unknown = [k for k, f in enumerate(factors) if f.constant is None]
    if len(unknown) > 1:
        raise NoFit("a quotient by an unknown size would have to be computed")
    at = unknown[0] if unknown else 0
    inner: list[Any] = []
    for f in reversed(factors[at + 1 :]):
        inner.insert(0, digit % f.constant)
        digit = digit / case.int_val(f.constant or 1)
    outer: list[Any] = []
    if unknown and at:
        counts = [f.constant or 0 for f in factors[:at]]
        total = 1
        for n in counts:
            total *= n
        if total >= FEW:
            raise NoFit("a quotient by an unknown size would have to be computed")
        size, block, offset = case.term(factors[at]), case.int_val(0), case.int_val(0)
        for k in range(1, total):
            block, offset = z3.If(digit >= size * k, k, block), z3.If(digit >= size * k, size * k, offset)
        digit = digit - offset
        for n in reversed(counts):
            outer.insert(0, block % n)
            block = block / case.int_val(n)
    return [*outer, digit, *inner]


def in_ranges(case: Case, axes: Sequence[Axis], digits: Digits) -> list[Any]:
    pairs = [(f, d) for axis, ds in zip(axes, digits, strict=True) for f, d in zip(axis, ds, strict=True)]
    return [c for f, d in pairs for c in (d >= 0, d < case.term(f))]
