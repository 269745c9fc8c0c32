"""Translation validation: a proof, or a refutation, that two graphs mean the same on inputs of these shapes.

Both graphs run in terms (``prove/terms/``) over a real run, in-place writes and views included.  What
their names do not show equal is taken apart (``descent.py``) down to scalar claims about what was
rewritten, with what both graphs compute cut off as unknown values; the claims go to exhaustion and
to the solver, the rest to the finite field.  A claim that eager contradicts is never proved: then
fxmorph's model is wrong, and the outcome is UNKNOWN.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.model import Kind, Level, Status, ValuePlan
from fxmorph.programs.inputs import InputSet, Unsupported, flat_storage
from fxmorph.programs.interpreter import program
from fxmorph.prove.prover import RUN_BUDGET, Prover, Shown, together, weakest
from fxmorph.prove.shadow_memory import Memory, NotModelled, Shadowing, Unread
from fxmorph.prove.smt.scalars import walk
from fxmorph.prove.smt.screening import MAX_ROUNDED_TERMS, rounding_terms
from fxmorph.prove.terms.descent import Pairs, descend
from fxmorph.prove.terms.execution import Terms
from fxmorph.prove.terms.unfolding import Difference, obligations
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.storages import storage_key

#: More scalar claims than these are not tried one by one.
MAX_CLAIMS = 64
#: Nodes of a claim, and leaves of its expressions, beyond which no solver is asked.
MAX_CLAIM_NODES, MAX_LEAVES = 80, 120
#: Elements of inputs and outputs beyond which the finite field is not asked.
MAX_FIELD_ELEMENTS = 200_000
#: Preconditions that a pass may not make of the values that programs compute.
INADMISSIBLE = frozenset({"nonneg", "nonzero"})
_VALUES = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.RAISES})


class Outcome(StrEnum):
    """What a validation ends in.  Only PROVED is a success, and only REFUTED accuses."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Validation:
    """``level``, ``method`` and ``assumptions`` are those of a :class:`~fxmorph.model.Proof`.

    ``reason`` says why nothing was shown, for UNSUPPORTED with the operator; ``counterexample`` what eager
    gave for both graphs, always for REFUTED, and where bits differ under no precondition's roof.
    """

    outcome: Outcome
    level: Level
    method: str = "FALSIFY-ONLY"
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    counterexample: str = ""
    seconds: float = 0.0


def validate(
    before: fx.GraphModule,
    after: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    judged: PairVerdict | None = None,
    prover: Prover | None = None,
) -> Validation:
    """How strongly ``after`` is shown to mean what ``before`` means, for inputs of these shapes and any values.

    ``judged``: what :func:`~fxmorph.inductor.pairs.judge_pair` said of the pair; a difference that it
    found refutes, and nothing stronger than it saw is claimed.  ``prover`` holds what scalar claims
    were proved before, and the budget of the solver.  Raises nothing for what the graphs do.
    """
    started = time.process_time()
    out = _Task(before, after, inputs, judged, prover or Prover(budget=RUN_BUDGET)).run()
    return replace(out, seconds=round(time.process_time() - started, 4))


def refuted(judged: PairVerdict, shown: Validation) -> PairVerdict:
    """The verdict on a pair, a finding too where eager differs on values of the solver's."""
    if shown.outcome is not Outcome.REFUTED or judged.status is Status.FINDING:
        return judged
    return replace(judged, status=Status.FINDING, kinds=(Kind.VALUE,), reason=shown.counterexample)


@dataclass
class _Names:
    """Both graphs in terms: pairs of names that must be equal, and names that both graphs compute."""

    terms: Terms
    pairs: list[Pairs]
    common: torch.Tensor
    noted: tuple[str, ...]
    lanes_differ: bool

    @property
    def equal(self) -> bool:
        return all(torch.equal(p.left, p.right) for p in self.pairs)

    @property
    def moved_only(self) -> bool:
        return all(self.terms.moved_only(p.left) and self.terms.moved_only(p.right) for p in self.pairs)

    def shown(self) -> Shown:
        """What equal names show."""
        if not self.terms.layouts:
            return Shown(Level.EXACT_REAL, "TERM", (*self.noted, "names-do-not-collide", "reduction-order-free"))
        if self.moved_only:
            return Shown(Level.INDEX_EXACT, "LABEL", self.noted)
        if self.lanes_differ:
            return Shown(Level.EXACT_REAL, "TERM", (*self.noted, "kernel-depends-on-lane"))
        return Shown(Level.BIT_EXACT, "TERM", (*self.noted, "names-do-not-collide", "nan-payload-ignored"))


