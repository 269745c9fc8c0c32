"""Sizes that are not known: polynomials over named atoms, and a proof by cases over them.

Code of a rule runs on :class:`Extent` as if it were an integer.  Where it asks something that
the assumptions decide, a solver answers; where both answers are possible the case is split and
the code runs again for the other one (:func:`explore`), as symbolic execution does (King,
"Symbolic execution and program testing", CACM 1976).  Everything that reaches the solver is
linear: a product of atoms is a variable of its own with a few lemmas, so proofs may be missed
and never invented.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd, prod
from typing import Any

import z3

Monomial = tuple[str, ...]

#: Numbers that code needs as such (a count of loop turns) are split into cases within this range.
CONCRETE = 16
#: A number is divided by an unknown size in one case for each smaller size, up to this number.
FEW = 8


class Unsupported(Exception):
    """The code does something that is not modelled; nothing is said about it."""


class NoFit(Unsupported):
    """Indices do not regroup without multiplication."""


class Refused(Exception):
    """Eager would raise here."""


class Infeasible(Exception):
    """No sizes lead here."""


@dataclass(frozen=True)
class Poly:
    """A polynomial with integer coefficients in normal form."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: dict[Monomial, int]) -> Poly:
        return Poly(tuple(sorted(((m, c) for m, c in terms.items() if c), key=lambda t: _order(t[0]), reverse=True)))

    @staticmethod
    def number(n: int) -> Poly:
        return Poly((((), n),)) if n else Poly()

    @staticmethod
    def atom(name: str) -> Poly:
        return Poly((((name,), 1),))

    @property
    def constant(self) -> int | None:
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def atoms(self) -> set[str]:
        return {a for m, _ in self.terms for a in m}

    def __add__(self, other: Poly) -> Poly:
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) + c
        return Poly.of(out)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        out: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                key = tuple(sorted(m + n))
                out[key] = out.get(key, 0) + c * d
        return Poly.of(out)

    def put(self, name: str, value: Poly) -> Poly:
        """The polynomial with an atom replaced."""
        if name not in self.atoms:
            return self
        out = Poly()
        for m, c in self.terms:
            term = Poly.number(c)
            for a in m:
                term = term * (value if a == name else Poly.atom(a))
            out = out + term
        return out

    def divide(self, by: Poly) -> tuple[Poly, Poly]:
        """Quotient and remainder of the long division; exact where the remainder is zero."""
        quotient, rest, left = Poly(), Poly(), self
        lead, factor = by.terms[0]
        while left.terms:
            m, c = left.terms[0]
            over = _without(m, lead)
            if over is None or c // factor == 0:
                head = Poly(((m, c),))
                rest, left = rest + head, left - head
                continue
            step = Poly(((over, c // factor),))
            quotient, left = quotient + step, left - step * by
            if left.terms and left.terms[0][0] == m:  # what the coefficient leaves
                head = Poly((left.terms[0],))
                rest, left = rest + head, left - head
        return quotient, rest

    def __str__(self) -> str:
        return " + ".join("*".join([str(c)] * (c != 1 or not m) + list(m)) for m, c in self.terms) or "0"


ZERO, ONE = Poly(), Poly.number(1)


def product(polys: Sequence[Poly]) -> Poly:
    out = ONE
    for p in polys:
        out = out * p
    return out


def exact(p: Poly, by: Poly) -> Poly | None:
    """p / by where that is a polynomial."""
    if not by.terms:
        return None
    quotient, rest = p.divide(by)
    return None if rest.terms else quotient


@cache
def _order(m: Monomial) -> tuple[int, Monomial]:
    return len(m), m


def _without(m: Monomial, n: Monomial) -> Monomial | None:
    left = list(m)
    for a in n:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


#: Answers of one case that its assumptions do not decide; each leaves another case, so that more are hopeless.
MOST_ANSWERS = 300


class Case:
    """Assumptions about sizes, and the answers given so far.

    ``answers`` is what to reply to the first open questions; later ones are answered yes, and
    ``open`` lists the answers that lead to the other replies.
    """

    def __init__(self, answers: Sequence[bool] = (), rlimit: int = 2_000_000) -> None:
        self.ctx = z3.Context()  # of its own: what scripts say depends on what a context held before
        self.solver = z3.SimpleSolver(ctx=self.ctx)
        self.solver.set("rlimit", rlimit)
        self.solver.set("random_seed", 0)
        self.given, self.taken = tuple(answers), list[bool]()
        self.open: list[tuple[bool, ...]] = []
        self.queries: dict[str, None] = {}
        self.values: dict[str, Poly] = {}  # atoms that equations have eliminated
        self.nonneg: dict[str, bool] = {}
        self.monomials: dict[Monomial, Any] = {}
        self.divisions: dict[tuple[Poly, Poly], tuple[Poly, Poly]] = {}
        self.assume_reads = False  # what an operation reads is in range, as eager did not raise
        self.reads: list[Any] = []
        self.joined: dict[int, tuple[Any, tuple[Poly, ...], tuple[Any, ...]]] = {}  # terms by what they were made of
        self._fresh = 0

    # ---- atoms and terms

    def atom(self, name: str, nonneg: bool = True) -> Poly:
        if name not in self.nonneg:
            self.nonneg[name] = nonneg
            if nonneg:
                self.solver.add(self._variable((name,)) >= 0)
        return Poly.atom(name)

    def fresh(self, name: str, nonneg: bool = True) -> Poly:
        self._fresh += 1
        return self.atom(f"{name}.{self._fresh}", nonneg)

    def int_var(self, name: str) -> Any:
        self._fresh += 1
        return z3.Int(f"{name}.{self._fresh}", self.ctx)

    def int_val(self, n: int) -> Any:
        return z3.IntVal(n, self.ctx)

    def bool_val(self, b: bool) -> Any:
        return z3.BoolVal(b, self.ctx)

    def norm(self, p: Poly) -> Poly:
        for name in p.atoms & self.values.keys():
            p = p.put(name, self.values[name])
        return p

    def term(self, p: Poly) -> Any:
        """The linear term of a polynomial."""
        out = self.int_val(0)
        for m, c in self.norm(p).terms:
            out = out + (self._variable(m) * c if m else c)
        return out

    def _variable(self, m: Monomial) -> Any:
        if m not in self.monomials:
            out = self.monomials[m] = z3.Int("*".join(m), self.ctx)
            if len(m) > 1:
                parts = [self._variable((a,)) for a in sorted(set(m))]
                for part in parts:
                    self.solver.add(z3.Implies(part == 0, out == 0))
                self.solver.add(z3.Implies(z3.And([part >= 0 for part in parts]), out >= 0))
                positive = z3.And([part >= 1 for part in parts])
                for part in parts:
                    self.solver.add(z3.Implies(positive, out >= part))
        return self.monomials[m]

    def model(self, *more: Any) -> Any:
        """Values of the atoms that meet the assumptions and more, products being products; None where none is found."""
        self.solver.push()
        self.solver.add(*more)
        found = None
        if self.solver.check() == z3.sat:
            model = self.solver.model()
            value = {m: model.eval(v, model_completion=True).as_long() for m, v in self.monomials.items()}
            self.solver.add(*(v == prod(value[(a,)] for a in m) for m, v in self.monomials.items()))
            if self.solver.check() == z3.sat:
                found = self.solver.model()
        self.solver.pop()
        return found

    # ---- questions

    def implied(self, fact: Any) -> bool:
        """Whether the assumptions imply a fact; no where the solver gives up."""
        self.solver.push()
        self.solver.add(z3.Not(fact))
        yes = self.solver.check() == z3.unsat
        if yes:
            self.queries[self.text()] = None
        self.solver.pop()
        return bool(yes)

    def text(self) -> str:
        return "(set-logic QF_UFLIA)\n" + self.solver.to_smt2()

    def ask(self, fact: Any) -> bool:
        """The answer, by the assumptions or by a split of the case."""
        no = z3.Not(fact)
        # Variables of new products bring lemmas, so both are built before the solver is asked.
        if self.implied(fact):
            return True
        if self.implied(no):
            return False
        at = len(self.taken)
        if at >= MOST_ANSWERS:
            raise Unsupported(f"a loop that asks more than {MOST_ANSWERS} questions of sizes")
        if at < len(self.given):
            answer = self.given[at]
        else:
            answer = True
            self.open.append((*self.taken, False))
        self.taken.append(answer)
        self.solver.add(fact if answer else no)
        return answer

    def equal(self, p: Poly, q: Poly) -> bool:
        d = self.norm(p - q)
        if d.constant is not None:
            return d.constant == 0
        if not self.ask(self.term(d) == 0):
            return False
        self.learn_zero(d)
        return True

    def at_least(self, p: Poly, q: Poly) -> bool:
        d = self.norm(p - q)
        if d.constant is not None:
            return d.constant >= 0
        if not self.ask(self.term(d) >= 0):
            return False
        if self.implied(self.term(d) <= 0):
            self.learn_zero(d)
        return True

    def learn_zero(self, d: Poly) -> None:
        """Note that a polynomial is zero, if possible by eliminating an atom of it."""
        d = self.norm(d)
        if d.constant is not None:
            if d.constant:
                raise Infeasible
            return
        self.solver.add(self.term(d) == 0)
        divisor = gcd(*(c for _, c in d.terms))
        d = Poly(tuple((m, c // divisor) for m, c in d.terms))
        common = set.intersection(*(set(m) for m, _ in d.terms)) if d.terms[0][0][1:] else set()
        for a in sorted(common):
            if self.equal(Poly.atom(a), ZERO):
                return
            d = Poly.of({_without(m, (a,)) or (): c for m, c in d.terms})
        if common:
            return self.learn_zero(d)
        for name in self.nonneg:  # the oldest first: sizes are told by what divides them
            if abs(dict(d.terms).get((name,), 0)) == 1 and sum(name in m for m, _ in d.terms) == 1:
                value = Poly.atom(name) - d if dict(d.terms)[(name,)] == 1 else Poly.atom(name) + d
                self.values = {a: p.put(name, value) for a, p in self.values.items()} | {name: value}
                for m, variable in list(self.monomials.items()):
                    if len(m) > 1 and name in m:
                        self.solver.add(variable == self.term(Poly(((m, 1),))))
                return

    def divmod(self, p: Poly, d: Poly) -> tuple[Poly, Poly]:
        """As Python's; raises ``ZeroDivisionError``."""
        if self.equal(d, ZERO):
            raise ZeroDivisionError
        if not self.at_least(d, ONE):
            q, r = self.divmod(-p, -d)
            return q, -r
        p, d = self.norm(p), self.norm(d)
        q, b = p.divide(d)
        if not b.terms:
            return q, ZERO
        for (known, by), (count, left) in list(self.divisions.items()):
            if by == d and self.norm(known) == b:
                return q + count, self.norm(left)
            if by == d and self.norm(known) == -b:  # -(count * d + left)
                if self.equal(left, ZERO):
                    return q - count, ZERO
                return q - count - ONE, d - left
        term, size = self.term(b), self.term(d)
        if self.implied(z3.And(term >= -size, term < size + size)):
            if not self.at_least(b, ZERO):
                return q - ONE, self.norm(b + d)
            if self.at_least(b, d):
                return q + ONE, self.norm(b - d)
            return q, self.norm(b)
        if d.constant is not None and self.implied(z3.And(term >= -CONCRETE, term <= CONCRETE)):
            value = self.concrete(b)
            return q + Poly.number(value // d.constant), Poly.number(value % d.constant)
        if b.constant is not None and abs(b.constant) <= FEW:  # one case per small divisor
            for value in range(1, abs(b.constant) + 1):
                if self.equal(d, Poly.number(value)):
                    times, rest = divmod(b.constant, value)
                    return self.norm(q + Poly.number(times)), Poly.number(rest)
            return (q, b) if b.constant >= 0 else (q - ONE, self.norm(b + d))
        positive = self.implied(term >= 0)
        count, left = self.fresh("q", positive), self.fresh("r")
        self.solver.add(self.term(left) < size)
        self.divisions[b, d] = count, left
        self.learn_zero(b - count * d - left)
        return self.norm(q + count), self.norm(left)

    def concrete(self, p: Poly) -> int:
        """The value as a number: one case per value, where few are possible."""
        p = self.norm(p)
        if p.constant is not None:
            return p.constant
        term = self.term(p)
        if not self.implied(z3.And(term >= -CONCRETE, term <= CONCRETE)):
            raise Unsupported("a number is needed that depends on the size")
        for value in range(-CONCRETE, CONCRETE + 1):
            if self.equal(p, Poly.number(value)):
                return value
        raise Infeasible

    def number(self, p: Poly) -> Any:
        """As code sees it: an integer where it is one."""
        p = self.norm(p)
        return Extent(self, p) if p.constant is None else p.constant

    def poly(self, n: Any) -> Poly:
        """Of what code passes as a size."""
        if isinstance(n, Extent):
            return self.norm(n.poly)
        if isinstance(n, bool) or not isinstance(n, int):
            raise Unsupported(f"{type(n).__name__} as a size")
        return Poly.number(n)


class Extent:
    """An unknown integer."""

    __slots__ = ("case", "poly")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, case: Case, poly: Poly) -> None:
        self.case, self.poly = case, poly

    def _of(self, other: Any) -> Poly | None:
        if isinstance(other, Extent):
            return other.poly
        return Poly.number(int(other)) if isinstance(other, int) else None

    def _apply(self, other: Any, what: Callable[[Poly, Poly], Any]) -> Any:
        q = self._of(other)
        if q is None:
            if isinstance(other, float):
                raise Unsupported("a fraction of a size")
            return NotImplemented
        out = what(self.poly, q)
        return self.case.number(out) if isinstance(out, Poly) else out

    def __repr__(self) -> str:
        raise Unsupported("the text of a size")

    def __format__(self, how: str) -> str:
        raise Unsupported("the text of a size")

    def __add__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: p + q)

    def __sub__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: p - q)

    def __rsub__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: q - p)

    def __mul__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: p * q)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.divmod(p, q)[0])

    def __rfloordiv__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.divmod(q, p)[0])

    def __mod__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.divmod(p, q)[1])

    def __rmod__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.divmod(q, p)[1])

    def __divmod__(self, o: Any) -> Any:
        return self // o, self % o

    def __truediv__(self, o: Any) -> Any:
        raise Unsupported("a fraction of a size")

    __rtruediv__ = __truediv__

    def __pow__(self, o: int) -> Any:
        out: Any = 1
        for _ in range(o):
            out = self * out
        return out

    def __neg__(self) -> Any:
        return self.case.number(-self.poly)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __eq__(self, o: object) -> Any:
        return self._apply(o, self.case.equal)

    def __ne__(self, o: object) -> Any:
        return self._apply(o, lambda p, q: not self.case.equal(p, q))

    def __ge__(self, o: Any) -> Any:
        return self._apply(o, self.case.at_least)

    def __le__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.at_least(q, p))

    def __gt__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.at_least(p, q + ONE))

    def __lt__(self, o: Any) -> Any:
        return self._apply(o, lambda p, q: self.case.at_least(q, p + ONE))

    def __bool__(self) -> bool:
        return not self.case.equal(self.poly, ZERO)

    def __index__(self) -> int:
        return self.case.concrete(self.poly)

    __int__ = __index__

    def __float__(self) -> float:
        raise Unsupported("a size as a float")


def explore(run: Callable[[tuple[bool, ...]], Sequence[tuple[bool, ...]]], limit: int) -> None:
    """Run for answers until they cover every case; ``run`` gives the answers that it left open.

    Raises :class:`Unsupported` after ``limit`` cases.
    """
    pending: list[tuple[bool, ...]] = [()]
    for _ in range(limit):
        if not pending:
            return
        pending += run(pending.pop())
    if pending:
        raise Unsupported(f"more than {limit} cases of sizes")
