"""A finding in one row of a table: what people look for."""

from __future__ import annotations

from collections.abc import Mapping

from fxmorph.model import Finding, Kind, Recipe
from fxmorph.triage.folder.title import MOST_OPERATORS, PLAIN

HEADS = ("id", "what is wrong", "unit", "operators", "seed")
_WRONG: Mapping[Kind, str] = {
    Kind.VALUE: "wrong values",
    Kind.NONFINITE: "NaN or Inf",
    Kind.DTYPE: "dtype",
    Kind.SHAPE: "shape",
    Kind.STRUCTURE: "structure",
    Kind.STRIDE: "strides",
    Kind.OFFSET: "storage offset",
    Kind.DEVICE: "device",
    Kind.ALIAS: "shared memory",
    Kind.IDENTITY: "another object",
    Kind.MUTATION: "wrong write",
    Kind.GRADIENT: "wrong gradient",
    Kind.REQUIRES_GRAD: "requires_grad",
    Kind.RNG: "random numbers",
    Kind.RAISES: "raises",
    Kind.SECOND_CALL: "second call",
    Kind.OUT_OF_BOUNDS: "out of bounds",
    Kind.POISON: "unwritten memory",
    Kind.ORDER: "order of iterations",
    Kind.COMPILE_ERROR: "does not compile",
    Kind.CRASH: "crash",
    Kind.TIMEOUT: "does not end",
}


def finding_row(finding: Finding) -> tuple[str, ...]:
    """Cells under :data:`HEADS`."""
    rewrites = len(Recipe.parse(finding.recipe).rewrites)
    after = f" + {rewrites} rewrite{'s' if rewrites > 1 else ''}" if rewrites else ""
    wrong = ", ".join(_WRONG[kind] for kind in finding.kinds)
    return finding.id, wrong, _unit(finding), telling_operators(finding), finding.seed + after


def telling_operators(finding: Finding) -> str:
    """A few of those that show it, leaving out what every program calls."""
    names = list(dict.fromkeys(finding.operations))
    telling = [name for name in names if name not in PLAIN] or names
    return ", ".join(telling[:MOST_OPERATORS])


def _unit(finding: Finding) -> str:
    """The unit in short: of an entry of a pass its stage and name, of an operator no overload that says nothing."""
    entry = finding.unit.rpartition("/")[2]
    if entry != finding.unit:
        return f"{finding.unit.partition('.')[0]}: {entry}"
    return finding.unit.removesuffix(".default") or finding.stage
