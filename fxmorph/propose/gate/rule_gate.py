"""The gate for rules: well formed, new, useful, not refuted, shown.

A promise that falls (gradient, stride, alias) is dropped, and a claim of bits that rounding or the
sign of zero breaks becomes the weaker one, as long as the values stay equal; the counterexample is
kept with it.  Whatever else is refuted is refuted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxmorph.model import Level
from fxmorph.programs.bits import same_bits
from fxmorph.propose.gate.decision import Said, error_line
from fxmorph.propose.gate.usefulness import fired_by_rule
from fxmorph.propose.language.building import build_rule, estimate
from fxmorph.propose.language.grammar import TooLarge
from fxmorph.propose.language.sameness import Known, changes_nothing
from fxmorph.propose.proposal import Judged, Malformed, Outcome, RuleProposal, Task, Unsupported
from fxmorph.prove.argument_draws import arguments_of
from fxmorph.prove.certificates import ProofCode, instance_text
from fxmorph.prove.falsify import Contradiction, falsify, kinds
from fxmorph.prove.prover import Prover, weakest
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.matching import pattern_of
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.sides import REAL_TOLERANCE, BeforeRaises, DoesNotRun, Sides, both, real_gap
from fxmorph.rules import Rule

#: Arguments on which a rule that nothing shows must hold to be admitted as tested.
TESTED_ARGUMENTS = 6
#: Arguments that are proved, and tried in eager alone: of the first dtype, of each further one, and of each
#: further one of a rule that moves data for the first, which is the same for all dtypes.
FIRST, FURTHER, MOVED = (8, 20), (3, 11), (1, 3)
#: Arguments on which sizes are estimated, and on which sides that differ in bits are compared more closely; the
#: first few are small.
LOOKED_AT, COMPARED = 4, 16
#: What takes one promise with it and no more.
_PROMISES = {
    Contradiction.GRADIENT: "gradient", Contradiction.STRIDE: "stride", Contradiction.ALIAS: "alias",
    Contradiction.RAISES: "raises",
}  # fmt: skip


#: What the prover has against a rule that no testing mends.
_NOT_TESTABLE = (
    ProofCode.MODEL_WRONG, ProofCode.NO_ARGUMENTS, ProofCode.ONLY_EMPTY, ProofCode.INTEGERS_WRAP,
)  # fmt: skip


@dataclass(frozen=True)
class _Weakened:
    """A rule with what fell of it so far: (promise or claim, counterexample)."""

    rule: Rule
    dropped: tuple[tuple[str, str], ...] = ()


def judge_rule(proposal: RuleProposal, source: str, known: Known, prover: Prover) -> Judged:
    """The outcome of a rule proposal; never raises for what a proposal can do."""
    judged = Said(proposal, Task.RULE, source)
    try:
        rule = build_rule(proposal, source)
        outcome, trouble = _ill_formed(rule)
        if trouble:
            what = {"counterexample" if outcome is Outcome.REFUTED else "reason": trouble}
            return judged(outcome, **what)
        if changes_nothing(rule):
            return judged(Outcome.MALFORMED, reason="before and after are the same graph")
        same = known.same_as(rule)
    except Unsupported as error:
        return judged(Outcome.UNSUPPORTED, reason=str(error))
    except Malformed as error:
        return judged(Outcome.MALFORMED, reason=str(error))
    except Exception as error:
        return judged(Outcome.MALFORMED, reason=f"does not trace: {error_line(error)}")
    if same:
        return judged(Outcome.DUPLICATE, same_as=same, reason=f"same as {same}")
    return _proved(rule, prover, judged)


def _ill_formed(rule: Rule) -> tuple[Outcome, str]:
    """Why a rule cannot be used at all, or ""; raises ``TooLarge``."""
    found = [i for d in rule.dtypes for i in arguments_of(rule, d, 1)]
    if not found:
        return Outcome.MALFORMED, "no arguments meet the conditions"
    for instance in found[:LOOKED_AT]:
        for side in (rule.before, rule.after):
            _estimate(side, instance)
    refuted = raised = ""
    ran = False
    for instance in found:
        try:
            sides = both(instance, instance.copies())
        except TooLarge:
            raise
        except BeforeRaises as error:
            raised = raised or f"before raises: {error}".splitlines()[0]
            continue
        except Exception as error:
            refuted = refuted or f"{instance_text(instance)}: after raises {error_line(error)}"
            continue
        ran = True
        if not isinstance(sides.before, torch.Tensor) or not isinstance(sides.after, torch.Tensor):
            return Outcome.MALFORMED, "a side of a rule returns one tensor"
        wrong = "" if rule.site == "late" else _unusable(sides)
        if wrong:
            return Outcome.REFUTED, f"{instance_text(instance)}: {wrong}"
    if not ran:
        return (Outcome.REFUTED, refuted) if refuted else (Outcome.MALFORMED, raised)
    if rule.site == "op" and pattern_of(rule) is None:
        return Outcome.MALFORMED, "before is no pattern: it holds no operation, or it depends on the arguments"
    return Outcome.ADMITTED, ""


def _unusable(sides: Sides) -> str:
    """What no rule may do, whatever it promises: another dtype, other contents of its arguments."""
    if sides.before.dtype != sides.after.dtype:
        return f"dtype {sides.before.dtype} becomes {sides.after.dtype}"
    for name, old in sides.left.items():
        new = sides.right[name]
        if same_bits(old, new):
            continue
        alike = old.is_floating_point() and torch.allclose(old.double(), new.double(), 1e-2, 1e-2, equal_nan=True)
        if not alike:
            return f"{name} holds {_first(old)} afterwards, then {_first(new)}"
    return ""


def _first(t: torch.Tensor) -> str:
    return f"{t.detach().flatten()[:4].tolist()}"


def _estimate(side: Any, instance: Instance) -> None:
    """Raises ``TooLarge``; of all else fake tensors know less than eager, which has the last word."""
    try:
        estimate(side, instance.tensors, instance.scalars)
    except TooLarge:
        raise
    except Exception:
        return


def _proved(rule: Rule, prover: Prover, judged: Said) -> Judged:
    """Each dtype through the prover, dropping what falls, until nothing falls or the rule itself does."""
    state = _Weakened(rule)
    proofs: dict[str, RuleProof] = {}
    todo = list(rule.dtypes)
    while todo:
        dtype = todo[0]
        proof = prove_rule(state.rule, dtype, prover, *_effort(list(proofs.values())))
        if proof.level is not Level.REFUTED:
            proof = _on_long_rows(state.rule, dtype, proof)
        if proof.level is Level.REFUTED:
            weaker = _weaker(state, dtype, proof)
            if weaker is None:
                return judged(Outcome.REFUTED, counterexample=proof.counterexample, reason=f"in {dtype}",
                              dropped=state.dropped)  # fmt: skip
            state = weaker
            continue
        proofs[dtype] = proof if proof.level is not Level.UNKNOWN else _tested(state.rule, dtype, proof)
        todo.pop(0)
    ran = {d: p for d, p in proofs.items() if p.code is not ProofCode.NO_ARGUMENTS}
    unknown = next((f"{d}: {p.reason}" for d, p in ran.items() if p.level is Level.UNKNOWN), "")
    if not ran or unknown:
        return judged(Outcome.UNKNOWN, reason=unknown or "no arguments found", dropped=state.dropped)
    level = weakest([p.level for p in ran.values()])
    claim = _claim(state.rule.claim, level)
    return judged(
        Outcome.ADMITTED, level=level, claim=claim, levels=tuple((d, p.level.value) for d, p in ran.items()),
        dropped=state.dropped, reason=next(iter(ran.values())).scope, fires=fired_by_rule(state.rule),
    )  # fmt: skip


def _effort(before: list[RuleProof]) -> tuple[int, int]:
    """Arguments to prove and to try: most for the first dtype, few more where data are only moved."""
    if not before:
        return FIRST
    return MOVED if all(p.level is Level.INDEX_EXACT for p in before) else FURTHER


def _on_long_rows(rule: Rule, dtype: str, proof: RuleProof) -> RuleProof:
    """The proof, or REFUTED by arguments with a size that 8 bits do not hold."""
    sample = sample_arguments(
        rule, random.Random(rule.id), tries=60, dtypes=() if rule.mixed else (dtype,), sizes=(256,), leading=(1, 2)
    )
    if sample is None:
        return proof
    instance = Instance(rule, *sample)
    try:
        found = falsify(instance, quick=True).counterexample
    except DoesNotRun:
        return proof
    if found is None:
        return proof
    text = f"{instance_text(instance)}: {found}"
    return replace(proof, level=Level.REFUTED, counterexample=text, contradicts=found.code)


def _claim(claim: Level, level: Level) -> Level:
    """What an admitted rule is used with: what it claims, or less where less is shown."""
    if level is Level.TESTED:
        return Level.EXACT_REAL
    return claim if level.stronger(claim) else level


def _weaker(state: _Weakened, dtype: str, refuted: RuleProof) -> _Weakened | None:
    """The rule without what the counterexample refutes; None where that is the rule."""
    rule, counterexample = state.rule, refuted.counterexample
    promise = _PROMISES.get(refuted.contradicts)
    if promise is not None and promise in rule.preserves:
        new = replace(rule, preserves=rule.preserves - {promise})
        return _Weakened(new, (*state.dropped, (promise, counterexample)))
    if refuted.contradicts is Contradiction.ZERO_SIGN:
        new = replace(rule, claim=Level.BIT_EXACT_MOD_ZERO_SIGN)
    elif refuted.contradicts is Contradiction.BITS and _rounds_only(rule, dtype):
        new = replace(rule, claim=Level.EXACT_REAL)
    else:
        return None
    return _Weakened(new, (*state.dropped, (rule.claim.value, counterexample)))


def _rounds_only(rule: Rule, dtype: str) -> bool:
    """Whether a difference in bits is one of rounding: NaN and Inf are where they were, the reals agree."""
    compared = 0
    for instance in arguments_of(rule, dtype, COMPARED):
        for kind, values in kinds(instance):
            gap = real_gap(instance.with_values(values)) if kind not in ("infinite", "nan") else None
            if gap is not None and gap > REAL_TOLERANCE:
                return False
            compared += gap is not None
            if kind not in ("own", "zeros", "infinite", "nan", "wide", "extreme"):
                continue
            try:
                sides = both(instance, values)
            except Exception:
                continue
            a, b = sides.before, sides.after
            if not a.is_floating_point() or a.shape != b.shape or a.dtype != b.dtype:
                return False
            if kind in ("wide", "extreme"):
                if _far_apart(a.double(), b.double()):
                    return False
                continue
            if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a.isinf(), b.isinf()):
                return False
    return compared > 0


def _far_apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether finite values differ by more than 1 % of the largest."""
    both_finite = a.isfinite() & b.isfinite()
    if not bool(both_finite.any()):
        return False
    return float((a - b)[both_finite].abs().max()) > 1e-2 * float(a[both_finite].abs().max())


def _tested(rule: Rule, dtype: str, proof: RuleProof) -> RuleProof:
    """TESTED where the claim and all promises hold in eager on enough arguments; else the proof as it is."""
    if proof.code in _NOT_TESTABLE:
        return proof
    held = 0
    for instance in arguments_of(rule, dtype, 3 * TESTED_ARGUMENTS):
        try:
            if falsify(instance).counterexample is not None:
                return proof
        except DoesNotRun:
            continue
        held += _agrees(instance)
    if held < TESTED_ARGUMENTS:
        return proof
    return replace(proof, level=Level.TESTED, method="FALSIFY-ONLY")


def _agrees(instance: Instance) -> bool:
    """Whether both sides give the same bits here, or the same real numbers as fp64 has them."""
    sides = both(instance, instance.copies())
    if not sides.before.numel():
        return False
    if same_bits(sides.before, sides.after):
        return True
    gap = real_gap(instance)
    return gap is not None and gap <= REAL_TOLERANCE
