"""Elements of tensors in the two fields: residues, how far they can be trusted, what order they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

NAN = float("nan")


class Order(StrEnum):
    """What stands for ``<``; each satisfies only laws that the order of the reals has too.

    ``MIXED``: a truth value is a random field element t(d) of the difference d, t(-d) = 1 - t(d),
    and a choice is t a + (1 - t) b.  Choices are linear in t, so what holds for random t holds for
    0 and 1 too, and one trial says as much as for a rational function.  Loses t t = t.
    ``TIES``: as MIXED, with another random element for equality.  MIXED leaves out that values that are
    compared may be equal; what also holds here holds there too.
    ``TOTAL``: a random total order, odd (x < y where -y < -x), in which squares are positive.
    ``SIGNED``: x < y where y - x is a square: translations and positive factors keep it; not transitive.
    The last two give one bit of evidence for each comparison.
    """

    MIXED = "mixed"
    TIES = "ties"
    TOTAL = "total"
    SIGNED = "signed"


@dataclass(frozen=True)
class Degree:
    """Bounds of the degree of rational functions, counted in two ways of which the lower is right.

    As quotients: ``num`` over ``den``.  A sum of n of them may have n denominators.  Over the
    product S of all that was ever inverted: at most ``common`` + ``times`` deg S over S**``times``,
    which sums leave as it is.
    """

    num: float = 1.0
    den: float = 0.0
    common: float = 1.0
    times: float = 0.0

    def plus(self, other: Degree) -> Degree:
        num = max(self.num + other.den, other.num + self.den)
        return Degree(num, self.den + other.den, max(self.common, other.common), max(self.times, other.times))

    def by(self, other: Degree) -> Degree:
        return Degree(self.num + other.num, self.den + other.den, self.common + other.common, self.times + other.times)

    def summed(self, terms: float) -> Degree:
        n = max(terms, 1)
        return Degree(self.num + (n - 1) * self.den, n * self.den, self.common, self.times)

    def worst(self, *others: Degree) -> Degree:
        every = (self, *others)
        return Degree(*(max(getattr(d, f) for d in every) for f in ("num", "den", "common", "times")))

    def bound(self, inverted: float) -> float:
        """The degree of the equation that it is 0; ``inverted`` is that of S."""
        return min(self.num + self.den, self.common + self.times * inverted)


FRESH = Degree()
NUMBER = Degree(0.0, 0.0, 0.0, 0.0)


@dataclass
class Val:
    """Elements modulo p and modulo q (None: undefined everywhere; NaN: undefined), and how complicated they are.

    ``degree`` is that of the rational functions of random elements that they are; ``bits`` that in
    truth values that are 0 or 1.
    """

    p: torch.Tensor
    q: torch.Tensor | None
    degree: Degree = FRESH
    bits: float = 0.0

    @property
    def shape(self) -> torch.Size:
        return self.p.shape

    @property
    def ndim(self) -> int:
        return self.p.ndim

    def map(self, f: Callable[[torch.Tensor], torch.Tensor]) -> Val:
        """The same elements moved."""
        return Val(f(self.p), None if self.q is None else f(self.q), self.degree, self.bits)

    def size(self, dims: Sequence[int]) -> int:
        return math.prod(self.p.shape[d] for d in dims) if self.p.ndim else 1
