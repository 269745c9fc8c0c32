"""From a pair of expressions to a proposal: arguments as general as the operators allow, conditions, a name."""

from __future__ import annotations

from typing import Literal

from fxmorph.propose.proposal import Dtype, RuleProposal
from fxmorph.propose.synthesis.consequence import BITS, Equation
from fxmorph.propose.synthesis.form_operators import LAYOUT, REDUCTION, Shape
from fxmorph.propose.synthesis.forms import (
    MATRIX,
    PRODUCT,
    Expression,
    argument,
    arguments,
    bare,
    ordered,
    substituted,
    walk,
)

_GENERAL: tuple[Shape, ...] = (("...",), ("...", "n"), MATRIX)


def canonical(equation: Equation) -> Equation:
    """Arguments named in the order of reading, the smaller side first, one matrix being like another."""
    given = arguments(equation.left, equation.right).values()
    if {a.shape for a in given if a.kind == "f"} == {PRODUCT}:
        plain = {a.text: argument("xyz"[i], a.kind, MATRIX) for i, a in enumerate(given)}
        left, right = substituted(equation.left, plain), substituted(equation.right, plain)
        assert left is not None and right is not None
        equation = Equation(left, right, equation.strength, equation.assumes)
    both = [_renamed(equation.left, equation.right), _renamed(equation.right, equation.left)[::-1]]
    left, right = min(both, key=lambda pair: (pair[0].size, pair[0].text, pair[1].text))
    if (right.size, right.text) < (left.size, left.text):
        left, right = right, left
    return Equation(left, right, equation.strength, equation.assumes)


def _renamed(first: Expression, second: Expression) -> tuple[Expression, Expression]:
    names = {a.text: new for a, new in ordered(first, second).items()}
    made = substituted(first, names), substituted(second, names)
    assert made[0] is not None and made[1] is not None
    return made[0], made[1]


def generalised(equation: Equation) -> Equation:
    """The same over arguments with as few named dimensions as its operators need."""
    for shape in _GENERAL:
        given = {
            a.text: argument(a.text, a.kind, shape if a.shape == MATRIX else a.shape)
            for a in arguments(equation.left, equation.right).values()
        }
        left, right = substituted(equation.left, given), substituted(equation.right, given)
        if left is not None and right is not None and left.shape == right.shape:
            return Equation(left, right, equation.strength, equation.assumes)
    return equation


def directed(equation: Equation) -> tuple[Expression, Expression, Literal["op", "value"]]:
    """(before, after, site): from the smaller side to the larger, where that has the same arguments."""
    small, large = equation.left, equation.right
    if arguments(small).keys() != arguments(large).keys():
        return large, small, "op"
    if small.form is None:
        return small, large, "value"
    return small, large, "op"


def proposed(equation: Equation) -> RuleProposal:
    """The proposal that one side is the other; claim, dtypes and promises are what is hoped for."""
    before, after, site = directed(equation)
    given = arguments(before)
    bools = [n for n, a in given.items() if a.kind == "b"]
    mixed = 0 < len(bools) < len(given)
    dtypes: tuple[Dtype, ...] = ("float32", "float64", "float16", "bfloat16")
    return RuleProposal(
        name=named(equation),
        doc=f"Takes {bare(before.text)} as {bare(after.text)}.",
        aims=aim(equation),
        args={n: " ".join(a.shape) for n, a in given.items()},
        before=bare(before.text),
        after=bare(after.text),
        where=tuple(_conditions(given, bools if mixed else [])),
        dtypes=("bool",) if len(bools) == len(given) else dtypes,
        claim="BIT_EXACT" if equation.strength == BITS else "EXACT_REAL",
        preserves=("dtype", "mutation", "gradient"),
        site=site,
        mixed=mixed,
    )


def _conditions(given: dict[str, Expression], bools: list[str]) -> list[str]:
    """What the arguments' shapes and dtypes must be to each other."""
    out: list[str] = []
    first, *others = given.values()
    for other in others:
        if other.shape == first.shape:
            out.append(f"{first.text}.shape == {other.text}.shape")
        else:
            n = len(other.shape) - 1
            out.append(f"{first.text}.shape[:-{n}] == {other.text}.shape[:-{n}]")
    numbers = [n for n in given if n not in bools]
    if bools:
        out += [f"{n}.dtype == 'bool'" for n in bools]
        out += [f"{numbers[0]}.dtype != 'bool'"]
        out += [f"{n}.dtype == {numbers[0]}.dtype" for n in numbers[1:]]
    return out


def aim(equation: Equation) -> str:
    """The bug class that a rewrite is most likely to meet."""
    used = [e.form for side in (equation.left, equation.right) for e in walk(side) if e.form is not None]
    if any(f.operator in LAYOUT for f in used):
        return "ilp"
    return "kc" if any(f.operator in REDUCTION for f in used) else "ugo"


def named(equation: Equation) -> str:
    """A name that says the operators: ``synth_<before's>_is_<after's>``."""
    before, after, _ = directed(equation)
    words = ["_".join(e.form.operator for e in walk(s) if e.form is not None) or "x" for s in (before, after)]
    return f"synth_{words[0]}_is_{words[1]}"
