"""What a worker process of ``fxmorph prove`` does: prove one rule for one dtype.

A solver that crashes, or eats all memory, costs that rule and dtype and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.memory_limit import limit_memory
from fxmorph.core.pool import answer_jobs, print_to
from fxmorph.model import Level
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import Prover
from fxmorph.prove.recheck import Recheck
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rules import load_rules

#: Bytes that a worker may take beyond what it starts with.
MEMORY = 6 << 30


@dataclass(frozen=True)
class ProveRule:
    """Job: prove a rule for a dtype; answers a :class:`RuleProof`.  ``again``: what decides it again."""

    rule: str
    dtype: str
    again: tuple[str, ...] = ()


def serve(connection: Connection, transforms: Sequence[str], folder: str, budget: int, log: str) -> None:
    """Answer jobs until the connection closes; what libraries print goes to ``log``."""
    print_to(log)
    torch.set_num_threads(1)
    rules = load_rules([Path(p) for p in transforms])
    prover, recheck = Prover(Certificates(Path(folder)), budget), Recheck()

    def answer(job: ProveRule) -> RuleProof:
        proof = prove_rule(rules[job.rule], job.dtype, prover)
        return recheck.of(rules[job.rule], proof, prover, job.again) if job.again else proof

    limit_memory(MEMORY)
    answer_jobs(connection, answer)


def unproved(job: ProveRule, claim: Level, reason: str) -> RuleProof:
    """The record of a job that ended badly."""
    return RuleProof(job.rule, job.dtype, claim, Level.UNKNOWN, "", "", reason=reason)
