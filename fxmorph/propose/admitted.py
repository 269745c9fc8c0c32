"""Admitted proposals as what campaigns use: rules for the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from fxmorph.propose.building import build_rule
from fxmorph.propose.outcomes import read_outcomes
from fxmorph.propose.proposal import Judged, Line, Outcome, RuleProposal, read_pack
from fxmorph.rules import PRESERVABLE, Rule, RuleError


def admitted_rule(proposal: RuleProposal, judged: Judged) -> Rule:
    """The rule as it was admitted: with the claim that it may have, without the promises that fell."""
    rule = build_rule(proposal, judged.source)
    fell = {what for what, _ in judged.dropped if what in PRESERVABLE}
    return replace(rule, claim=judged.claim or rule.claim, preserves=rule.preserves - fell)


def admitted(packs: Path, outcomes: Path) -> Iterator[tuple[Line, Judged]]:
    """The admitted proposals of a folder of packs, in order."""
    said = read_outcomes(outcomes, any_torch=True)
    for line in pack_lines([packs]):
        judged = said.get(line.hash)
        if judged is not None and judged.outcome is Outcome.ADMITTED:
            yield line, replace(judged, source=line.source)


def pack_lines(paths: Iterable[Path]) -> Iterator[Line]:
    """The lines of packs: files, or all ``*.jsonl`` of folders; raises ``RuleError`` for what cannot be read."""
    for path in paths:
        try:
            files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
            for file in files:
                yield from read_pack(file)
        except OSError as error:
            raise RuleError(f"pack {path}: {error.strerror}") from None


def admitted_rules(packs: Path, outcomes: Path) -> Iterator[Rule]:
    """The rules of a folder of packs that the gate admitted, without proving anything.

    One that this torch cannot build (an operation that it lacks) is left out.
    """
    for line, judged in admitted(packs, outcomes):
        if isinstance(line.proposal, RuleProposal):
            try:
                yield admitted_rule(line.proposal, judged)
            except ValueError:
                continue
