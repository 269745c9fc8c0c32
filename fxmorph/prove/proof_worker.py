"""What a worker process of ``fxmorph prove`` does: prove one rule for one dtype.

A solver that crashes, or eats all memory, costs that rule and dtype and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.memory_limit import limit_memory
from fxmorph.core.pool import answer_jobs, print_to
from fxmorph.model import Level
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.prove.smt.second_opinion import disagreements
from fxmorph.rules import load_rules

#: Bytes that a worker may take beyond what it starts with.
MEMORY = 6 << 30


@dataclass(frozen=True)
class ProveRule:
    """Job: prove a rule for a dtype; answers a :class:`RuleProof`.  ``second``: another solver to ask too."""

    rule: str
    dtype: str
    second: str = ""


def serve(connection: Connection, transforms: Sequence[str], folder: str, budget: int, log: str) -> None:
    """Answer jobs until the connection closes; what libraries print goes to ``log``."""
    print_to(log)
    torch.set_num_threads(1)
    rules = load_rules([Path(p) for p in transforms])
    prover = Prover(Certificates(Path(folder)), budget)

    def answer(job: ProveRule) -> RuleProof:
        proof = prove_rule(rules[job.rule], job.dtype, prover)
        return asked_again(proof, prover, job.second) if job.second else proof

    limit_memory(MEMORY)
    answer_jobs(connection, answer)


def asked_again(proof: RuleProof, prover: Prover, solver: str) -> RuleProof:
    """The proof with every query that it rests on put to another solver; where one disagrees, UNKNOWN.

    The certificates keep the questions and answers, ``disagreements`` in their folder what differs.
    """
    made = [c for key in proof.certificates if (c := prover.certificates.get(key)) is not None]
    used = {key for certificate in made for key in certificate.obligations}
    told = ""
    for key in sorted(used):
        certificate = prover.certificates.get(key)
        if certificate is None:
            continue
        for wrong in disagreements(certificate.queries, solver):
            told = f"{solver} says {wrong.second} where z3 says {wrong.first} ({wrong.mode}, obligation {key})"
            if prover.certificates.folder is not None:
                prover.certificates.ship([key], prover.certificates.folder / "disagreements")
    return replace(proof, level=Level.UNKNOWN, reason=told) if told else proof


def unproved(job: ProveRule, claim: Level, reason: str) -> RuleProof:
    """The record of a job that ended badly."""
    return RuleProof(job.rule, job.dtype, claim, Level.UNKNOWN, "", "", reason=reason)
