"""Proofs decided again.

The text of every query that a proof rests on is put to solvers, which know nothing else.  What rests on no query
(labels, equal terms, random elements of a field, exhaustion) is computed again with other names and other elements.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fxmorph.model import Level
from fxmorph.prove.certificates import Asked, Certificate, Certificates
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.prove.smt.second_opinion import Answer, second_opinion
from fxmorph.rules import Rule

#: A query that a solver decides as the proof says.
AGREES = "agrees"
#: What decides again beside solvers: the proof, with names and elements of another draw than the first.
COMPUTED = "computed"
_DRAW = 1


@dataclass
class Recheck:
    """Asks each query once in a process, however many proofs rest on it."""

    _answers: dict[tuple[str, str], Answer] = field(default_factory=dict)

    def of(self, rule: Rule, proof: RuleProof, prover: Prover, deciders: Sequence[str]) -> RuleProof:
        """The proof with what ``deciders`` (solvers, ``COMPUTED``) say of it; where one contradicts it, UNKNOWN.

        The certificates keep what solvers said, the folder ``disagreements`` beside them what was contradicted.
        Raises ``SolverMissing``.
        """
        solvers = [name for name in deciders if name != COMPUTED]
        certificates = prover.certificates
        told = ""
        counts: dict[str, Counter[str]] = {solver: Counter() for solver in solvers}
        for certificate in _rested_on(proof, certificates):
            queries = []
            for asked in certificate.queries:
                answers = [self._answer(asked, solver) for solver in solvers]
                for solver, answer in zip(solvers, answers, strict=True):
                    counts[solver][AGREES if answer.said == asked.result else answer.said] += asked.result != "unknown"
                    if answer.contradicts(asked.result):
                        told = f"{answer.solver} says {answer.said} where z3 said {asked.result} ({asked.mode}, "
                        told += f"certificate {certificate.key})"
                queries.append(replace(asked, answers=tuple(f"{a.solver}: {a.said} in {a.seconds} s" for a in answers)))
            certificates.put(replace(certificate, queries=tuple(queries)))
            if told and certificate.key in told and certificates.folder is not None:
                certificates.ship([certificate.key], certificates.folder / "disagreements")
        if COMPUTED in deciders and _shown(proof.level):
            found = _computed(rule, proof, prover)
            agrees = not proof.level.stronger(found.level)
            counts[COMPUTED] = Counter({AGREES if agrees else str(found.level): 1})
            if not agrees:
                told = f"computed again it is {found.level}, and {proof.level} before: {found.reason}"
        again = tuple((decider, tuple(sorted((+count).items()))) for decider, count in counts.items())
        proof = replace(proof, again=again)
        return replace(proof, level=Level.UNKNOWN, reason=told) if told else proof

    def _answer(self, asked: Asked, solver: str) -> Answer:
        key = solver, hashlib.sha256(asked.smt.encode()).hexdigest()
        if key not in self._answers:
            self._answers[key] = second_opinion(asked.smt, solver)
        return self._answers[key]


def _shown(level: Level) -> bool:
    return level not in (Level.UNKNOWN, Level.TESTED, Level.REFUTED)


def _computed(rule: Rule, proof: RuleProof, prover: Prover) -> RuleProof:
    """The proof of another draw; queries that were decided are not asked again."""
    known = Certificates()
    for certificate in _rested_on(proof, prover.certificates):
        known.put(certificate)
    again = Prover(known, prover.budget, _DRAW)
    return prove_rule(rule, proof.dtype, again, proved=proof.shapes, tried=0)


def _rested_on(proof: RuleProof, certificates: Certificates) -> list[Certificate]:
    """The certificates with queries that a proof uses, each once."""
    own = [found for key in proof.certificates if (found := certificates.get(key)) is not None]
    keys = dict.fromkeys(key for c in own for key in (c.key, *c.obligations))
    return [found for key in keys if (found := certificates.get(key)) is not None and found.queries]
