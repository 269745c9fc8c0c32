"""Deciding one pair: what it may claim, under which assumption, for which dtypes, and whether that is proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fxmorph.model import Level
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import RuleProposal
from fxmorph.propose.synthesis.hunting import Hunt, hunt
from fxmorph.prove.falsify import Contradiction
from fxmorph.prove.prover import Prover, weakest
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rewriting.preconditions import PRECONDITIONS
from fxmorph.rules import ASSUMPTIONS

#: Draws of shapes before a proof, and of a proved rule for its first dtype and each further one; each is run on
#: every kind of values.
SCREENED, HUNTED, HUNTED_AGAIN = 6, 16, 8
#: Arguments that a dtype is proved for, and tried on in eager alone: the first one, each further one.
FIRST, FURTHER = (10, 30), (4, 12)
#: z3's units for one query: what takes longer is left to the weaker levels.
BUDGET = 1_000_000
#: Tried for a rule about numbers besides float32.
MORE_DTYPES = ("float64", "bfloat16", "int64")
_WEAKER = {"INDEX_EXACT": "BIT_EXACT_MOD_ZERO_SIGN", "BIT_EXACT": "BIT_EXACT_MOD_ZERO_SIGN",
           "BIT_EXACT_MOD_ZERO_SIGN": "EXACT_REAL"}  # fmt: skip


@dataclass(frozen=True)
class Settled:
    """``proposal`` is None where the pair is no rule: ``refuted`` by eager, or not ``shown``; ``reason`` says why.

    ``levels``: what was shown by dtype.  ``tried``: sets of arguments that both sides were run on beyond the proof.
    """

    proposal: RuleProposal | None
    refuted: bool = False
    reason: str = ""
    level: Level = Level.UNKNOWN
    levels: tuple[tuple[str, Level], ...] = ()
    tried: int = 0


def settle(proposal: RuleProposal, prover: Prover, seed: int, more: Sequence[str] = MORE_DTYPES) -> Settled:
    """The strongest form of the proposal that is proved and that no input was found against.

    ``more``: dtypes that are tried besides the first one; those as good as it join the proposal.
    """
    main = "float32"
    if proposal.dtypes == ("bool",):
        main, more = "bool", ()
    screened = _screened(proposal, main, seed)
    if isinstance(screened, Settled):
        return screened
    hoped, found = screened
    proved = _proved(hoped, main, prover)
    if isinstance(proved, Settled):
        return proved
    stated, proof = proved
    if stated.assumes != hoped.assumes:  # found by the solver, and bits hold under it
        found = hunt(build_rule(stated), main, HUNTED, seed + 1)
    if not _stands(stated, found):
        return Settled(None, True, found.wrong or f"not {stated.claim}: {found.examples}")
    levels, tried = [(main, proof.level)], found.tried
    moves = proof.level is Level.INDEX_EXACT and not stated.mixed
    for dtype in (*more, *(("bool",) if moves and more else ())):
        found = hunt(build_rule(stated), dtype, HUNTED_AGAIN, seed + 1)
        if _stands(stated, found):
            level = prove_rule(build_rule(_with(stated, dtypes=[dtype])), dtype, prover, *FURTHER).level
            if not Level(stated.claim).stronger(level):
                levels.append((dtype, level))
                tried += found.tried
    stated = _with(stated, dtypes=[d for d, _ in levels], doc=_told(stated, levels))
    return Settled(stated, level=proof.level, levels=tuple(levels), tried=tried)


def _stands(stated: RuleProposal, found: Hunt) -> bool:
    """Whether nothing seen contradicts what is claimed."""
    if found.claim is None or stated.claim == "EXACT_REAL":
        return found.claim is not None
    if stated.claim in ("INDEX_EXACT", "BIT_EXACT"):
        return found.claim is Level.BIT_EXACT
    return found.claim.bitwise


def _with(proposal: RuleProposal, **changes: Any) -> RuleProposal:
    return RuleProposal.model_validate({**proposal.model_dump(), **changes})


def _screened(proposal: RuleProposal, dtype: str, seed: int) -> tuple[RuleProposal, Hunt] | Settled:
    """The proposal with the strongest claim, under the weakest precondition, that eager lets stand; what was seen."""
    first = ""
    for assumes in ((), *PRECONDITIONS):
        stated = _with(proposal, assumes=assumes)
        claims = []
        for rounds, at in ((SCREENED, seed), (HUNTED, seed + 1)):
            found = hunt(build_rule(stated), dtype, rounds, at)
            if found.claim is None:
                break
            claims.append(found.claim)
        else:
            return _with(stated, claim=weakest(claims).value), found
        first = first or found.wrong
        if dtype == "bool" or not found.tried or "raises" in found.examples:
            break
    return Settled(None, True, first or "no arguments found")


def _proved(proposal: RuleProposal, dtype: str, prover: Prover) -> tuple[RuleProposal, RuleProof] | Settled:
    """The proposal with the claim and the promises that the prover lets stand."""
    while True:
        proof = prove_rule(build_rule(proposal), dtype, prover, *FIRST)
        if proof.level is Level.REFUTED:
            if "gradient" in proposal.preserves and proof.contradicts is Contradiction.GRADIENT:
                proposal = _with(proposal, preserves=[p for p in proposal.preserves if p != "gradient"])
            elif proposal.claim in _WEAKER:
                proposal = _with(proposal, claim=_WEAKER[proposal.claim])
            else:
                return Settled(None, True, proof.counterexample)
        elif proof.level in (Level.UNKNOWN, Level.TESTED):
            return Settled(None, False, proof.reason)
        elif proof.level is Level.UNDER_PRECONDITION:
            needed = sorted({*proposal.assumes, *(a for a in proof.assumptions if a in ASSUMPTIONS)})
            return _with(proposal, claim=proof.level.value, assumes=needed), proof
        else:
            return _with(proposal, claim=proof.level.value), proof


def _told(proposal: RuleProposal, levels: Sequence[tuple[str, Level]]) -> str:
    shown = ", ".join(f"{level} in {dtype}" for dtype, level in levels)
    return f"Takes {proposal.before} as {proposal.after}. Found by enumeration; proved {shown}."
