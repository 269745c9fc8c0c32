"""Wrong rules made of right ones: what the prover must not prove.

A mutant is a rule with a change of its text (a constant, a dtype, a dimension, a comparison, an operator, a
condition), or with a pair of functions around its two sides that are alike for ordinary arguments and not for all.
Whether a mutant is wrong is not known here: most are, and ``refutation.py`` looks for arguments that show it.
Mutation analysis is of DeMillo, Lipton and Sayward, "Hints on test data selection", Computer 1978.
"""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import FunctionType
from typing import Any

from fxmorph.prove.fuzz.edits import edits
from fxmorph.prove.fuzz.twins import TWINS, Twin
from fxmorph.rules import Rule


class Family(StrEnum):
    """In what a mutant is wrong: each is a kind of hole that a prover may have."""

    EDIT = "edit"  #: one place of a side's text: a number, a name, an operator, a comparison
    CONDITION = "condition"  #: a condition of the rule is left out
    INTEGERS = "integers"  #: integers that wrap, narrowing casts, shifts, divisions of negative numbers
    BRANCH = "branch"  #: a parameter by which a function chooses its branch
    CONSTANT = "constant"  #: a rounded constant
    LANE = "lane"  #: a kernel called on another layout, whose bits may differ
    MIXED = "mixed"  #: integer arguments beyond 0 and 1
    OFFSET = "offset"  #: where a tensor begins in its memory, and how it lies there
    ALIAS = "alias"  #: an argument that is used as scratch, and may be another argument
    TEXT = "text"  #: the text or the type of a size is asked for
    SIZE = "size"  #: wrong from a size on, or for one size
    TIE = "tie"  #: ``>`` for ``>=`` where equality is met by few numbers
    GUARD = "guard"  #: NaN or infinities that are replaced


#: How often a family is drawn.  Of edits and conditions many leave a rule right.
_WEIGHTS = {family: 4.0 if family is Family.EDIT else 1.0 for family in Family} | {Family.CONDITION: 0.3}


@dataclass(frozen=True)
class Mutant:
    """A rule that may be wrong; ``what`` was changed."""

    rule: Rule
    family: Family
    what: str

    @property
    def text(self) -> str:
        """Both sides as Python."""
        return "\n".join(ast.unparse(_tree(side)) for side in (self.rule.before, self.rule.after))


def mutant(rule: Rule, dtype: str, rng: random.Random, family: Family | None = None) -> Mutant | None:
    """A mutant of a rule for a dtype, of a family if one is given; None where the draw does not fit the rule."""
    rule = rule if rule.mixed else replace(rule, dtypes=(dtype,))
    drawn = family or rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))[0]
    if drawn is Family.EDIT:
        return _edited(rule, rng)
    if drawn is Family.CONDITION:
        return _unconditional(rule, rng)
    fitting = [t for t in TWINS if t.family == drawn and t.fits(rule)]
    return _beside(rule, rng.choice(fitting), rng) if fitting else None


def _edited(rule: Rule, rng: random.Random) -> Mutant | None:
    tree = _tree(rule.after)
    if tree is None:
        return None
    changes = list(edits(tree, rng))
    if not changes:
        return None
    what, changed = rng.choice(changes)
    after = _compiled(changed, rule.after)
    return None if after is None else Mutant(_made(rule, rng, after=after), Family.EDIT, what)


def _unconditional(rule: Rule, rng: random.Random) -> Mutant | None:
    """Without one of its conditions."""
    if not rule.where:
        return None
    dropped = rng.choice(rule.where)
    made = _made(rule, rng, where=tuple(text for text in rule.where if text != dropped))
    return Mutant(made, Family.CONDITION, f"without {dropped}")


def _beside(rule: Rule, twin: Twin, rng: random.Random) -> Mutant | None:
    values = twin.drawn(rng)
    left, right = twin.left.format(**values), twin.right.format(**values)
    if twin.either_way and rng.random() < 0.5:
        left, right = right, left
    before, after = (_around(side, text, twin, rule) for side, text in ((rule.before, left), (rule.after, right)))
    if before is None or after is None:
        return None
    return Mutant(_made(rule, rng, before=before, after=after), Family(twin.family), f"{left} -> {right}")


def _around(side: Callable[..., Any], text: str, twin: Twin, rule: Rule) -> Callable[..., Any] | None:
    """The side with a function around its result ``t``, or around the arguments before it runs."""
    tree = _tree(side)
    if tree is None:
        return None
    names = [a.arg for a in tree.args.args]
    tensors = [n for n in names if n in rule.args]
    if not tensors or (twin.arguments and len(tensors) < twin.arguments):
        return None
    inner = ast.unparse(tree).replace(f"def {tree.name}(", "def side(", 1)
    given = text.replace("$0", tensors[0]).replace("$1", tensors[-1]).replace("$call", f"side({', '.join(names)})")
    lines = [f"def {tree.name}({', '.join(names)}):", textwrap.indent(inner, "    "), textwrap.indent(given, "    ")]
    return _compiled(ast.parse("\n".join(lines)).body[0], side)


def _made(rule: Rule, rng: random.Random, **changed: Any) -> Rule:
    """The rule with a name that no other mutant has; it promises values alone, which is what is to be proved."""
    kept = rule.preserves & {"dtype", "mutation"}
    return replace(rule, id=f"{rule.id}__{rng.getrandbits(40):010x}", preserves=kept, **changed)


def _tree(function: Any) -> Any:
    """The function's definition as a tree; None of one that has no text, or variables of a function around it."""
    kept = getattr(function, "tree", None)
    if kept is not None:
        return kept
    if not isinstance(function, FunctionType) or function.__closure__:
        return None
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    found = [node for node in parsed.body if isinstance(node, ast.FunctionDef)]
    return found[0] if len(found) == 1 and not found[0].decorator_list else None


def _compiled(tree: Any, like: FunctionType | Callable[..., Any]) -> Callable[..., Any] | None:
    """The function of a tree, among the names of the function that it is made of."""
    module = ast.fix_missing_locations(ast.Module([tree], []))
    made: dict[str, Any] = {}
    try:
        exec(compile(module, "<mutant>", "exec"), getattr(like, "__globals__"), made)  # noqa: B009
    except (SyntaxError, ValueError):
        return None
    function: Any = made[tree.name]
    function.tree = tree
    return function  # type: ignore[no-any-return]


def draws(rules: Sequence[Rule], seed: int) -> Iterator[tuple[Rule, str, int]]:
    """Endless: a rule, a dtype and the number of a draw, each rule as often as any other, the same for one seed."""
    rng = random.Random(seed)
    number = 0
    while rules:
        for rule in rng.sample(rules, len(rules)):
            yield rule, rng.choice(rule.dtypes), number
            number += 1


__all__ = ["Family", "Mutant", "draws", "mutant"]
