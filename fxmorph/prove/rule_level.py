"""A rule's level for a dtype: the weakest over arguments that its conditions allow.

Arguments are drawn so that what rules get wrong shows: sizes 0 and 1, odd and unequal sizes, sizes
that divide evenly, permuted, gapped and expanded strides.  Further arguments are given to
falsification alone.  A rule that only moves data is also tried for all sizes at once
(``sizes/``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from fxmorph.model import Level, Proof
from fxmorph.prove.certificates import ProofCode, instance_text, rule_hash
from fxmorph.prove.falsify import Contradiction, falsify
from fxmorph.prove.prover import Prover, weakest
from fxmorph.rewriting.instances import Instance, relaid, sample_arguments
from fxmorph.rewriting.sides import BeforeRaises
from fxmorph.rules import Rule

#: How many arguments of a rule are proved, and how many more eager alone tries to refute: shapes that a
#: rule forgets are the same for all of its dtypes, so that the first one gets most of them.
PROVED, TRIED, TRIED_AGAIN = 10, 50, 25
#: Sizes that each draw is made of, in turn.
POOLS: tuple[tuple[int, ...], ...] = (
    (3, 5, 7), (1,), (0, 2, 3), (2, 4, 8), (1, 2, 3), (4, 6, 12), (0, 1), (2, 3), (5, 6, 7, 9, 10), (1, 4, 9),
    (0, 1, 2), (3, 4, 6, 8), (0, 2), (256,),
)  # fmt: skip


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


def arguments_of(rule: Rule, dtype: str, count: int) -> Iterator[Instance]:
    """Distinct arguments, the same in every process; fewer than ``count`` where none are found."""
    rng = random.Random(f"{rule.id} {dtype}")
    seen: set[str] = set()
    for attempt in range(3 * count):
        pool = POOLS[attempt % len(POOLS)]
        sample = sample_arguments(rule, rng, tries=60, dtypes=(dtype,), sizes=pool, leading=pool)
        if sample is None and attempt % len(POOLS) == 0:
            # Sizes or dtypes that must fit together: whatever the rule takes.
            sample = sample_arguments(rule, rng, dtypes=() if rule.mixed else (dtype,))
        if sample is None:
            continue
        instance = Instance(rule, *sample) if attempt % 2 == 0 else relaid(rule, *sample, rng)
        text = instance_text(instance)
        if text not in seen:
            seen.add(text)
            yield instance
            if len(seen) >= count:
                return


def prove_rule(rule: Rule, dtype: str, prover: Prover, proved: int = PROVED, tried: int | None = None) -> RuleProof:
    """The weakest level over arguments of ``dtype``; REFUTED by any, UNKNOWN by any that is not decided.

    ``proved`` arguments are proved, ``tried`` more (of the first dtype TRIED unless given) in eager alone.
    """
    started = time.process_time()
    proofs: list[Proof] = []
    keys: list[str] = []
    refuted = reason = ""
    code, contradicts = ProofCode.PLAIN, Contradiction.NONE
    corners: set[str] = set()
    full = False  # whether there was anything to compare
    if tried is None:
        tried = TRIED if dtype == rule.dtypes[0] else TRIED_AGAIN
    for instance in arguments_of(rule, dtype, proved + tried):
        if len(proofs) >= proved:
            try:
                found = falsify(instance, quick=True).counterexample
            except BeforeRaises:
                continue
            if found is not None:
                refuted, contradicts = f"{instance_text(instance)}: {found}", found.code
                break
            continue
        made = prover.prove(instance)
        if made.code is ProofCode.DOES_NOT_RUN:
            continue
        proofs.append(made.proof)
        keys.append(made.key)
        corners |= _corners(instance)
        full |= all(t.numel() for t in instance.tensors.values())
        if made.proof.level is Level.REFUTED:
            refuted, contradicts = f"{made.claim}: {made.counterexample}", made.contradicts
            break
        if made.proof.level is Level.UNKNOWN and not reason:
            reason, code = f"{made.claim}: {made.reason}", made.code
    level = weakest([p.level for p in proofs]) if full else Level.UNKNOWN
    if proofs and not full and not reason:
        reason, code = "only empty arguments were compared", ProofCode.ONLY_EMPTY
    if not proofs:
        reason, code = "no arguments found", ProofCode.NO_ARGUMENTS
    scope = f"{len(proofs)} shapes" + (f" with {', '.join(sorted(corners))}" if corners else "")
    method = next((p.method for p in proofs if p.level is level), "FALSIFY-ONLY")
    assumptions = {a for p in proofs for a in p.assumptions}
    if refuted:
        level, method = Level.REFUTED, "FALSIFY-ONLY"
    elif level is Level.INDEX_EXACT and rule.site != "late":
        scope, method = _all_sizes(rule, scope, method)
    return RuleProof(
        rule.id, dtype, rule.claim, level, scope, method, tuple(sorted(assumptions)),
        round(time.process_time() - started, 3), len(proofs), refuted, reason,
        tuple(keys), code, contradicts,
    )  # fmt: skip


#: Ranks for which a rule was shown for all sizes, by what the rule says: the dtype does not matter.
_shown_for_all_sizes: dict[str, int] = {}


def _all_sizes(rule: Rule, scope: str, method: str) -> tuple[str, str]:
    # z3 is loaded by rules that get this far only.
    from fxmorph.prove.sizes.layout_proof import prove_all_sizes

    key = rule_hash(rule)
    if key not in _shown_for_all_sizes:
        every = prove_all_sizes(rule)
        _shown_for_all_sizes[key] = len(every.ranks) if every.proved else 0
    ranks = _shown_for_all_sizes[key]
    return (f"all sizes, {ranks} ranks; {scope}", f"{method}+Z3-LIA") if ranks else (scope, method)


def _corners(instance: Instance) -> set[str]:
    sizes = [n for t in instance.tensors.values() for n in t.shape]
    out = {str(n) for n in (0, 1) if n in sizes}
    if any(len(set(t.shape)) > 1 for t in instance.tensors.values()):
        out.add("unequal sizes")
    return out
