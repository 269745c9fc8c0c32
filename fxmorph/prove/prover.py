"""Proving that both sides of a rule mean the same for given arguments, cheapest evidence first.

1. Eager tries to refute it (``falsify.py``); what it finds is a counterexample, what it does not find
   bounds what is worth proving.
2. Term execution (``terms/``): equal names are equal bits.
3. What names leave over, as scalar claims: all values of 8 and 16 bits (``exhaustion.py``), then an
   SMT solver (``solver.py``), which also finds the precondition under which they hold.
4. Over the reals: term execution that does not look at memory layout, a finite field
   (``field/``), the solver.

UNKNOWN is what is left when nothing showed anything; it is no success.  Where eager contradicts what
was shown, the result is UNKNOWN and says so: then fxmorph's model is wrong.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from fxmorph.model import Level, Proof
from fxmorph.programs.subnormals import subnormals_kept
from fxmorph.prove.certificates import (
    Asked,
    Certificate,
    Certificates,
    ProofCode,
    instance_key,
    instance_text,
    key_of,
    versions,
)
from fxmorph.prove.falsify import (
    Contradiction,
    Counterexample,
    Falsified,
    apart_in_reals,
    contradiction,
    drawn,
    falsify,
)
from fxmorph.prove.shadow_memory import Memory, NotModelled, Shadowing, Unread
from fxmorph.prove.smt.exhaustion import Exhausted, exhaust
from fxmorph.prove.smt.scalars import Obligation
from fxmorph.prove.smt.screening import MAX_ROUNDED_TERMS, differing, one_sided_cuts, ordinary, rounding_terms
from fxmorph.prove.terms.execution import Terms
from fxmorph.prove.terms.unfolding import Difference, obligations
from fxmorph.rewriting.instances import Instance, broken
from fxmorph.rewriting.sides import AfterRaises, BeforeRaises

#: z3's resource units for one query; about a second where it is not solved before.
BUDGET = 3_000_000
#: The same within a campaign, where a rewrite that is only tested is used too.
RUN_BUDGET = 300_000
#: Values that a scalar claim is tried on when they are all there are: one of 16 bits, or two of 8.
MAX_COMBINATIONS = 1 << 17
#: More scalar claims than these are not tried one by one.
MAX_OBLIGATIONS = 24


#: Strongest first.
def weakest(levels: Sequence[Level]) -> Level:
    return max(levels, key=list(Level).index, default=Level.INDEX_EXACT)


@dataclass(frozen=True)
class Shown:
    """A result on the way to a proof; ``counterexample`` where it is REFUTED."""

    level: Level
    method: str
    assumptions: tuple[str, ...] = ()
    obligations: tuple[str, ...] = ()
    reason: str = ""
    #: Values of an obligation's variables on which its sides differ in bits, in the solver's model.
    differs_for: tuple[float, ...] = ()
    code: ProofCode = ProofCode.PLAIN
    counterexample: Counterexample | None = None


@dataclass
class _Run:
    """Both sides in terms: pairs of names (and the dtype of what they name) that must be equal."""

    terms: Terms
    pairs: list[tuple[torch.Tensor, torch.Tensor, torch.dtype]]
    lanes_differ: bool = False

    @property
    def equal(self) -> bool:
        return all(torch.equal(a, b) for a, b, _ in self.pairs)

    @property
    def moved_only(self) -> bool:
        return all(self.terms.moved_only(a) and self.terms.moved_only(b) for a, b, _ in self.pairs)

    def differences(self) -> list[Difference]:
        return [d for a, b, dtype in self.pairs if not torch.equal(a, b) for d in obligations(self.terms, a, b, dtype)]


class Prover:
    """Proves instances; ``certificates`` holds what is known already, ``budget`` limits each query to the solver.

    ``draw``: which names terms have, and which random elements a field gives.
    """

    def __init__(self, certificates: Certificates | None = None, budget: int = BUDGET, draw: int = 0) -> None:
        self.certificates = certificates or Certificates()
        self.budget, self.draw = budget, draw

    def prove(self, instance: Instance) -> Certificate:
        """The certificate of a rule for these arguments; never raises for what cannot be shown."""
        return self.proved(instance)[0]

    def proved(self, instance: Instance) -> tuple[Certificate, bool]:
        """The certificate, and whether it was there already."""
        key = instance_key(instance, self.budget)
        found = self.certificates.get(key)
        if found is not None:
            return found, True
        started = time.process_time()
        with subnormals_kept():
            made = self._prove(drawn(instance), key)
        made = replace(made, seconds=round(time.process_time() - started, 4))
        self.certificates.put(made)
        return made, False

    def _prove(self, instance: Instance, key: str) -> Certificate:
        def certificate(shown: Shown) -> Certificate:
            proof = Proof(shown.level, "one shape", shown.method, tuple(sorted(set(shown.assumptions))))
            found = shown.counterexample
            return Certificate(
                key, instance_text(instance), proof, shown.obligations, str(found or ""), shown.reason, (), versions(),
                code=shown.code, contradicts=Contradiction.NONE if found is None else found.code,
            )  # fmt: skip

        try:
            falsified = falsify(instance if _harmless(instance) else instance.on("cpu"))
        except BeforeRaises as error:
            text = f"does not run: {error}"
            return certificate(Shown(Level.UNKNOWN, "FALSIFY-ONLY", reason=text, code=ProofCode.DOES_NOT_RUN))
        except AfterRaises as error:
            text = f"the replacement raises {error}"
            return certificate(Shown(Level.UNKNOWN, "FALSIFY-ONLY", reason=text, code=ProofCode.AFTER_RAISES))
        if falsified.counterexample is not None:
            reason = f"holds as {falsified.best}" if falsified.best.bitwise else ""
            wrong = falsified.counterexample
            return certificate(
                Shown(Level.REFUTED, "FALSIFY-ONLY", falsified.assumptions, reason=reason, counterexample=wrong)
            )
        if instance.rule.site == "late" and "mutation" not in instance.rule.preserves:
            return certificate(Shown(Level.INDEX_EXACT, "LABEL", ("dead-memory",)))
        shown = self._bits(instance, falsified)
        if shown is not None and shown.level is Level.REFUTED:
            return certificate(shown)
        if shown is None or not shown.level.stronger(Level.EXACT_REAL):
            reals = self._reals(instance, shown)
            shown = reals if shown is None or reals.level.stronger(shown.level) else shown
        if shown.level is Level.EXACT_REAL and not shown.obligations:
            apart = apart_in_reals(instance.on("cpu"))
            if apart is not None:
                reason = f"{shown.method} shows {shown.level}, and eager that {apart}"
                return certificate(
                    Shown(Level.UNKNOWN, shown.method, shown.assumptions, reason=reason, code=ProofCode.MODEL_WRONG)
                )
        # INDEX_EXACT and BIT_EXACT are the same to eager.
        alike = falsified.best is Level.BIT_EXACT and shown.level is Level.INDEX_EXACT
        if shown.level.stronger(falsified.best) and not alike:
            reason = f"{shown.method} shows {shown.level}, and eager {falsified.best}: the model is wrong"
            return certificate(
                Shown(Level.UNKNOWN, shown.method, shown.assumptions, shown.obligations, reason,
                      code=ProofCode.MODEL_WRONG)
            )  # fmt: skip
        assumed = tuple(instance.rule.assumes)
        return certificate(replace(shown, assumptions=(*shown.assumptions, *assumed)))

    # -- bits ------------------------------------------------------------------

    def _bits(self, instance: Instance, falsified: Falsified) -> Shown | None:
        """What is shown of bits; None where nothing is."""
        try:
            run = in_terms(instance.on("cpu"), True, self.draw)
        except NotModelled:
            return None
        noted = _noted(instance)
        if run.lanes_differ:
            return Shown(Level.EXACT_REAL, "TERM", (*noted, "kernel-depends-on-lane")) if run.equal else None
        if run.equal:
            if run.moved_only:
                return Shown(Level.INDEX_EXACT, "LABEL", noted)
            assumed = (*noted, "names-do-not-collide", "nan-payload-ignored")
            return _as_eager(Shown(Level.BIT_EXACT, "TERM", assumed), falsified)
        if not falsified.best.stronger(Level.EXACT_REAL):
            return None
        try:
            differences = run.differences()
        except NotModelled:
            return None
        if len(differences) > MAX_OBLIGATIONS or any(_hopeless(d.obligation) for d in differences):
            return None
        parts = []
        for d in differences:
            part = self.scalar(d.obligation, falsified.best, instance.device)
            wrong = _replayed(instance, d, part)
            if wrong is not None:
                return Shown(Level.REFUTED, part.method, (), part.obligations, counterexample=wrong)
            if part.level is Level.UNKNOWN:
                return None
            parts.append(part)
        return together(parts, noted)

    def scalar(self, obligation: Obligation, best: Level, device: str = "cpu") -> Shown:
        """A scalar claim on ``device``, as strongly as it can be shown and eager has not refuted (``best``)."""
        key = key_of("obligation", obligation.text, obligation.inputs, str(best), self.budget, device)
        found = self.certificates.get(key)
        if found is None:
            found = self._scalar(obligation, best, key, device)
            self.certificates.put(found)
        proof = found.proof
        differs_for = tuple(json.loads(found.counterexample)) if found.counterexample else ()
        return Shown(proof.level, proof.method, proof.assumptions, (key,), found.reason, differs_for)

    def _scalar(self, obligation: Obligation, best: Level, key: str, device: str) -> Certificate:
        # z3 takes a third of a second to load, and most instances need no solver.
        try:
            from fxmorph.prove.smt.conformance import pinned
            from fxmorph.prove.smt.solver import LEVELS, replay, solve
        except ImportError as error:
            unasked = Proof(Level.UNKNOWN, "all values", "FALSIFY-ONLY")
            return Certificate(key, obligation.text, unasked, reason=f"no solver: {error}", versions=versions())

        started = time.process_time()
        queries: tuple[Asked, ...] = ()
        reason = counterexample = ""
        exhausted = _exhausted(obligation, device) if best.stronger(Level.EXACT_REAL) else None
        if exhausted is not None and exhausted.level.stronger(Level.EXACT_REAL):
            proof = Proof(exhausted.level, "all values", "EXHAUSTIVE", exhausted.assumptions)
        else:
            apart = _differing(obligation)
            everyday = [values for values in apart if ordinary(values)]
            # No precondition that may be found excludes these, and so no level of bits: unless in zero's sign alone.
            beyond = any(replay(obligation, values, modulo_zero_sign=True) for values in everyday)
            worth = [Level.EXACT_REAL]
            if best.stronger(Level.EXACT_REAL) and not beyond:
                worth = [v for v in LEVELS if not v.stronger(best) and not (everyday and v is Level.BIT_EXACT)]
            solved = solve(obligation, rlimit=self.budget, want=worth, falsified=apart, device=device)
            unpinned = ("release-not-compared",) if solved.method.startswith("Z3-") and not pinned(device) else ()
            proof = Proof(solved.level, "all values", solved.method, (*solved.assumptions, *unpinned))
            queries = tuple(Asked(q.mode, q.result, q.rlimit, q.smt) for q in solved.queries)
            reason = solved.reason
            found = [*apart, *([solved.counterexample] if solved.counterexample is not None else [])]
            # What eager was tried on may be excused by a precondition; where none was found, the solver's is not.
            example = next(iter(found[::-1] if solved.level is Level.UNKNOWN else found), None)
            if example is not None and solved.conclusive:
                counterexample = json.dumps([float(v) if isinstance(v, float) else int(v) for v in example])
        seconds = round(time.process_time() - started, 4)
        return Certificate(key, obligation.text, proof, (), counterexample, reason, queries, versions(), seconds)

    # -- reals -----------------------------------------------------------------

    def _reals(self, instance: Instance, bits: Shown | None) -> Shown:
        noted = _noted(instance)
        run: _Run | None = None
        try:
            run = in_terms(instance.on("cpu"), False, self.draw)
            if run.equal:
                return Shown(Level.EXACT_REAL, "TERM", (*noted, "names-do-not-collide", "reduction-order-free"))
        except NotModelled:
            pass
        if bits is not None and bits.level is Level.EXACT_REAL:
            return bits
        from fxmorph.prove.field.identity_testing import prove_field

        rule = instance.rule
        tensors = instance.on("cpu").tensors
        fielded = prove_field(rule.before, rule.after, tensors, instance.scalars, seed=self.draw)
        if fielded.shown:
            method = f"PIT(trials={fielded.trials}, error<{fielded.error:.1g})"
            return Shown(Level.EXACT_REAL, method, (*noted, *fielded.assumptions))
        reason = fielded.why_not
        unknown = Shown(
            Level.UNKNOWN,
            "FALSIFY-ONLY",
            reason=reason,
            code=ProofCode.INTEGERS_WRAP if fielded.wraps else ProofCode.PLAIN,
        )
        if run is None:
            return unknown
        try:
            differences = run.differences()
        except NotModelled as error:
            return replace(unknown, reason=f"{reason}; {error}")
        if len(differences) > MAX_OBLIGATIONS:
            return replace(unknown, reason=f"{reason}; {len(differences)} scalar claims")
        parts = []
        for d in differences:
            parts.append(self.scalar(d.obligation, Level.EXACT_REAL, instance.device))
            if parts[-1].level in (Level.UNKNOWN, Level.TESTED):
                return replace(unknown, reason=f"{reason}; {parts[-1].reason}")
        return together(parts, noted)


def _harmless(instance: Instance) -> bool:
    """Whether values drawn for it may be run on its device: a wrong index breaks a GPU for good."""
    known = instance.known()
    kept = all(n in known or t.is_floating_point() or t.dtype == torch.bool for n, t in instance.tensors.items())
    return kept or instance.device == "cpu"


def _noted(instance: Instance) -> tuple[str, ...]:
    return ("these-integers",) if instance.known() else ()


def together(parts: Sequence[Shown], noted: tuple[str, ...]) -> Shown:
    level = weakest([p.level for p in parts])
    method = next(p.method for p in parts if p.level is level)
    return Shown(level, method, (*noted, *(a for p in parts for a in p.assumptions)),
                 tuple(o for p in parts for o in p.obligations))  # fmt: skip


def _hopeless(obligation: Obligation) -> bool:
    """Whether no solver is to be asked for its bits."""
    return one_sided_cuts(obligation) or rounding_terms(obligation) > MAX_ROUNDED_TERMS


def _as_eager(shown: Shown, falsified: Falsified) -> Shown:
    """Equal terms whose bits differ in eager: the kernel's result depends on the lane that an element falls into."""
    if not shown.level.stronger(falsified.best):
        return shown
    level = falsified.best if falsified.best.bitwise else Level.EXACT_REAL
    return replace(shown, level=level, assumptions=(*shown.assumptions, "kernel-depends-on-lane"))


