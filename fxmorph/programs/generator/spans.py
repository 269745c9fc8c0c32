"""What is known of values without computing them: an interval, whether they are whole, whether they were rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fxmorph.programs.generator.promotion import sort_of


class NoFit(Exception):
    """A choice that leads nowhere: the operator is not drawn here."""


class Span(NamedTuple):
    """All values lie from ``lo`` to ``hi`` (for complex numbers: both parts do)."""

    lo: float
    hi: float
    #: Whole numbers that their dtype holds exactly.
    whole: bool = False
    #: Some rounding lies behind them: what decides by a comparison may come out either way.
    rounded: bool = True

    @property
    def size(self) -> float:
        return max(abs(self.lo), abs(self.hi))

    def join(self, other: Span) -> Span:
        return Span(
            min(self.lo, other.lo), max(self.hi, other.hi), self.whole and other.whole, self.rounded or other.rounded
        )

    def scaled(self, factor: float) -> Span:
        """The span of values times a factor; whole where the factor is."""
        low, high = sorted((self.lo * factor, self.hi * factor))
        return Span(low, high, self.whole and factor == int(factor), self.rounded)

    def within(self, lo: float, hi: float) -> bool:
        return lo <= self.lo and self.hi <= hi


BITS = Span(float("-inf"), float("inf"), whole=False, rounded=False)
TRUTH = Span(0.0, 1.0, whole=True, rounded=False)

#: The interval that values of a dtype may take: far enough from where it overflows for gradients too.
LIMITS = {
    "bool": (0, 1), "uint8": (0, 255), "int8": (-128, 127), "int16": (-30000, 30000), "int32": (-1e6, 1e6),
    "int64": (-1e6, 1e6), "float16": (-500, 500), "bfloat16": (-3e3, 3e3), "float32": (-3e4, 3e4),
    "float64": (-3e4, 3e4), "complex64": (-3e3, 3e3), "complex128": (-3e3, 3e3),
}  # fmt: skip
#: Whole numbers up to here are exact, sums of them in any order included.
EXACT = {"float16": 2.0**11, "bfloat16": 2.0**8, "float32": 2.0**24, "complex64": 2.0**22}


def fitted(span: Span, dtype: str) -> Span:
    """The span as values of ``dtype`` have it; raises :class:`NoFit` where they may leave its limits."""
    if dtype not in LIMITS:
        raise NoFit(dtype)
    low, high = LIMITS[dtype]
    if not (low <= span.lo and span.hi <= high):
        raise NoFit(f"{dtype} from {span.lo} to {span.hi}")
    if sort_of(dtype) < 2:
        return Span(span.lo, span.hi, True, span.rounded)
    if span.whole and span.size > EXACT.get(dtype, 2.0**40):
        return Span(span.lo, span.hi, False, True)
    return span


Bounds = tuple[float, float]
Image = Callable[[float, float], Bounds]


def rising(f: Callable[[float], float]) -> Image:
    return lambda lo, hi: (f(lo), f(hi))


def falling(f: Callable[[float], float]) -> Image:
    return lambda lo, hi: (f(hi), f(lo))


def fixed(lo: float, hi: float) -> Image:
    return lambda *_: (lo, hi)


def even(f: Callable[[float], float]) -> Image:
    """Of a function of the size that rises with it and is least at 0."""

    def image(lo: float, hi: float) -> Bounds:
        least = 0.0 if lo <= 0 <= hi else min(abs(lo), abs(hi))
        return f(least), f(max(abs(lo), abs(hi)))

    return image


def corners(f: Callable[[float, float], float], a: Span, b: Span) -> Bounds:
    """The bounds of a function that is monotone in each of its two arguments."""
    ends = [f(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(ends), max(ends)
