"""What scalar expressions over aten's operators mean in SMT.

Two modes.  *IEEE*: floats have the floating-point sort of their dtype, integers are bit-vectors; the
formulas are the CPU kernels' own.  *Real*: floats are real numbers.  An operator that a mode does not
model, or that ``conformance.py`` found to differ from eager, is an uninterpreted function: equal for
equal operands, and nothing else is known of it.

The approach is that of Alive-FP (Menendez, Nagarakatte and Gupta, SAS 2016) and LifeJacket (Noetzli
and Brown, 2016), with torch's kernels in place of LLVM's instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
import z3

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt import model_float, model_integer, model_real
from fxmorph.prove.smt.meaning import Context, Meaning, Operand, Unmodelled, is_float
from fxmorph.prove.smt.scalars import Const, Expression, Obligation, Op, Slot, Var, walk
from fxmorph.prove.smt.sorts import FLOATS, INTEGERS, float_value, real_value, sort_of

#: Says whether an operator on a dtype is not to be modelled at bit level.
Downgraded = Callable[[str, torch.dtype], bool]


def _never(operator: str, dtype: torch.dtype) -> bool:
    return False


@dataclass
class Claim:
    """An obligation in SMT: the terms of its sides and variables, and what was assumed in making them."""

    left: Any
    right: Any
    variables: tuple[Any, ...]
    context: Context
    #: Whether one side needs conditions that the other does not.
    lopsided: bool = False
    #: Uninterpreted functions that one side applies and the other does not.
    functions_apart: frozenset[str] = frozenset()


class Translation:
    """Expressions to terms, in one mode, under one context."""

    def __init__(
        self,
        variables: tuple[torch.dtype, ...],
        real: bool = False,
        downgraded: Downgraded = _never,
        simple: bool = False,
    ) -> None:
        self.context = Context(real)
        self.downgraded, self.simple = downgraded, simple and real
        try:
            self.variables = tuple(z3.Const(f"v{i}", sort_of(d, real)) for i, d in enumerate(variables))
        except KeyError as error:
            raise NotModelled(f"elements of {error}") from None

    def term(self, expression: Expression) -> Any:
        """The term of ``expression``; raises :class:`NotModelled` for dtypes and constants without a meaning."""
        done: dict[int, Any] = {}
        for node in walk(expression):
            if isinstance(node, Var):
                done[id(node)] = self.variables[node.number]
            elif isinstance(node, Const):
                done[id(node)] = self._constant(node)
            else:
                operands = [Operand(done[id(o)], o.dtype) for o in node.operands]
                done[id(node)] = self._applied(node, operands)
        return done[id(expression)]

    def _constant(self, node: Const) -> Any:
        if node.dtype == torch.bool:
            return z3.BoolVal(bool(node.value))
        if node.dtype in INTEGERS:
            return z3.BitVecVal(int(node.value), INTEGERS[node.dtype])
        if node.dtype not in FLOATS:
            raise NotModelled(f"elements of {node.dtype}")
        if not self.context.real:
            return float_value(float(node.value), node.dtype)
        try:
            return real_value(self._number(float(node.value), node.dtype))
        except (ValueError, OverflowError):
            raise NotModelled(f"{node.value} is not a real number") from None

    def _number(self, value: float, dtype: torch.dtype) -> float | Fraction:
        """A constant, or the simple fraction that it was rounded from."""
        if not self.simple or not math.isfinite(value):
            return value
        fraction = simplest(value, dtype)
        if fraction != Fraction(value):
            self.context.assumptions.add("constants-rounded")
        return fraction

    def _applied(self, node: Op, operands: list[Operand]) -> Any:
        if node.dtype not in FLOATS and node.dtype not in INTEGERS and node.dtype != torch.bool:
            raise NotModelled(f"elements of {node.dtype}")
        try:
            return self._modelled(node, operands)
        except (Unmodelled, KeyError, OverflowError, z3.Z3Exception):
            # Arguments that the meaning does not expect: nothing is claimed of them either.
            return self.context.opaque(node, operands)

    def _modelled(self, node: Op, operands: list[Operand]) -> Any:
        ctx = self.context
        kind = operands[0].dtype if operands else node.dtype
        if not ctx.real and self.downgraded(node.name, kind):
            raise Unmodelled("differs from eager")
        if any(isinstance(v, Slot) and v.scalar for _, v in node.arguments):
            raise Unmodelled("a 0-dim operand of another dtype")
        if node.name == "cast":
            return self.cast(operands[0], node.dtype)
        if node.name in _LOGICAL:
            return _LOGICAL[node.name](*[self.cast(o, torch.bool) for o in operands])
        given = {k: operands[v.number] if isinstance(v, Slot) else v for k, v in node.arguments}
        if self.simple:
            given = {k: self._number(v, torch.float64) if isinstance(v, float) else v for k, v in given.items()}
        if node.name == "where":
            return self._where(node, given)
        if node.name in _ROWS and "self" not in given:
            given["self"] = operands
        meaning, used = self._meaning(node, operands)
        if used is not operands:
            given |= {k: used[v.number] for k, v in node.arguments if isinstance(v, Slot)}
        return meaning(ctx, node, used, given)

    def _meaning(self, node: Op, operands: list[Operand]) -> tuple[Meaning, list[Operand]]:
        """The meaning for the sort that an operator computes in, and its operands in that sort."""
        floating = is_float(node.dtype) or any(is_float(o.dtype) for o in operands)
        if not floating and operands and all(o.dtype == torch.bool for o in operands) and node.dtype == torch.bool:
            table = model_integer.BOOLEAN
        elif not floating:
            table = model_integer.MEANINGS
            if node.dtype == torch.bool and any(o.dtype == torch.bool for o in operands):
                raise Unmodelled("Booleans among integers")
        elif self.context.real:
            table = model_real.MEANINGS
        else:
            table = model_float.MEANINGS
            if is_float(node.dtype) and any(not is_float(o.dtype) for o in operands):
                operands = [Operand(self.cast(o, node.dtype), node.dtype) for o in operands]
        if node.name not in table:
            raise Unmodelled(node.name)
        return table[node.name], operands

    def cast(self, x: Operand, dtype: torch.dtype) -> Any:
        """``x`` converted to ``dtype`` as ``Tensor.to`` does."""
        if x.dtype == dtype:
            return x.term
        if not is_float(x.dtype) and not is_float(dtype):
            return model_integer.convert(x.term, x.dtype, dtype)
        if self.context.real:
            return model_real.cast(self.context, x, dtype)
        return (model_float if is_float(x.dtype) else model_integer).cast(self.context, x, dtype)

    def _where(self, node: Op, given: dict[str, Any]) -> Any:
        condition = given["condition"]
        sides = []
        for key in ("self", "other"):
            side = given[key]
            sides.append(self.cast(side, node.dtype) if isinstance(side, Operand) else self._scalar(side, node.dtype))
        return z3.If(self.cast(condition, torch.bool), *sides)

    def _scalar(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, Fraction):
            return real_value(value)
        if not isinstance(value, (bool, int, float)):
            raise Unmodelled(f"argument {value!r}")
        return self._constant(Const(float(value) if is_float(dtype) else value, dtype))


_ROWS = frozenset("sum mean prod amax amin dot".split())
_LOGICAL: dict[str, Callable[..., Any]] = {
    "logical_and": z3.And,
    "logical_or": z3.Or,
    "logical_xor": z3.Xor,
    "logical_not": z3.Not,
    "any": z3.Or,
    "all": z3.And,
}


def simplest(value: float, dtype: torch.dtype) -> Fraction:
    """The fraction of least denominator, to 1000, that ``value`` is the rounding of; ``value`` where there is none."""
    for bound in (1, 10, 100, 1000):
        fraction = Fraction(value).limit_denominator(bound)
        if float(torch.tensor(float(fraction), dtype=dtype)) == value:
            return fraction
    return Fraction(value)


def translate(
    obligation: Obligation, real: bool = False, downgraded: Downgraded = _never, simple: bool = False
) -> Claim:
    """Both sides of an obligation; raises :class:`NotModelled` where a dtype or constant has no meaning.

    ``simple``: over the reals, a constant that a simple fraction rounds to (0.1, 1/3) is that fraction.
    """
    translation = Translation(obligation.variables, real, downgraded, simple)
    ctx = translation.context
    ctx.inputs = frozenset(i for i, given in enumerate(obligation.inputs) if given)
    left = translation.term(obligation.left)
    before = [c for _, c in ctx.needed]
    ctx.side = "right"
    right = translation.term(obligation.right)
    after = [c for _, c in ctx.needed[len(before) :]]
    lopsided = {c.sexpr() for c in before} != {c.sexpr() for c in after}
    apart = _functions(left) ^ _functions(right)
    return Claim(left, right, translation.variables, ctx, lopsided, apart)


def _functions(term: Any) -> frozenset[str]:
    """Uninterpreted functions (not constants) in a term."""
    seen: set[int] = set()
    found: set[str] = set()
    stack = [term]
    while stack:
        node = stack.pop()
        if node.get_id() not in seen:
            seen.add(node.get_id())
            stack += node.children()
            if node.num_args() and node.decl().kind() == z3.Z3_OP_UNINTERPRETED:
                found.add(node.decl().name())
    return frozenset(f for f in found if not f.startswith("uf_out_of_range"))


def models(operator: str, dtype: torch.dtype) -> bool:
    """Whether an operator on a dtype has an IEEE or integer meaning (of some arguments)."""
    if operator in _LOGICAL or operator in ("cast", "where"):
        return True
    if dtype == torch.bool:
        return operator in model_integer.BOOLEAN
    return operator in (model_float.MEANINGS if is_float(dtype) else model_integer.MEANINGS)
