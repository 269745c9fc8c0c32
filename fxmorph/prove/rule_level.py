"""A rule's level for a dtype: the weakest over arguments that its conditions allow (``argument_draws.py``).

Some are proved, further ones are given to falsification alone.  A rule that only moves data is also tried for all
sizes at once (``sizes/``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fxmorph.model import Level, Proof
from fxmorph.programs.subnormals import subnormals_kept
from fxmorph.prove.argument_draws import (
    PROVED,
    aimed_arguments,
    arguments_of,
    arguments_of_each_size,
    scalar_choices,
    tried_for,
)
from fxmorph.prove.certificates import (
    Asked,
    Certificate,
    Certificates,
    ProofCode,
    instance_text,
    key_of,
    rule_hash,
    versions,
)
from fxmorph.prove.falsify import Contradiction, falsify
from fxmorph.prove.prover import Prover, weakest
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.sides import AfterRaises, BeforeRaises
from fxmorph.rules import Rule


@dataclass(frozen=True)
class RuleProof:
    """What is shown of a rule for a dtype.

    ``shapes`` counts the arguments that were proved; ``corners`` says which of size 0, size 1 and unequal
    sizes were among them.  ``counterexample`` is set for REFUTED, where it ``contradicts`` the rule in that; ``reason``
    where nothing was shown, with ``code`` for whoever decides on it.
    """

    rule: str
    dtype: str
    claim: Level
    level: Level
    scope: str
    method: str
    assumptions: tuple[str, ...] = ()
    seconds: float = 0.0
    shapes: int = 0
    counterexample: str = ""
    reason: str = ""
    certificates: tuple[str, ...] = ()
    code: ProofCode = ProofCode.PLAIN
    contradicts: Contradiction = Contradiction.NONE
    #: By solver that was asked again: how many queries it decided likewise, and what it said of the others.
    again: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()


@dataclass
class _Covered:
    """What of the arguments' range was met."""

    shapes: int = 0
    largest: int = 0
    corners: set[str] = field(default_factory=set)

    def add(self, instance: Instance) -> None:
        self.shapes += 1
        tensors = instance.tensors.values()
        sizes = [n for t in tensors for n in t.shape]
        self.largest = max([self.largest, *sizes])
        self.corners |= {str(n) for n in (0, 1) if n in sizes}
        if any(len(set(t.shape)) > 1 for t in tensors):
            self.corners.add("unequal sizes")
        if any(t.storage_offset() for t in tensors):
            self.corners.add("offsets")
        if instance.sharing:
            self.corners.add("shared memory")

    def __str__(self) -> str:
        met = f" with {', '.join(sorted(self.corners))}" if self.corners else ""
        return f"{self.shapes} shapes of sizes up to {self.largest}{met}"


