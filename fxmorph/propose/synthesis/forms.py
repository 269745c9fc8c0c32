"""Expressions: trees of operator forms over named arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import torch

from fxmorph.propose.language.restricted import Body
from fxmorph.propose.synthesis.form_operators import Form, Kind, Shape

#: What arguments are, and what ``matmul`` takes on the right of them.
MATRIX: Shape = ("...", "m", "n")
PRODUCT: Shape = ("...", "n", "k")
#: Names of arguments by kind and shape, in the order in which a rule reads them.
NAMES: dict[tuple[Kind, Shape], str] = {("f", MATRIX): "xyz", ("b", MATRIX): "pq", ("f", PRODUCT): "w"}


class Expression:
    """An argument (``form`` is None), or a form applied to operands.

    ``size`` counts operators, ``text`` is the restricted language and identifies the expression: operands that
    may be exchanged are in order.
    """

    __slots__ = ("form", "kind", "operands", "shape", "size", "text")

    def __init__(self, form: Form | None, operands: tuple[Expression, ...], text: str, kind: Kind, shape: Shape):
        self.form, self.operands, self.text, self.kind, self.shape = form, operands, text, kind, shape
        self.size: int = 0 if form is None else 1 + sum(o.size for o in operands)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return bare(self.text)


def argument(name: str, kind: Kind, shape: Shape) -> Expression:
    return Expression(None, (), name, kind, shape)


def apply(form: Form, operands: tuple[Expression, ...]) -> Expression | None:
    """The form on these operands; None where they do not fit."""
    if any(o.kind != k for o, k in zip(operands, form.kinds, strict=True)):
        return None
    shape = form.shape([o.shape for o in operands])
    if shape is None:
        return None
    if form.swaps and (operands[1].size, operands[1].text) < (operands[0].size, operands[0].text):
        operands = operands[::-1]
    return Expression(form, operands, form.text.format(*(o.text for o in operands)), form.gives, shape)


def walk(e: Expression) -> Iterator[Expression]:
    """The expression and its parts, the whole first, operands from the left."""
    yield e
    for o in e.operands:
        yield from walk(o)


def arguments(*sides: Expression) -> dict[str, Expression]:
    """Arguments by name, in the order in which they are first read."""
    return {e.text: e for side in sides for e in walk(side) if e.form is None}


def operators(*sides: Expression) -> set[str]:
    return {e.form.operator for side in sides for e in walk(side) if e.form is not None}


def ordered(*sides: Expression) -> dict[Expression, Expression]:
    """Arguments to those that take their places when names are given in the order of reading."""
    out: dict[Expression, Expression] = {}
    for a in arguments(*sides).values():
        taken = sum(b.kind == a.kind and b.shape == a.shape for b in out)
        out[a] = argument(NAMES[a.kind, a.shape][taken], a.kind, a.shape)
    return out


def substituted(e: Expression, values: Mapping[str, Expression]) -> Expression | None:
    """The expression with arguments replaced; None where it is not typed any more."""
    if e.form is None:
        return values.get(e.text, e)
    operands = []
    for o in e.operands:
        new = substituted(o, values)
        if new is None:
            return None
        operands.append(new)
    return apply(e.form, tuple(operands))


def bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


@cache
def kernel(form: Form) -> Body:
    """The form as a function of its operands."""
    names = tuple("abc"[: len(form.kinds)])
    return Body(form.text.format(*names), dict.fromkeys(names, "..."))


def evaluate(e: Expression, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The expression's value in eager, of arguments by name.  Raises what its operators raise."""
    if e.form is None:
        return values[e.text]
    out: torch.Tensor = kernel(e.form)(*(evaluate(o, values) for o in e.operands))
    return out