class _Different(Exception):
    """The graphs return other numbers, shapes or dtypes of results."""


class _Task:
    def __init__(
        self,
        before: fx.GraphModule,
        after: fx.GraphModule,
        inputs: Sequence[Any],
        judged: PairVerdict | None,
        prover: Prover,
    ) -> None:
        self.graphs = (before, after)
        self.given, self.judged, self.prover = inputs, judged, prover
        self.best = Level.BIT_EXACT if judged is None or judged.best is Level.TESTED else judged.best
        self.unmodelled = ""
        self.device = next((v.device.type for v in inputs if isinstance(v, torch.Tensor)), "cpu")

    def run(self) -> Validation:
        judged = self.judged
        if judged is not None and judged.status is Status.FINDING and _VALUES & set(judged.kinds):
            return Validation(Outcome.REFUTED, Level.REFUTED, counterexample=judged.reason)
        if judged is not None and judged.status is Status.UNSUPPORTED:
            return Validation(Outcome.UNSUPPORTED, Level.UNKNOWN, reason=judged.reason)
        try:
            self.inputs = InputSet.snapshot(self.given)
            shown, refuted = self._shown()
        except _Different as error:
            return Validation(Outcome.REFUTED, Level.REFUTED, counterexample=str(error))
        except Unsupported as error:
            return Validation(Outcome.UNSUPPORTED, Level.UNKNOWN, reason=f"inputs: {error}")
        if refuted:
            return Validation(Outcome.REFUTED, Level.REFUTED, shown.method, counterexample=refuted)
        if shown.level in (Level.UNKNOWN, Level.TESTED):
            outcome = Outcome.UNSUPPORTED if self.unmodelled else Outcome.UNKNOWN
            return Validation(outcome, Level.UNKNOWN, reason=self.unmodelled or shown.reason)
        assumptions = tuple(sorted(set(shown.assumptions)))
        if shown.level.stronger(self.best) and not (self.best is Level.BIT_EXACT and shown.level is Level.INDEX_EXACT):
            if shown.method != "TERM":
                reason = f"{shown.method} shows {shown.level}, and eager {self.best}: the model is wrong"
                return Validation(Outcome.UNKNOWN, Level.UNKNOWN, shown.method, assumptions, reason)
            # One operator on one operand, in another lane of memory.
            level = self.best if self.best.bitwise else Level.EXACT_REAL
            return Validation(Outcome.PROVED, level, shown.method, (*assumptions, "kernel-depends-on-lane"))
        return Validation(Outcome.PROVED, shown.level, shown.method, assumptions)

    # -- the ladder ------------------------------------------------------------

    def _shown(self) -> tuple[Shown, str]:
        """The strongest that is shown, and what refutes it if anything."""
        shown = Shown(Level.UNKNOWN, "FALSIFY-ONLY")
        bits = list(self._runs(layouts=True))
        for names in bits:
            if names.equal:
                return names.shown(), ""
        for names in bits if self.best.stronger(Level.EXACT_REAL) else ():
            if names.lanes_differ:
                continue
            one, refuted = self._of_claims(names, self.best)
            if refuted or one.level.stronger(Level.EXACT_REAL):
                return one, refuted
            shown = one if not shown.level.stronger(one.level) else shown
        reals = list(self._runs(layouts=False))
        for names in reals:
            if names.equal:
                return names.shown(), ""
        if shown.level is Level.EXACT_REAL:
            return shown, ""
        shown = self._field(shown)
        for names in reals if shown.level is Level.UNKNOWN else ():
            one, refuted = self._of_claims(names, Level.EXACT_REAL)
            if refuted or one.level is not Level.UNKNOWN:
                self.unmodelled = ""
                return one, refuted
        return shown, ""

    def _runs(self, layouts: bool) -> Iterator[_Names]:
        """Both graphs in terms; where they have tensors of integers, also with those at their own values."""
        integers = any(_counts(v) for v in self.given)
        for known in (False, True) if integers else (False,):
            try:
                yield self._names(layouts, known)
            except NotModelled as error:
                self.unmodelled = str(error)

    def _of_claims(self, names: _Names, best: Level) -> tuple[Shown, str]:
        """What scalar claims show, small ones first, and what refutes them."""
        shown = Shown(Level.UNKNOWN, "FALSIFY-ONLY")
        for claims in (self._small_claims, self._cut_claims, self._large_claims):
            try:
                differences = claims(names)
            except NotModelled as error:
                shown = shown if shown.reason else replace(shown, reason=str(error))
                continue
            one, refuted = self._claims(differences, best, names.noted)
            if refuted:
                return one, refuted
            if not shown.level.stronger(one.level):
                shown = one
            if shown.level not in (Level.UNKNOWN, Level.UNDER_PRECONDITION):
                break
        return shown, ""

    def _small_claims(self, names: _Names) -> list[Difference]:
        return _claims_of(names.terms, descend(names.terms, names.pairs), names.common)

    def _cut_claims(self, names: _Names) -> list[Difference]:
        return _claims_of(names.terms, names.pairs, names.common)

    def _large_claims(self, names: _Names) -> list[Difference]:
        return _claims_of(names.terms, names.pairs, None)

    def _claims(self, differences: list[Difference], best: Level, noted: tuple[str, ...]) -> tuple[Shown, str]:
        if len(differences) > MAX_CLAIMS:
            return Shown(Level.UNKNOWN, "FALSIFY-ONLY", reason=f"{len(differences)} scalar claims"), ""
        parts: list[Shown] = []
        bits = best.stronger(Level.EXACT_REAL)
        for difference in differences:
            if _size(difference) > MAX_CLAIM_NODES:
                return Shown(Level.UNKNOWN, "FALSIFY-ONLY", reason="a scalar claim too large to solve"), ""
            if bits and rounding_terms(difference.obligation) > MAX_ROUNDED_TERMS:
                return Shown(Level.UNKNOWN, "FALSIFY-ONLY", reason="a sum whose roundings no solver follows"), ""
            part = self.prover.scalar(difference.obligation, best, self.device)
            parts.append(part)
            needed = INADMISSIBLE & set(part.assumptions)
            if needed or part.level in (Level.UNKNOWN, Level.TESTED):
                refuted = self._replayed(difference, part)
                reason = part.reason or "a scalar claim is not shown"
                reason = f"holds for {', '.join(sorted(needed))} values alone" if needed else reason
                return Shown(Level.UNKNOWN, part.method, reason=reason), refuted
        if not all(all(d.obligation.inputs) for d in differences):
            noted = (*noted, *(("of-intermediate-values",) if _conditional(parts) else ()))
        return together(parts, noted), ""

    def _replayed(self, difference: Difference, part: Shown) -> str:
        """What both graphs give for the solver's counterexample, where they differ by more than policy allows."""
        if not part.differs_for or any(o is None for o in difference.origins):
            return ""
        values = self.inputs.rebuild()
        for origin, value in zip(difference.origins, part.differs_for, strict=True):
            assert origin is not None
            flat_storage(values[int(origin[0].removeprefix("input"))])[origin[1]] = value
        verdict = judge_pair(*self.graphs, values, aliases=False, notes=False, plans=(ValuePlan.SEED,))
        return verdict.reason if verdict.status is Status.FINDING else ""

    # -- terms -----------------------------------------------------------------

    def _names(self, layouts: bool, known: bool) -> _Names:
        """Run both graphs; raises :class:`NotModelled` and :class:`_Different`."""
        terms = Terms(layouts, MAX_LEAVES)
        entered: dict[int, torch.Tensor] = {}
        sides: list[list[tuple[torch.Tensor, torch.dtype]]] = []
        plain: list[list[Any]] = []
        split = of_lanes = 0
        for gm in self.graphs:
            split, of_lanes = len(terms.entries), len(terms.lane_calls)
            results, other = self._side(gm, terms, entered, known)
            sides.append(results)
            plain.append(other)
        if len(sides[0]) != len(sides[1]) or len(plain[0]) != len(plain[1]):
            raise _Different("the graphs return other numbers of results")
        if any(a != b for a, b in zip(*plain, strict=True)):
            raise _Different(f"before gives {plain[0]}, after {plain[1]}")
        pairs = []
        for (a, d), (b, e) in zip(*sides, strict=True):
            if a.shape != b.shape or d != e:
                raise _Different(f"before gives {d} {tuple(a.shape)}, after {e} {tuple(b.shape)}")
            pairs.append(Pairs(a.reshape(-1), b.reshape(-1), d))
        noted = ("these-integers",) if known else ()
        return _Names(terms, pairs, _common(terms, split), noted, terms.lanes_differ(of_lanes))

    def _side(
        self, gm: fx.GraphModule, terms: Terms, entered: dict[int, torch.Tensor], known: bool
    ) -> tuple[list[tuple[torch.Tensor, torch.dtype]], list[Any]]:
        """Names of what one graph returns and leaves in its inputs' memory, and results that are no tensors."""
        memory = Memory(terms)
        args = self.inputs.rebuild()
        tensors = [(i, t) for i, t in enumerate(args) if isinstance(t, torch.Tensor)]
        met: set[int] = set()
        for i, t in tensors:
            if storage_key(t) in met or (known and _counts(t)):
                continue
            met.add(storage_key(t))
            if i not in entered:
                entered[i] = terms.input(f"input{i}", flat_storage(t).numel(), t.dtype)
            memory.whole(t, entered[i])
        try:
            with torch.no_grad(), Shadowing(memory), Unread():
                out = tree_leaves(program(gm, located=False)(*args))
        except NotModelled:
            raise
        except Exception as error:
            raise NotModelled(said(error)) from error
        results = [(memory.shadow(o.detach()).clone(), o.dtype) for o in out if isinstance(o, torch.Tensor)]
        results += [(memory.shadow(flat_storage(t)).clone(), t.dtype) for _, t in tensors]
        return results, [o for o in out if not isinstance(o, torch.Tensor)]

    # -- the field -------------------------------------------------------------

    def _field(self, shown: Shown) -> Shown:
        tensors = {f"input{i}": v for i, v in enumerate(self.inputs.rebuild()) if isinstance(v, torch.Tensor)}
        if sum(t.numel() for t in tensors.values()) > MAX_FIELD_ELEMENTS:
            return shown
        from fxmorph.prove.field.identity_testing import prove_field

        scalars = {f"input{i}": v for i, v in enumerate(self.given) if not isinstance(v, torch.Tensor)}
        sides = [_named(program(gm, located=False), len(self.given)) for gm in self.graphs]
        fielded = prove_field(sides[0], sides[1], tensors, scalars)
        if fielded.shown:
            self.unmodelled = ""
            method = f"PIT(trials={fielded.trials}, error<{fielded.error:.1g})"
            return Shown(Level.EXACT_REAL, method, fielded.assumptions)
        if fielded.equal is not None:
            self.unmodelled = ""
        return replace(shown, reason="; ".join(filter(None, (shown.reason, fielded.why_not))))