@subnormals_kept()
def prove_rule(rule: Rule, dtype: str, prover: Prover, proved: int = PROVED, tried: int | None = None) -> RuleProof:
    """The weakest level over arguments of ``dtype``; REFUTED by any, UNKNOWN by any that is not decided.

    ``proved`` arguments are proved, ``tried`` more in eager alone: as many as the rule's text asks for, unless given.
    """
    started = time.process_time()
    proofs: list[Proof] = []
    keys: list[str] = []
    refuted = reason = ""
    code, contradicts = ProofCode.PLAIN, Contradiction.NONE
    best, under = Level.BIT_EXACT, set[str]()  # the strongest level that eager leaves for the further arguments
    covered, more = _Covered(), _Covered()
    full = False  # whether there was anything to compare
    raised: dict[ProofCode, list[str]] = {ProofCode.DOES_NOT_RUN: [], ProofCode.AFTER_RAISES: []}
    if tried is None:
        tried = tried_for(rule, dtype)
    met_scalars = set[str]()
    failures = raised[ProofCode.AFTER_RAISES]
    for instance in _arguments(rule, dtype, proved + tried, failures):
        scalars = repr(instance.scalars)
        known = scalars in met_scalars
        met_scalars.add(scalars)
        if len(proofs) >= proved:
            try:
                # Gradients are taken in the widest dtype, so that those of one dtype are those of all.
                tested = falsify(instance, quick=known, gradients=dtype == rule.dtypes[0])
            except BeforeRaises:
                continue
            except AfterRaises as error:
                raised[ProofCode.AFTER_RAISES].append(f"{instance_text(instance)}: the replacement raises {error}")
                continue
            more.add(instance)
            found = tested.counterexample
            if found is not None:
                refuted, contradicts = f"{instance_text(instance)}: {found}", found.code
                break
            best = weakest([best, tested.best])
            under |= set(tested.assumptions)
            continue
        made = prover.prove(instance)
        if made.code in raised:
            raised[made.code].append(f"{made.claim}: {made.reason}")
            continue
        proofs.append(made.proof)
        keys.append(made.key)
        covered.add(instance)
        full |= all(t.numel() for t in instance.tensors.values())
        if made.proof.level is Level.REFUTED:
            refuted, contradicts = f"{made.claim}: {made.counterexample}", made.contradicts
            break
        if made.proof.level is Level.UNKNOWN and not reason:
            reason, code = f"{made.claim}: {made.reason}", made.code
    level = weakest([p.level for p in proofs]) if full else Level.UNKNOWN
    if proofs and not full and not reason:
        reason, code = "only empty arguments were compared", ProofCode.ONLY_EMPTY
    raising = f"; the replacement raises on {len(failures)} others" if failures else ""
    if len(failures) > covered.shapes + more.shapes:
        level, code = Level.UNKNOWN, ProofCode.AFTER_RAISES
        reason = f"{failures[0]} ({len(failures)} of {len(failures) + covered.shapes + more.shapes} arguments)"
    elif not proofs:
        nowhere = raised[ProofCode.DOES_NOT_RUN]
        reason, code = nowhere[0] if nowhere else "no arguments meet the conditions", ProofCode.NO_ARGUMENTS
    scope = str(covered) + (f"; {more.shapes} more in eager, of sizes up to {more.largest}" if more.shapes else "")
    scope += raising + _numbers(rule)
    method = next((p.method for p in proofs if p.level is level), "FALSIFY-ONLY")
    assumptions = {a for p in proofs for a in p.assumptions}
    # INDEX_EXACT and BIT_EXACT are the same to eager; memory that nothing reads any more has no level in it.
    if rule.site != "late" and best is not Level.BIT_EXACT and level.stronger(best):
        level = best
        assumptions |= under
    if refuted:
        level, method = Level.REFUTED, "FALSIFY-ONLY"
    elif level is Level.INDEX_EXACT and rule.site != "late":
        every = _all_sizes(rule, prover.certificates)
        if every.proof.level is Level.INDEX_EXACT:
            scope, method = f"{every.proof.scope}; {scope}", f"{method}+{every.proof.method}"
            keys.append(every.key)
    return RuleProof(
        rule.id, dtype, rule.claim, level, scope, method, tuple(sorted(assumptions)),
        round(time.process_time() - started, 3), len(proofs), refuted, reason,
        tuple(keys), code, contradicts,
    )  # fmt: skip


def _arguments(rule: Rule, dtype: str, count: int, failures: Sequence[str]) -> Iterator[Instance]:
    """Up to ``count``, aimed ones, and after ``failures`` each size alone: few may be left to differ on."""
    yield from arguments_of(rule, dtype, count)
    yield from aimed_arguments(rule, dtype)
    if failures:
        yield from arguments_of_each_size(rule, dtype)


def _numbers(rule: Rule) -> str:
    """Of scalars that may be any number, those that were drawn from."""
    free = [n for n, among in rule.scalars.items() if among is None]
    return "".join(f"; {n} among {', '.join(map(str, dict.fromkeys(scalar_choices(rule, n))))}" for n in free)


def _all_sizes(rule: Rule, certificates: Certificates) -> Certificate:
    """What is shown of a rule for all sizes, whatever the dtype; its queries are those that the proof rests on."""
    key = key_of("all sizes", rule_hash(rule))
    found = certificates.get(key)
    if found is None:
        # z3 is loaded by rules that get this far only.
        from fxmorph.prove.sizes.layout_proof import RLIMIT, prove_all_sizes

        every = prove_all_sizes(rule)
        ranks = _ranks(every.ranks) if every.proved else ""
        proof = Proof(Level.INDEX_EXACT if ranks else Level.UNKNOWN, f"all sizes, {ranks}" if ranks else "", "Z3-LIA")
        asked = tuple(Asked("all sizes", "unsat", RLIMIT, smt) for smt in every.smt) if ranks else ()
        found = Certificate(
            key, f"{rule.id}(all sizes)", proof, (), "", every.reason, asked, versions(), round(every.seconds, 3)
        )
        certificates.put(found)
    return found


def _ranks(shown: Sequence[tuple[int, ...]]) -> str:
    """Ranks of the arguments, in words."""
    alike = sorted({ranks[0] for ranks in shown if len(set(ranks)) == 1})
    if len(alike) < len(shown):
        return f"{len(shown)} combinations of ranks up to {max(map(max, shown))}"
    if len(alike) == 1:
        return f"rank {alike[0]}"
    return f"ranks {alike[0]} to {alike[-1]}" if alike[-1] - alike[0] == len(alike) - 1 else f"ranks {alike}"
