"""What a worker process of the gate does: judge one proposal.

A proposal that hangs, takes all memory or crashes the process costs that proposal and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.memory_limit import limit_memory
from fxmorph.core.pool import answer_jobs, first_line, print_to
from fxmorph.propose.gate.chain_gate import judge_mutation, judge_recipe
from fxmorph.propose.gate.rule_gate import judge_rule
from fxmorph.propose.gate.seed_gate import judge_seed
from fxmorph.propose.gate.sources import CorpusGraphs
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import (
    Judged,
    Outcome,
    Proposal,
    RecipeProposal,
    RuleProposal,
    SeedProposal,
    outcome_of,
    read_text,
)
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import Prover
from fxmorph.rules import Registry, load_rules
from fxmorph.torchapi.compiling import quiet

#: Units of z3 for one query: less than ``fxmorph prove`` spends, as there are many proposals.
BUDGET = 500_000
#: Address space that a worker may take beyond what it has after its imports, in bytes.
MEMORY = 4 * 2**30


@dataclass(frozen=True)
class JudgeProposal:
    """Job: judge the proposal with this JSON text; answers a :class:`Judged`."""

    index: int
    text: str
    source: str


class Judge:
    """Decides about proposals in this process, with what that needs loaded once."""

    def __init__(self, rules: Registry, corpus: Path, state: Path) -> None:
        self.rules = rules
        self.corpus = CorpusGraphs(corpus, state)
        self.prover = Prover(Certificates(state / "proofs"), BUDGET)

    @cached_property
    def known(self) -> Known:
        return Known(self.rules)

    def judge(self, job: JudgeProposal) -> Judged:
        line = read_text(job.text, job.source)
        if line.proposal is None:
            return outcome_of(line, Outcome.MALFORMED, line.error)
        return self._judged(line.proposal, job.source)

    def _judged(self, proposal: Proposal, source: str) -> Judged:
        if isinstance(proposal, RuleProposal):
            return judge_rule(proposal, source, self.known, self.prover)
        if isinstance(proposal, SeedProposal):
            return judge_seed(proposal, source, self.corpus)
        if isinstance(proposal, RecipeProposal):
            return judge_recipe(proposal, source, self.corpus, self.rules)
        return judge_mutation(proposal, source, self.corpus)


def serve(connection: Connection, transforms: Sequence[str], corpus: str, state: str) -> None:
    """Answer jobs until the connection closes; what libraries print goes to a log in the folder ``state``."""
    print_to(str(Path(state) / "workers.log"))
    quiet()
    torch.set_num_threads(1)
    judge = Judge(load_rules([Path(p) for p in transforms]), Path(corpus), Path(state))
    limit_memory(MEMORY)
    answer_jobs(connection, judge.judge, _in_words)


def _in_words(error: Exception) -> str:
    return "more memory than it may have" if isinstance(error, MemoryError) else first_line(error)
