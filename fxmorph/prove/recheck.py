"""Proofs decided again: the text of every query that they rest on is put to solvers, which know nothing else."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fxmorph.model import Level
from fxmorph.prove.certificates import Asked, Certificate, Certificates
from fxmorph.prove.rule_level import RuleProof
from fxmorph.prove.smt.second_opinion import Answer, second_opinion

#: A query that a solver decides as the proof says.
AGREES = "agrees"


@dataclass
class Recheck:
    """Asks each query once in a process, however many proofs rest on it."""

    _answers: dict[tuple[str, str], Answer] = field(default_factory=dict)

    def of(self, proof: RuleProof, certificates: Certificates, solvers: Sequence[str]) -> RuleProof:
        """The proof with what ``solvers`` say of its queries; where one contradicts it, UNKNOWN.

        The certificates keep what was said, the folder ``disagreements`` beside them what was contradicted.
        Raises ``SolverMissing``.
        """
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
        again = tuple((solver, tuple(sorted((+count).items()))) for solver, count in counts.items())
        proof = replace(proof, again=again)
        return replace(proof, level=Level.UNKNOWN, reason=told) if told else proof

    def _answer(self, asked: Asked, solver: str) -> Answer:
        key = solver, hashlib.sha256(asked.smt.encode()).hexdigest()
        if key not in self._answers:
            self._answers[key] = second_opinion(asked.smt, solver)
        return self._answers[key]


def _rested_on(proof: RuleProof, certificates: Certificates) -> list[Certificate]:
    """The certificates with queries that a proof uses, each once."""
    own = [found for key in proof.certificates if (found := certificates.get(key)) is not None]
    keys = dict.fromkeys(key for c in own for key in (c.key, *c.obligations))
    return [found for key in keys if (found := certificates.get(key)) is not None and found.queries]
