"""Admitted proposals as what campaigns use: rules for the registry, seed files, chains.  Nothing is proved anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fxmorph.propose.gate.outcomes import OUTCOMES, Chain, read_outcomes
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import Judged, Line, Outcome, RecipeProposal, RuleProposal, SeedProposal, read_pack
from fxmorph.rules import PRESERVABLE, Registry, Rule, RuleError, load_rules
from fxmorph.torchapi.devices import seed_generators


def admitted_rule(proposal: RuleProposal, judged: Judged) -> Rule:
    """The rule as it was admitted: with the claim that it may have, without the promises that fell."""
    rule = build_rule(proposal, judged.source)
    fell = {what for what, _ in judged.dropped if what in PRESERVABLE}
    return replace(
        rule, claim=judged.claim or rule.claim, preserves=rule.preserves - fell, fires=frozenset(judged.fires)
    )


def admitted(packs: Path) -> Iterator[tuple[Line, Judged]]:
    """The proposals of a folder of packs that its ``outcomes.json`` admits, in order."""
    said = read_outcomes(packs / OUTCOMES, any_torch=True)
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


def admitted_rules(packs: Path) -> Iterator[Rule]:
    """The rules of a folder of packs that the gate admitted, without proving anything.

    One that this torch cannot build (an operation that it lacks) is left out.
    """
    for line, judged in admitted(packs):
        if isinstance(line.proposal, RuleProposal):
            try:
                yield admitted_rule(line.proposal, judged)
            except ValueError:
                continue


def admitted_chains(packs: Path) -> Iterator[tuple[Chain, frozenset[str]]]:
    """The admitted recipes of a folder of packs, with the units that they made fire in the gate."""
    for line, judged in admitted(packs):
        if isinstance(line.proposal, RecipeProposal):
            yield Chain(line.proposal.name, line.proposal.seeds, line.proposal.rules), frozenset(judged.fires)


def rules_with(packs: Iterable[Path], extra_dirs: Sequence[Path] = ()) -> Registry:
    """All rules (:func:`fxmorph.rules.load_rules`), and the admitted ones of packs; raises ``RuleError``."""
    registry = load_rules(extra_dirs)
    for folder in packs:
        for admitted_rule in admitted_rules(folder):
            registry.add(admitted_rule)
    return registry


def write_seeds(packs: Iterable[Path], folder: Path) -> dict[str, frozenset[str]]:
    """Write the admitted seeds, and what admitted mutations made, as seed files; drop those of before.

    One that this torch cannot build is left out.  Returns by file name the units that a proposal's programs made
    fire in the gate.  Raises ``OSError``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, frozenset[str]] = {}
    for line, judged in (one for place in packs for one in admitted(place)):
        for name, text in _programs(line, judged):
            file = folder / f"{name}_{judged.hash[:8]}.py"
            wanted[file.name] = frozenset(judged.fires)
            if file.exists():
                continue
            try:
                written = text()
            except Exception:  # torch's own errors among them
                continue
            file.write_text(written, encoding="utf-8")
    for old in folder.glob("*.py"):
        if old.name not in wanted:
            old.unlink()
    return wanted


def _programs(line: Line, judged: Judged) -> Iterator[tuple[str, Callable[[], str]]]:
    """Names of a proposal's seed files, and what makes their texts."""
    if isinstance(line.proposal, SeedProposal):
        yield line.proposal.name, partial(_seed, line.proposal)
    for name, text in judged.programs:
        yield name, partial(str, text)


def _seed(proposal: SeedProposal) -> str:
    # Late, since it needs the engine, and rules do not.

    from fxmorph.programs.inputs import InputSet
    from fxmorph.propose.gate.seed_file import make_inputs, meta_of, record, seed_text

    seed_generators(0)
    frozen = InputSet.snapshot(make_inputs(proposal))
    graph = record(proposal, frozen.rebuild())
    origin = f"proposal {proposal.name}, aimed at {proposal.aims}"
    return seed_text(graph, frozen.rebuild(), meta_of(proposal), proposal.doc, origin)
