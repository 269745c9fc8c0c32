"""Arithmetic of whole tensors in the two fields: what the operators of ``operations.py`` are spelled in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import torch

from fxmorph.prove.field.constants import dyadic, meaning, residue
from fxmorph.prove.field.elements import FRESH, NAN, NUMBER, Degree, Order, Val
from fxmorph.prove.field.primes import (
    EXACT,
    P,
    Q,
    inverse,
    logs,
    lookup,
    powers,
    residues,
    roots,
    salt,
    scrambled,
    signs,
)
from fxmorph.prove.shadow_memory import NotModelled

#: The element that stands for pi: a square in both fields.
PI = 31415926**2


def _worst(*values: Val) -> tuple[Degree, float]:
    return NUMBER.worst(*(v.degree for v in values)), max(v.bits for v in values)


def _narrow(t: torch.Tensor, dim: int, start: int, n: int) -> torch.Tensor:
    return t.narrow(dim, start, n)


class Arithmetic:
    """Field operations under one choice of random functions (``seed``) and one :class:`Order`."""

    def __init__(self, seed: int, order: Order = Order.MIXED, strict: bool = False) -> None:
        self.seed, self.order = seed, order
        #: Whether logarithms and roots of what stands for negative numbers are undefined, and not
        #: those of the absolute value: then exp(log(x)) = x, at the price of half of the elements.
        self.strict = strict
        self.mixed = order in (Order.MIXED, Order.TIES)
        #: Whether logarithms or roots were taken, and truth values made that are seen.
        self.positive = self.compared = False
        self.base = 2 * (1 + salt("base", seed) % (Q - 1))  # exp(1) is the generator to this power
        self.per_base = pow(self.base, -1, Q)
        #: Whether infinities may occur; they are kept apart at a cost.
        self.infinite = False
        #: Sum of the degrees of arguments of random functions.
        self.hidden = 0.0
        #: The degree of the product of all elements that were inverted.
        self.inverted = 0.0
        self.assumptions: set[str] = set()
        #: Numbers of the program, modulo p and q.
        self.numbers: set[tuple[float, float]] = set()

    # -- constants -------------------------------------------------------------

    def fraction(self, value: Fraction | int) -> Val:
        value = Fraction(value)
        return Val(
            torch.tensor(residue(value, P), dtype=torch.float64),
            torch.tensor(residue(value, Q), dtype=torch.float64),
            NUMBER,
        )

    def constant(self, value: Any, dtype: torch.dtype = torch.float64, wide: bool = True) -> Val:
        """What a number of a program stands for; ``dtype`` is that it was rounded to.

        ``wide``: it is computed with in float64, so that a number that float32 has is no other one rounded.
        """
        if isinstance(value, complex):
            raise NotModelled("complex numbers")
        if isinstance(value, (bool, int)):
            return self._noted(self.fraction(int(value)))
        if not math.isfinite(value):
            self.infinite = self.infinite or math.isinf(value)
            t = torch.tensor(value, dtype=torch.float64)
            return Val(t, t, NUMBER)
        meant = meaning(value, dtype, wide)
        if not meant.exactly(value):
            self.assumptions.add("constants-rounded")
        number = self.fraction(meant.value)
        if meant.pi:
            # A number of which only its sign is used: one element, of which it does not matter which.
            number = self.mul(number, self.power(self.fraction(PI), meant.pi))
        for _ in range(meant.roots):
            number = self.root(number)
        return self._noted(number)

    def _noted(self, number: Val) -> Val:
        if number.q is not None:
            self.numbers.add((float(number.p), float(number.q)))
        return number

    def constants(self, native: torch.Tensor, exactly: bool = False) -> Val:
        """The elements of a tensor of numbers, ``exactly`` those or what they may have been rounded from."""
        flat = native.detach().reshape(-1)
        if native.is_complex():
            raise NotModelled("complex numbers")
        if not native.is_floating_point():
            wide = flat.long()
            return Val((wide % P).double().reshape(native.shape), (wide % Q).double().reshape(native.shape), NUMBER)
        values, where = torch.unique(flat, return_inverse=True)
        if len(values) <= 256 and not exactly:
            each = [self.constant(v, native.dtype) for v in values.tolist()]
            pairs = [[float(e.p), NAN if e.q is None else float(e.q)] for e in each]
            table = torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2)
            out = table[where]
            return Val(out[:, 0].reshape(native.shape), out[:, 1].reshape(native.shape), NUMBER)
        finite = torch.isfinite(flat)
        if not bool(finite.all()):
            self.infinite = True
        safe = torch.where(finite, flat.double(), torch.zeros(()).double())
        parts = [torch.where(finite, dyadic(safe, m), flat.double()).reshape(native.shape) for m in (P, Q)]
        return Val(parts[0], parts[1], NUMBER)

    # -- rational functions ----------------------------------------------------

    def reduced(self, x: torch.Tensor, modulus: int) -> torch.Tensor:
        """The remainder; infinities stay."""
        out = torch.remainder(x, modulus)
        return torch.where(x.isinf(), x, out) if self.infinite else out

    def both(self, f: Callable[..., torch.Tensor], *values: Val) -> tuple[torch.Tensor, torch.Tensor | None]:
        """f of the parts modulo p, and of those modulo q, both reduced."""
        p = self.reduced(f(*[v.p for v in values]), P)
        if any(v.q is None for v in values):
            return p, None
        return p, self.reduced(f(*[v.q for v in values]), Q)

    def add(self, a: Val, b: Val) -> Val:
        return Val(*self.both(torch.add, a, b), a.degree.plus(b.degree), max(a.bits, b.bits))

    def sub(self, a: Val, b: Val) -> Val:
        return Val(*self.both(torch.sub, a, b), a.degree.plus(b.degree), max(a.bits, b.bits))

    def neg(self, a: Val) -> Val:
        return Val(*self.both(torch.neg, a), a.degree, a.bits)

    def mul(self, a: Val, b: Val) -> Val:
        def times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = x * y
            # The sign of an element is not known, so neither is that of its product with infinity.
            return torch.where(out.isinf(), NAN, out) if self.infinite else out

        return Val(*self.both(times, a, b), a.degree.by(b.degree), a.bits + b.bits)

    def invert(self, a: Val) -> Val:
        degree = NUMBER
        if a.degree != NUMBER:
            self.assumptions.add("denom!=0")
            before, d = self.inverted, a.degree
            self.inverted += a.p.numel() * (d.common + d.times * before)
            degree = Degree(d.den, d.num, d.times * before, 1.0)

        def one(x: torch.Tensor, modulus: int) -> torch.Tensor:
            out = lookup(inverse(modulus), x)
            return torch.where(x.isinf(), 0.0, out) if self.infinite else out

        return Val(one(a.p, P), None if a.q is None else one(a.q, Q), degree, a.bits)

    def div(self, a: Val, b: Val) -> Val:
        return self.mul(a, self.invert(b))

    def scale(self, a: Val, factor: Fraction | int) -> Val:
        return self.mul(a, self.fraction(factor))

    def square(self, a: Val) -> Val:
        return self.mul(a, a)

    def power(self, a: Val, n: int) -> Val:
        if n < 0:
            return self.invert(self.power(a, -n))
        out = self.fraction(1).map(lambda t: t.expand(a.shape))
        base = a
        while n:
            if n & 1:
                out = self.mul(out, base)
            n >>= 1
            if n:
                base = self.mul(base, base)
        return out

    def sum(self, a: Val, dims: Sequence[int], keepdim: bool = False) -> Val:
        if not a.ndim:
            return a
        n = max(a.size(dims), 1)
        p, q = self.both(lambda t: t.sum(tuple(dims), keepdim=keepdim), a)
        return Val(p, q, a.degree.summed(n), a.bits)

    def mean(self, a: Val, dims: Sequence[int], keepdim: bool = False) -> Val:
        n = a.size(dims)
        return self.div(self.sum(a, dims, keepdim), self.fraction(n))

    def prod(self, a: Val, dim: int, keepdim: bool) -> Val:
        n = a.shape[dim]
        if n == 0:
            return self.fraction(1).map(lambda t: t.expand(a.p.sum(dim, keepdim=keepdim).shape))
        ones = [0] * (2 * (a.ndim - 1 - dim % a.ndim))
        while (n := a.shape[dim]) > 1:
            if n % 2:
                a = a.map(partial(torch.nn.functional.pad, pad=(*ones, 0, 1), value=1.0))
                n += 1
            a = self.mul(
                a.map(partial(_narrow, dim=dim, start=0, n=n // 2)),
                a.map(partial(_narrow, dim=dim, start=n // 2, n=n // 2)),
            )
        return a if keepdim else a.map(lambda t: t.squeeze(dim))

    def linear(self, f: Callable[..., torch.Tensor], a: Val, terms: int) -> Val:
        """f adds up at most ``terms`` elements of ``a`` for each of its own, with coefficients below p."""
        if terms * P >= EXACT:
            raise NotModelled(f"a sum of {terms} elements")
        return Val(*self.both(f, a), a.degree.summed(terms), a.bits)

    def bilinear(self, f: Callable[..., torch.Tensor], a: Val, b: Val, terms: int) -> Val:
        """f adds up at most ``terms`` products of an element of ``a`` and one of ``b`` for each of its own."""
        n = max(terms, 1)

        def one(x: torch.Tensor, y: torch.Tensor, modulus: int) -> torch.Tensor:
            if n * modulus * modulus < EXACT:
                return torch.remainder(f(x, y), modulus)
            if n * modulus * 1024 >= EXACT:
                raise NotModelled(f"a sum of {n} products")
            low = torch.remainder(x, 1024)
            high = torch.remainder(f((x - low) / 1024, y), modulus)
            return torch.remainder(high * 1024 + f(low, y), modulus)

        p = one(a.p, b.p, P)
        q = None if a.q is None or b.q is None else one(a.q, b.q, Q)
        return Val(p, q, a.degree.by(b.degree).summed(n), a.bits + b.bits)

    def matmul(self, a: Val, b: Val) -> Val:
        return self.bilinear(torch.matmul, a, b, a.shape[-1])

    # -- functions -------------------------------------------------------------

    def _hide(self, *values: Val) -> float:
        """Account for the arguments of a random function; the bits of its values."""
        self.hidden += max(v.degree.bound(self.inverted) for v in values)
        return max(v.bits for v in values)

    def function(self, name: str, *values: Val) -> Val:
        """An uninterpreted function: a random one of the elements modulo p, else of those modulo q."""
        bits = self._hide(*values)
        self.assumptions.add(f"UF:{name.split('[')[0]}")
        tensors = torch.broadcast_tensors(*[self._name(v) for v in values])
        bad = torch.zeros(tensors[0].shape, dtype=torch.bool)
        h = torch.full(tensors[0].shape, salt(name, self.seed), dtype=torch.int64)
        for t in tensors:
            bad = bad | t.isnan()
            infinite = t.isinf()
            code = torch.where(infinite, t.sign() * 7 - 20, t)
            h = scrambled(h ^ torch.where(t.isnan(), 0.0, code).long(), 0x5BD1E995)
        p, q = residues(h, P), residues(scrambled(h, 0x1234567), Q)
        return Val(torch.where(bad, NAN, p), torch.where(bad, NAN, q), FRESH, bits)

    def _name(self, v: Val) -> torch.Tensor:
        """One number for each element: that modulo p, else that modulo q (told apart)."""
        if v.q is None:
            return v.p
        return torch.where(v.p.isnan(), v.q + 2 * P, v.p)

    def exp(self, a: Val) -> Val:
        """g**x: exp(x + y) = exp(x) exp(y) and exp(0) = 1.  A random function where x modulo q is undefined."""
        if a.q is None:
            return self.function("exp", a)
        bits = self._hide(a)
        table = powers(P)
        bad = ~(a.q.abs() < Q)
        exponent = torch.where(bad, 0.0, a.q).long() * self.base % (P - 1)
        p = torch.where(bad, NAN, table[exponent].double())
        if self.infinite:
            p = torch.where(a.q == -math.inf, 0.0, torch.where(a.q == math.inf, math.inf, p))
        out = Val(p, None, FRESH, bits)
        lost = a.q.isnan()
        if bool(lost.any()):
            other = self.function("exp", a)
            out.p = torch.where(lost, other.p, p)
        return out

    def log(self, a: Val) -> Val:
        """The exponent of g, known modulo q only: log(xy) = log(x) + log(y), log(exp(x)) = x."""
        bits = self._hide(a)
        self.assumptions.add("log-argument>0")
        out = (lookup(logs(P).double(), a.p) % Q) * float(self.per_base) % Q
        self.positive = True
        out = torch.where(lookup(signs(), a.p) == 1 if self.strict else a.p != 0, out, NAN)
        lost = a.p.isnan()
        p = torch.full_like(out, NAN)
        if bool(lost.any()):
            other = self.function("log", a)
            assert other.q is not None
            out, p = torch.where(lost, other.q, out), torch.where(lost, other.p, p)
        return Val(p, out, FRESH, bits)

    def root(self, a: Val) -> Val:
        """A square root of |x|: root(xy) = root(x) root(y), root(x**2) = |x|, root(x)**2 = |x|."""
        bits = self._hide(a)
        if a.degree != NUMBER:
            self.positive = True
            self.assumptions.add("root-argument>=0")
        parts: list[torch.Tensor | None] = []
        for x, modulus in ((a.p, P), (a.q, Q)):
            if x is None:
                parts.append(None)
                continue
            r = lookup(roots(modulus), x)
            if self.strict:
                r = torch.where(lookup(signs(), a.p) >= 0, r, NAN)
            parts.append(torch.where(x == math.inf, math.inf, r) if self.infinite else r)
        return Val(parts[0], parts[1], FRESH, bits)  # type: ignore[arg-type]

    # -- order -----------------------------------------------------------------

    def truth(self, native: torch.Tensor) -> Val:
        """Truth values that are known."""
        t = native.double()
        return Val(t, t, NUMBER)

    def less(self, a: Val, b: Val) -> Val:
        """x < y as 0, 1 or, for Order.MIXED, an element."""
        self.assumptions.add("comparison-as-predicate")
        bits = self._hide(a, b)
        if self.order is Order.TOTAL:
            t = (self.rank(a) < self.rank(b)).double()
            bad = self._name(a).isnan() | self._name(b).isnan()
            t = torch.where(bad, NAN, t)
            out = Val(t, t, NUMBER, bits + 1)
        else:
            d = self.sub(b, a)
            if self.order is Order.SIGNED:
                t = self._sign(d)
                t = torch.where(t.isnan(), t, (t > 0).double())
                out = Val(t, t, NUMBER, bits + 1)
            else:
                out = self._mixed(d, bits)[0]
        if self.infinite:
            x, y = self._name(a), self._name(b)
            far = (x.isinf() | y.isinf()) & ~x.isnan() & ~y.isnan()
            known = (torch.where(x.isinf(), x, 0.0) < torch.where(y.isinf(), y, 0.0)).double()
            out = Val(
                torch.where(far, known, out.p),
                torch.where(far, known, out.p if out.q is None else out.q),
                out.degree,
                out.bits,
            )
        return out

    def _mixed(self, d: Val, bits: float) -> tuple[Val, Val]:
        """d > 0 and d == 0."""
        x = self._name(d)
        modulus = torch.where(x >= 2 * P, float(Q), float(P))
        x = torch.where(x >= 2 * P, x - 2 * P, x)
        upper = x > modulus / 2
        small = torch.where(upper, modulus - x, x)
        h = scrambled(torch.where(small.isnan(), 0.0, small).long(), salt("order", self.seed))
        parts, same = [], []
        for m, h_part in ((P, h), (Q, scrambled(h, 77))):
            t, tie = residues(h_part, m), torch.zeros_like(x)
            if self.order is Order.TIES:
                tie = residues(scrambled(h_part, 5), m)
            t = torch.where(upper, torch.remainder(1 - t - tie, m), t)
            t, tie = torch.where(x == 0, 0.0, t), torch.where(x == 0, 1.0, tie)
            parts.append(torch.where(x.isnan(), NAN, t))
            same.append(torch.where(x.isnan(), NAN, tie))
        return (Val(parts[0], parts[1], FRESH, bits), Val(same[0], same[1], FRESH, bits))

    def _sign(self, a: Val) -> torch.Tensor:
        """-1, 0 or 1: multiplicative; a random odd function where the element modulo p is undefined."""
        s = lookup(signs(), a.p)
        if a.q is not None and bool(a.p.isnan().any()):
            upper = a.q > Q / 2
            small = torch.where(upper, Q - a.q, a.q)
            h = scrambled(torch.where(small.isnan(), 0.0, small).long(), salt("sign", self.seed))
            other = (h & 1).double() * 2 - 1
            other = torch.where(a.q == 0, 0.0, torch.where(upper, -other, other))
            other = torch.where(a.q.isnan(), NAN, other)
            s = torch.where(a.p.isnan(), other, s)
        if self.infinite:
            s = torch.where(a.p.isinf(), a.p.sign(), s)
        return s

    def rank(self, a: Val) -> torch.Tensor:
        """Places in the random total order (float64); NaN where undefined."""
        s = self._sign(a)
        size = self._name(a)
        modulus = torch.where(size >= 2 * P, float(Q), float(P))
        low = torch.where(size >= 2 * P, size - 2 * P, size)
        small = torch.minimum(low, modulus - low) + torch.where(size >= 2 * P, float(P), 0.0)
        h = scrambled(torch.where(small.isfinite(), small, 0.0).long(), salt("rank", self.seed))
        out = s * (1 + (h & (2**52 - 1)).double())
        return torch.where(size.isinf(), size, out) if self.infinite else out

    def equal(self, a: Val, b: Val) -> Val:
        bits = self._hide(a, b)
        if self.order is Order.TIES:
            return self._mixed(self.sub(b, a), bits)[1]
        x, y = torch.broadcast_tensors(self._name(a), self._name(b))
        t = torch.where(x.isnan() | y.isnan(), NAN, (x == y).double())
        return Val(t, t, NUMBER, max(a.bits, b.bits))

    def negation(self, c: Val) -> Val:
        return self.sub(self.fraction(1), c)

    def where(self, c: Val, a: Val, b: Val) -> Val:
        """a where c, else b."""
        if bool(((c.p == 0) | (c.p == 1)).all()):
            yes = c.p == 1
            q = None
            if a.q is not None or b.q is not None:
                nan = torch.full((), NAN, dtype=torch.float64)
                q = torch.where(yes, nan if a.q is None else a.q, nan if b.q is None else b.q)
            degree, bits = _worst(a, b)
            return Val(torch.where(yes, a.p, b.p), q, degree, bits + c.bits)
        if not self.mixed:
            c = Val(c.p, None, c.degree, c.bits)
            yes = c.p == 1
            bad = c.p.isnan()
            picked = self.where(Val(yes.double(), None, NUMBER, c.bits), a, b)
            return picked.map(lambda t: torch.where(bad, NAN, t))
        return self.add(self.mul(c, self.sub(a, b)), b)

    def maximum(self, a: Val, b: Val) -> Val:
        return self.where(self.less(a, b), b, a)

    def minimum(self, a: Val, b: Val) -> Val:
        return self.where(self.less(a, b), a, b)

    def absolute(self, a: Val) -> Val:
        if self.mixed:
            zero = self.fraction(0)
            return self.where(self.less(zero, a), a, self.neg(a))
        s = self._sign(a)
        bits = self._hide(a)
        sign = Val(torch.remainder(s, P), torch.remainder(s, Q), NUMBER, bits + 1)
        return self.mul(sign, a)

    def largest(self, a: Val, dims: Sequence[int], keepdim: bool) -> Val:
        """The maximum: a random function of the set for Order.MIXED, else the one of highest rank."""
        if not a.ndim or not dims:
            return a
        rest = [d for d in range(a.ndim) if d not in dims]
        n = a.size(dims)
        lead = [a.shape[d] for d in rest]
        rows = a.map(lambda t: t.permute([*rest, *dims]).reshape(*lead, n))
        if n == 1:
            out = rows.map(lambda t: t.squeeze(-1))
        elif self.mixed:
            out = self._of_set("amax", rows)
        else:
            self.assumptions.add("comparison-as-predicate")
            at = self.highest(rows)
            out = rows.map(lambda t: t.gather(-1, at).squeeze(-1))
            out.bits = a.bits + math.log2(n)
        if keepdim:
            shape = [1 if d in dims else a.shape[d] for d in range(a.ndim)]
            out = out.map(lambda t: t.reshape(shape))
        return out

    def highest(self, rows: Val) -> torch.Tensor:
        """The first place of the highest rank in the last dimension, kept."""
        if self.mixed:
            raise NotModelled("places of extrema need an order")
        self._hide(rows)
        return self.rank(rows).nan_to_num(-math.inf, math.inf, -math.inf).argmax(-1, keepdim=True)

    def ordered(self, rows: Val, dim: int) -> Val:
        """The last dimension's elements in ascending order, as random functions of them all but for the extremes."""
        n = rows.shape[dim]
        rows = rows.map(lambda t: t.movedim(dim, -1))
        made = [self._of_set(f"ordered {i}", rows, several=True) for i in range(1, n - 1)]
        ends = [
            self.neg(self.largest(self.neg(rows), [rows.ndim - 1], False)),
            self.largest(rows, [rows.ndim - 1], False),
        ]
        made = [ends[0], *made, ends[1]] if n > 1 else ends[:1]
        q = None if any(v.q is None for v in made) else torch.stack([v.q for v in made], dim)  # type: ignore[misc]
        return Val(torch.stack([v.p for v in made], dim), q, *_worst(*made))

    def _of_set(self, name: str, rows: Val, several: bool = False) -> Val:
        """A random function of the set of the last dimension's elements; of a single one, that one.

        ``several``: how often an element occurs counts.
        """
        bits = self._hide(rows)
        self.assumptions.add(f"UF:{name}")
        names = self._name(rows)
        bad = names.isnan().any(-1)
        if self.infinite and name == "amax":
            smallest = names == -math.inf
            names = torch.where(smallest, names.amax(-1, keepdim=True), names)
        names, order = names.sort(-1)
        new = torch.ones_like(names, dtype=torch.bool)
        new[..., 1:] = names[..., 1:] != names[..., :-1]
        h = scrambled(torch.where(names.isfinite(), names, 9e6).long(), salt(name, self.seed))
        h = scrambled(h.sum(-1) if several else (h * new).sum(-1), 5)
        single = rows.map(lambda t: t.gather(-1, order[..., -1:]).squeeze(-1))
        alone = new.sum(-1) == 1
        p = torch.where(alone, single.p, residues(h, P))
        other = residues(scrambled(h, 3), Q)
        q = torch.where(alone, torch.full_like(other, NAN) if single.q is None else single.q, other)
        return Val(torch.where(bad, NAN, p), torch.where(bad, NAN, q), FRESH, bits)
