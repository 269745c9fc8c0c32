"""Which pairs follow from kept ones: matching, rewriting one step, and what counts as trivial.

A pair is subsumed where steps with kept pairs from its two sides meet (so instances, congruence and two or three
applications; TASO, Jia et al., SOSP 2019, prunes in this way).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fxmorph.propose.synthesis.form_operators import ELEMENTWISE, LAYOUT, REDUCTION, Shape
from fxmorph.propose.synthesis.forms import Expression, apply, arguments, substituted, walk

Bound = dict[str, Expression]
#: How exactly the two sides of an equation are equal.
REALS, BITS = 1, 2


@dataclass(frozen=True)
class Equation:
    """Two expressions over arguments as general as they were shown for.

    ``strength`` is BITS or REALS; ``assumes`` are preconditions on the arguments' values.
    """

    left: Expression
    right: Expression
    strength: int
    assumes: frozenset[str] = frozenset()

    def covers(self, other: Equation) -> bool:
        """Whether a step with it is as good as ``other`` claims."""
        return self.strength >= other.strength and self.assumes <= other.assumes


class Derivations:
    """Kept equations, and what follows from them."""

    def __init__(self) -> None:
        self._from: dict[str, list[tuple[Expression, Expression, Equation]]] = {}

    def add(self, equation: Equation) -> None:
        for old, new in ((equation.left, equation.right), (equation.right, equation.left)):
            if old.form is not None and arguments(new).keys() <= arguments(old).keys():
                self._from.setdefault(old.form.text, []).append((old, new, equation))

    def follows(self, wanted: Equation, twice: bool = False) -> bool:
        """Whether one step from the left (or none) meets one from the right, with ``twice`` two from the right."""
        left = {wanted.left, *self._steps(wanted.left, wanted)}
        if wanted.right in left:
            return True
        right = set(self._steps(wanted.right, wanted))
        return not left.isdisjoint(right) or (twice and any(not left.isdisjoint(self._steps(e, wanted)) for e in right))

    def _steps(self, e: Expression, wanted: Equation) -> Iterator[Expression]:
        """Every expression that one kept equation makes of one part of ``e``."""
        if e.form is None:
            return
        for old, new, equation in self._from.get(e.form.text, ()):
            if equation.covers(wanted):
                for bound in matches(old, e):
                    made = substituted(new, bound) if _alike(old, bound) else None
                    if made is not None and made.shape == e.shape:
                        yield made
        for i, operand in enumerate(e.operands):
            for part in self._steps(operand, wanted):
                made = apply(e.form, (*e.operands[:i], part, *e.operands[i + 1 :]))
                if made is not None:
                    yield made


def matches(pattern: Expression, e: Expression, bound: Bound | None = None) -> Iterator[Bound]:
    """Ways in which ``e`` is an instance of ``pattern``: arguments to parts of ``e``."""
    bound = bound or {}
    if pattern.form is None:
        known = bound.get(pattern.text)
        if pattern.kind == e.kind and (e == known if known is not None else _fits(pattern.shape, e.shape)):
            yield {**bound, pattern.text: e}
        return
    if e.form is not pattern.form:
        return
    orders = [e.operands, e.operands[::-1]] if e.form.swaps and e.operands[0] != e.operands[1] else [e.operands]
    for operands in orders:
        yield from _all_match(pattern.operands, operands, bound)


def _all_match(patterns: tuple[Expression, ...], es: tuple[Expression, ...], bound: Bound) -> Iterator[Bound]:
    if not patterns:
        yield bound
        return
    for one in matches(patterns[0], es[0], bound):
        yield from _all_match(patterns[1:], es[1:], one)


def _fits(pattern: Shape, shape: Shape) -> bool:
    """Whether a tensor of ``shape`` has the dimensions that an argument names."""
    return len(shape) - (shape[:1] == ("...",)) >= len(pattern) - 1


def _alike(pattern: Expression, bound: Bound) -> bool:
    """Whether arguments of one shape stand for parts of one shape."""
    shapes: dict[Shape, Shape] = {}
    return all(shapes.setdefault(a.shape, bound[n].shape) == bound[n].shape for n, a in arguments(pattern).items())


# -- what is trivial, and what is alike --------------------------------------------


def trivial(left: Expression, right: Expression) -> bool:
    """Identities that nobody needs found: an operator twice, or of one value twice, is one argument or itself once.

    Renamings by commutativity never get here: operands that may be exchanged are in order.
    """
    small, large = sorted((left, right), key=lambda e: e.size)
    if large.form is None:
        return True
    same = [e for e in walk(large) if e.form is not None]
    twice = len({(e.form.operator if e.form else "") for e in same}) == 1
    return twice and small.size < large.size and (small.form is None or small.form is large.form)


def schema(left: Expression, right: Expression) -> str:
    """The pair with elementwise operators exchanged for placeholders, where it is about moving or reducing.

    Rules with one schema are one fact about several operators; the last two dimensions may be exchanged too.
    """
    used = {e.form.operator for side in (left, right) for e in walk(side) if e.form is not None}
    if not used & (LAYOUT | REDUCTION):
        return f"{left.text} = {right.text}"
    named: dict[str, str] = {}

    def text(e: Expression) -> str:
        if e.form is None:
            return e.text
        name = e.form.text
        if e.form.operator in ELEMENTWISE:
            name = named.setdefault(name, f"op{len(named)}of{len(e.operands)}")
        return f"{name}({', '.join(map(text, e.operands))})"

    said = f"{text(left)} = {text(right)}"
    exchanged = said.replace("-1", "#").replace("-2", "-1").replace("#", "-2")
    return min(said, exchanged)
