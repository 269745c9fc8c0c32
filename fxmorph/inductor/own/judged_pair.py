"""One pair of graphs, judged and validated, for the tests of authors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.own.tolerance import within
from fxmorph.inductor.pairs import judge_pair
from fxmorph.inductor.validation import refuted, validate
from fxmorph.model import Kind, Level, Status
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.decompose import traced_to_aten

#: What a legal replacement keeps, by what is wrong where it does not.
INVARIANTS = {
    Kind.VALUE: "same values", Kind.NONFINITE: "same values", Kind.DTYPE: "same dtypes", Kind.SHAPE: "same shapes",
    Kind.MUTATION: "same writes into inputs", Kind.ALIAS: "no new sharing of memory",
    Kind.IDENTITY: "no new sharing of memory", Kind.RAISES: "runs where it ran", Kind.STRUCTURE: "as many results",
}  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What is to be said of a pair: ``ok`` where nothing speaks against it.

    ``status``, ``kinds`` and ``reason`` are of the judgement on values, ``broken`` the invariants that do not hold;
    ``outcome`` is ``proved``, ``refuted``, ``unknown`` or ``unsupported``, "" where no proof was tried, ``level``,
    ``method`` and ``counterexample`` are the proof's.
    """

    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    broken: tuple[str, ...] = ()
    outcome: str = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    counterexample: str = ""

    @property
    def ok(self) -> bool:
        return self.status is not Status.FINDING


def judged(
    before: Any, after: Any, inputs: Sequence[Any], *, prove: bool, aliases: bool, notes: bool, rtol: float
) -> Judged:
    """See :func:`fxmorph.testing.judge_pair`."""
    given = InputSet.snapshot(inputs)
    old, new = (_as_module(side, given) for side in (before, after))
    verdict = judge_pair(old, new, given.rebuild(), aliases=aliases, identity=False, notes=notes)
    shown = validate(old, new, given.rebuild(), judged=verdict) if prove else None
    verdict = verdict if shown is None else refuted(verdict, shown)
    status, kinds = verdict.status, verdict.kinds
    if rtol and kinds == (Kind.VALUE,) and within(old, new, given, rtol):
        status, kinds = Status.EXPECTED, ()
    broken = tuple(dict.fromkeys(INVARIANTS.get(kind, kind.value) for kind in kinds))
    if shown is None:
        return Judged(status, kinds, verdict.reason, broken)
    return Judged(
        status, kinds, verdict.reason, broken, shown.outcome.value, shown.level, shown.method, shown.counterexample
    )


def _as_module(side: Any, given: InputSet) -> fx.GraphModule:
    if isinstance(side, fx.GraphModule):
        return side
    with torch.no_grad():
        return traced_to_aten(side, given.rebuild())