def _counts(value: Any) -> bool:
    """Whether it is a tensor of integers, which may be indices."""
    return isinstance(value, torch.Tensor) and not (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
    )


def _common(terms: Terms, split: int) -> torch.Tensor:
    """Names that entries before ``split`` and entries from there on both made."""
    sides = [[e.ids for e in part] for part in (terms.entries[:split], terms.entries[split:])]
    if not all(sides):
        return torch.empty(0, dtype=torch.int64)
    left, right = (torch.unique(torch.cat(ids)) for ids in sides)
    return left[torch.isin(left, right)]


def _claims_of(terms: Terms, pairs: list[Pairs], cut: torch.Tensor | None) -> list[Difference]:
    found: dict[str, Difference] = {}
    for p in pairs:
        for difference in obligations(terms, p.left, p.right, p.dtype, cut):
            found.setdefault(difference.obligation.hash, difference)
    return list(found.values())


def _size(difference: Difference) -> int:
    return sum(1 for side in (difference.obligation.left, difference.obligation.right) for _ in walk(side))


def _conditional(parts: Sequence[Shown]) -> bool:
    return weakest([p.level for p in parts]) is Level.UNDER_PRECONDITION


def _named(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function with parameters ``input0`` ... , as the field calls it."""

    def named(**given: Any) -> Any:
        return function(*(given[f"input{i}"] for i in range(count)))

    parameters = [inspect.Parameter(f"input{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(count)]
    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return named
