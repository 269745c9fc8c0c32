"""What the models of the sorts share: the values that operators meet, and what a translation assumes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import z3

from fxmorph.prove.smt.scalars import Op, _argument_text
from fxmorph.prove.smt.sorts import FLOATS, Number, sort_of

Term = Any


class Unmodelled(Exception):
    """This model has no meaning for an operator with these arguments; it becomes uninterpreted."""


@dataclass(frozen=True)
class Operand:
    """An operand's term and dtype."""

    term: Any
    dtype: torch.dtype


@dataclass
class Context:
    """What a translation has made and assumed.

    ``needed`` are conditions under which the meanings hold at all, with the assumption that each is
    (``denom!=0``); ``facts`` hold of uninterpreted functions; ``choices`` counts fresh variables for what
    eager leaves open; ``ranges`` say that floats converted to integers fit; ``uninterpreted`` are the
    operators of which only congruence is known, so that a counterexample need not be one.
    """

    real: bool
    assumptions: set[str] = field(default_factory=set)
    needed: list[tuple[str, z3.BoolRef]] = field(default_factory=list)
    facts: list[z3.BoolRef] = field(default_factory=list)
    ranges: list[z3.BoolRef] = field(default_factory=list)
    choices: int = 0
    functions: dict[Any, z3.FuncDeclRef] = field(default_factory=dict)
    applied: dict[str, list[tuple[Term, Term]]] = field(default_factory=dict)
    uninterpreted: set[str] = field(default_factory=set)
    #: Numbers of the variables that are elements of arguments; the others stand for what both sides compute.
    inputs: frozenset[int] = frozenset()
    #: Which of the two expressions is being translated.
    side: str = "left"

    def choice(self, assumption: str) -> z3.BoolRef:
        """A fresh Boolean: what eager decides by lane or size."""
        self.assumptions.add(assumption)
        self.choices += 1
        return z3.Bool(f"choice_{self.choices}")

    def require(self, assumption: str, condition: z3.BoolRef) -> None:
        condition = z3.simplify(condition) if z3.is_expr(condition) else z3.BoolVal(condition)
        if not z3.is_true(condition):
            self.needed.append((assumption, condition))

    def fact(self, condition: z3.BoolRef) -> None:
        self.facts.append(condition)

    def function(self, name: str, dtype: torch.dtype, *terms: Term, key: object = (), assumption: str = "") -> Any:
        """An uninterpreted function of ``terms``, one for each name, ``key`` and sorts."""
        self.assumptions.add(assumption or f"UF:{name}")
        self.uninterpreted.add(name)
        result = sort_of(dtype, self.real)
        sorts = [t.sort() for t in terms]
        place = (name, key, dtype, tuple(map(str, sorts)))
        if place not in self.functions:
            plain = re.sub(r"\W", "_", name)
            self.functions[place] = z3.Function(f"uf_{plain}_{len(self.functions)}", *sorts, result)
        made = self.functions[place]
        return made(*terms) if terms else z3.Const(made.name(), result)

    def opaque(self, node: Op, operands: list[Operand]) -> Term:
        """``node`` as an uninterpreted function of its operands."""
        rows = () if node.arguments or node.name not in ("sum", "mean", "prod", "dot") else (self.side,)
        arguments = " ".join(f"{k}={_argument_text(v)}" for k, v in node.arguments)
        kinds = tuple(o.dtype for o in operands)
        # What a sum rounds to depends on its operands' layout, which only Op.arguments could tell.
        return self.function(node.name, node.dtype, *[o.term for o in operands], key=(arguments, kinds, rows))


#: A meaning: (context, node, operands, arguments with operands filled in) -> term.
Meaning = Callable[[Context, Op, list[Operand], dict[str, Any]], Any]


def number(value: Any) -> Number | None:
    """A Python number as it is; None for anything else."""
    return value if isinstance(value, (bool, int, float)) else None


def is_float(dtype: torch.dtype) -> bool:
    return dtype in FLOATS