def _exhausted(obligation: Obligation, device: str) -> Exhausted | None:
    try:
        return exhaust(obligation, MAX_COMBINATIONS, device)
    except NotModelled:
        return None


def _differing(obligation: Obligation) -> list[tuple[float | int | bool, ...]]:
    try:
        return differing(obligation)
    except NotModelled:
        return []


def _replayed(instance: Instance, difference: Difference, part: Shown) -> Counterexample | None:
    """The solver's counterexample as arguments of the rule, run in eager; None where it contradicts nothing."""
    if not part.differs_for or any(o is None for o in difference.origins):
        return None
    instance = instance if _harmless(instance) else instance.on("cpu")
    values = instance.copies()
    for origin, value in zip(difference.origins, part.differs_for, strict=True):
        assert origin is not None
        t = values[origin[0]]
        torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage())[origin[1]] = value
    return None if broken(instance.rule.assumes, values) else contradiction(instance, values)


def in_terms(instance: Instance, layouts: bool, draw: int = 0) -> _Run:
    """Run both sides in terms; raises :class:`NotModelled`."""
    terms = Terms(layouts, draw=draw)
    known = instance.known()
    names = {
        n: terms.input(n, t.untyped_storage().nbytes() // max(t.element_size(), 1), t.dtype)
        for n, t in instance.copies().items()
        if n not in known
    }
    outs: list[list[tuple[torch.Tensor, torch.dtype]]] = []
    split = 0
    for side in (instance.before, instance.after):
        split = len(terms.lane_calls)
        memory = Memory(terms)
        tensors = instance.copies()
        for n, t in tensors.items():
            if n in names:
                memory.whole(t, names[n])
        out = _guarded(side, tensors, memory)
        seen = [] if instance.rule.site == "late" else [(memory.shadow(out).clone(), out.dtype)]
        seen += [(memory.shadow(t).clone(), t.dtype) for t in tensors.values()]
        outs.append(seen)
    left, right = outs
    pairs = []
    for (a, d), (b, e) in zip(left, right, strict=True):
        if a.shape != b.shape or d != e:
            raise NotModelled("sides of different shapes or dtypes")
        pairs.append((a, b, d))
    return _Run(terms, pairs, terms.lanes_differ(split))


def _guarded(
    side: Callable[[dict[str, torch.Tensor]], torch.Tensor], tensors: dict[str, torch.Tensor], memory: Memory
) -> torch.Tensor:
    try:
        with torch.no_grad(), Shadowing(memory), Unread():
            return side(tensors)
    except NotModelled:
        raise
    except Exception as error:
        raise NotModelled(f"{type(error).__name__}: {error}") from error
