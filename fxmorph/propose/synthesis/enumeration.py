"""Bottom-up enumeration of expressions, and the pairs of them that look equal.

Expressions of each size are built from representatives of smaller ones only (Ruler, Nandi et al., OOPSLA
2021): what has an operand that equals something simpler follows from that equality.  Which pairs look equal is
decided by fingerprints, so nothing here is believed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from fxmorph.propose.synthesis.fingerprints import Values, key, results
from fxmorph.propose.synthesis.form_operators import ELEMENTWISE, FORMS, Form
from fxmorph.propose.synthesis.forms import MATRIX, PRODUCT, Expression, apply, argument, ordered


@dataclass(frozen=True)
class Workload:
    """What is enumerated: arguments, operators and up to which size (Enumo, Pal et al., OOPSLA 2023).

    ``assumes``: what the arguments' values meet, ``()`` for any values.
    """

    name: str
    leaves: tuple[Expression, ...]
    operators: frozenset[str]
    size: int
    assumes: tuple[str, ...] = ()


def workloads(operators: Sequence[str]) -> tuple[Workload, ...]:
    """The default workloads over these operators, small ones first."""
    x, y, z = (argument(n, "f", MATRIX) for n in "xyz")
    p, q = (argument(n, "b", MATRIX) for n in "pq")
    w = argument("w", "f", PRODUCT)
    used = frozenset(operators)
    products = used & frozenset("matmul transpose add sub neg mul sum flip cat slice mean".split())
    return (
        Workload("elementwise", (x, y, z, p, q), used & ELEMENTWISE, 3),
        Workload("layout", (x, y), used, 3),
        Workload("masked", (x, p), used, 3),
        *([Workload("products", (x, y, w), products, 3)] if "matmul" in used else []),
        Workload("positive", (x, y), used & ELEMENTWISE, 3, ("finite", "nonneg", "nonzero")),
    )


@dataclass(frozen=True)
class Pair:
    """Two expressions that look equal.

    ``bits``: as float32 with special values (up to the sign of zero), not over the reals only.
    """

    small: Expression
    large: Expression
    bits: bool
    assumes: tuple[str, ...]


@dataclass
class Counts:
    """What an enumeration did."""

    expressions: int = 0
    buckets: int = 0
    pairs: int = 0


class Enumeration:
    """One workload; :meth:`pairs` yields what looks equal, smallest first."""

    def __init__(self, workload: Workload, seed: int, counts: Counts) -> None:
        self.workload, self.counts = workload, counts
        self.forms = [f for f in FORMS if f.operator in workload.operators]
        self.values = Values(workload.leaves, seed, positive=bool(workload.assumes))
        self._made: dict[Expression, list[torch.Tensor]] = {}
        self._by_size: list[list[Expression]] = [[]]
        self._buckets: dict[object, _Bucket] = {}
        for leaf in workload.leaves:
            self._made[leaf] = self.values.leaf(leaf)
            self._by_size[0].append(leaf)
            self._bucket(leaf, self._made[leaf]).by_bits[key(self._made[leaf]).bits] = leaf

    def _bucket(self, e: Expression, made: Sequence[torch.Tensor]) -> _Bucket:
        return self._buckets.setdefault((e.kind, e.shape, key(made).real), _Bucket())

    def pairs(self, stop: Callable[[], bool]) -> Iterator[Pair]:
        """Pairs in a fixed order; ends early once ``stop``."""
        for size in range(1, self.workload.size + 1):
            self._by_size.append([])
            for number, e in enumerate(self._of_size(size)):
                if number % 256 == 0 and stop():
                    return
                yield from self._entered(e)

    def _of_size(self, size: int) -> Iterator[Expression]:
        seen: set[str] = set()
        for form in self.forms:
            for sizes in _splits(size - 1, len(form.kinds)):
                if form.swaps and list(sizes) != sorted(sizes):
                    continue
                for operands in itertools.product(*(self._candidates(n, k) for n, k in self._places(sizes, form))):
                    e = apply(form, operands)
                    if e is not None and (not form.swaps or e.text not in seen):
                        if form.swaps:
                            seen.add(e.text)
                        yield e

    @staticmethod
    def _places(sizes: Sequence[int], form: Form) -> Iterator[tuple[int, str]]:
        return zip(sizes, form.kinds, strict=True)

    def _candidates(self, size: int, kind: str) -> list[Expression]:
        return [e for e in self._by_size[size] if e.kind == kind]

    def _entered(self, e: Expression) -> Iterator[Pair]:
        if e.size == self.workload.size and not self._in_order(e):
            return
        made = results(e, [self._made[o] for o in e.operands])
        if made is None or _constant(made[-1]):
            return
        self.counts.expressions += 1
        bucket = self._bucket(e, made)
        bits = key(made).bits
        same = bucket.by_bits.get(bits)
        first = next(iter(bucket.by_bits.values()), None)
        if same is not None:
            yield self._pair(same, e, True)
            if same is first:
                return
        elif first is None:
            self.counts.buckets += 1
            self._by_size[e.size].append(e)
            if e.size < self.workload.size:
                self._made[e] = made
        bucket.by_bits.setdefault(bits, e)
        if first is not None:
            yield self._pair(first, e, False)

    @staticmethod
    def _in_order(e: Expression) -> bool:
        """Whether arguments are first read in their order: others are the same up to renaming."""
        return all(a.text == new.text for a, new in ordered(e).items())

    def _pair(self, small: Expression, large: Expression, bits: bool) -> Pair:
        self.counts.pairs += 1
        return Pair(small, large, bits, self.workload.assumes)


@dataclass
class _Bucket:
    """Expressions that are equal over the reals, by what their bits are; the first is the representative."""

    by_bits: dict[int, Expression] = field(default_factory=dict)


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _splits(total - first, parts - 1):
            yield (first, *rest)


def _constant(t: torch.Tensor) -> bool:
    """Whether nothing of the arguments is left in a result: NaN everywhere, or one value."""
    return bool((t == t.reshape(-1)[0]).all()) or bool((t != t).all()) if t.numel() else True
