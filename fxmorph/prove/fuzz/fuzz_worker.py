"""What a worker process of ``fxmorph prove --fuzz`` does: make a mutant, prove it, try to refute what was proved."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.memory_limit import limit_memory
from fxmorph.core.pool import answer_jobs, print_to
from fxmorph.model import Level
from fxmorph.prove.fuzz.mutants import Family, Mutant, mutant
from fxmorph.prove.fuzz.refutation import refutation
from fxmorph.prove.proof_worker import MEMORY
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rules import Registry, load_rules

#: CPU seconds of the search for what refutes a mutant that was proved, or of which nothing was shown.
SEARCH, SEARCH_UNPROVED = 1.0, 0.3
#: Draws of a mutant that fits the rule.
_DRAWS = 12


class Judged(StrEnum):
    """What became of a mutant."""

    REFUTED = "refuted"  #: wrong, and the prover says so
    NOT_PROVED = "not proved"  #: wrong, and nothing or no more than is true was shown
    UNDECIDED = "undecided"  #: nothing was shown, and nothing refutes it
    HOLDS = "holds"  #: proved, and nothing refutes it
    PROVED = "proved wrongly"  #: proved, and eager refutes it
    NONE = "none"  #: no mutant of the rule was found


@dataclass(frozen=True)
class MakeMutant:
    """Job: the mutant of a rule for a dtype that these numbers draw, of a family where one is given."""

    rule: str
    dtype: str
    seed: int
    number: int
    family: str = ""


@dataclass(frozen=True)
class Tried:
    """A mutant and what became of it; ``text`` has both sides and ``witness`` arguments that refute the proof."""

    job: MakeMutant
    judged: Judged
    family: str = ""
    what: str = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    assumptions: tuple[str, ...] = ()
    text: str = ""
    witness: str = ""
    seconds: float = 0.0


def serve(connection: Connection, transforms: Sequence[str], budget: int, log: str) -> None:
    """Answer jobs until the connection closes; what libraries print goes to ``log``."""
    print_to(log)
    torch.set_num_threads(1)
    rules = load_rules([Path(p) for p in transforms])
    limit_memory(MEMORY)
    answer_jobs(connection, lambda job: tried(job, rules, budget))


def tried(job: MakeMutant, rules: Registry, budget: int) -> Tried:
    """Make the mutant, prove it for its dtype with nothing known before, and judge the proof in eager."""
    started = time.process_time()
    rng = random.Random(f"{job.seed} {job.number}")
    made = _drawn(job, rules, rng)
    if made is None:
        return Tried(job, Judged.NONE)
    proof = prove_rule(made.rule, job.dtype, Prover(budget=budget))
    judged, witness = _judged(made, job.dtype, proof, rng)
    return Tried(
        job, judged, made.family, made.what, proof.level, proof.method, proof.assumptions, made.text, witness,
        round(time.process_time() - started, 3),
    )  # fmt: skip


def _drawn(job: MakeMutant, rules: Registry, rng: random.Random) -> Mutant | None:
    wanted = Family(job.family) if job.family else None
    draws = (mutant(rules[job.rule], job.dtype, rng, wanted) for _ in range(_DRAWS))
    return next((made for made in draws if made is not None), None)


def _judged(made: Mutant, dtype: str, proof: RuleProof, rng: random.Random) -> tuple[Judged, str]:
    if proof.level is Level.REFUTED:
        return Judged.REFUTED, proof.counterexample
    unproved = proof.level in (Level.UNKNOWN, Level.TESTED)
    found = refutation(made, dtype, proof, SEARCH_UNPROVED if unproved else SEARCH, rng)
    if found is None:
        return (Judged.UNDECIDED if unproved else Judged.HOLDS), ""
    return (Judged.NOT_PROVED if unproved else Judged.PROVED), str(found)
