"""The gate for what works on the seeds of the corpus: recipes (chains of rules) and mutations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import fx

from fxmorph.model import CompileConfig, Level, Recipe, Rewrite
from fxmorph.programs.capture import Captured
from fxmorph.programs.graph import Unprintable, calls, graph_hash
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.inputs import Unsupported as UnsupportedInput
from fxmorph.programs.load import LoadedSeed, SeedFailed
from fxmorph.propose.gate.decision import Said
from fxmorph.propose.gate.seed_file import seed_text
from fxmorph.propose.gate.seed_gate import runs_alike
from fxmorph.propose.gate.sources import CorpusGraphs
from fxmorph.propose.gate.usefulness import fired_by
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import Judged, Malformed, MutationProposal, Outcome, RecipeProposal, Task, Unsupported
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.matching import pattern_of
from fxmorph.rewriting.recipes import chain_step, draw_chain
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import PRESERVABLE, Registry, Rule, RuleError
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tree_leaves

#: Seeds that a recipe or a mutation is tried on, and how often a chain is drawn on one graph.
SEEDS, DRAWS = 20, 4
#: Seeds that a mutation makes.
MADE = 4
#: Graphs with more calls are left out: judging one proposal takes seconds.
MAX_CALLS = 120
#: How far results of a chain may be from the seed's, relative to the largest; each rewrite is held to its claim
#: at its site, and this catches what is wrong by more than rounding.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-2, torch.float16: 0.2, torch.bfloat16: 0.5}


def judge_recipe(proposal: RecipeProposal, source: str, corpus: CorpusGraphs, rules: Registry) -> Judged:
    """The outcome of a recipe: admitted once a seed takes the whole chain and means the same."""
    judged = Said(proposal, Task.RECIPE, source)
    try:
        for step in proposal.rules:
            chain_step(rules, step)
    except RuleError as error:
        return judged(Outcome.MALFORMED, reason=str(error))
    stems = corpus.matching(proposal.seeds)
    if not stems:
        return judged(Outcome.MALFORMED, reason=f"no seed of the corpus is named {', '.join(proposal.seeds)}")
    best: list[str] = list(proposal.rules)
    for stem, loaded, captured in _graphs(corpus, stems):
        for draw in range(DRAWS):
            try:
                bench = Workbench(captured.graph, captured.inputs, loaded.no_grad)
                missed = draw_chain(bench, rules, proposal.rules, random.Random(f"{proposal.name} {stem} {draw}"))
            except Unsound as error:
                return judged(Outcome.REFUTED, counterexample=f"on {stem}: {error}", reason="a rule of it is unsound")
            except Inapplicable:
                break
            if missed:
                best = min(best, missed, key=len)
                continue
            recipe = str(Recipe(tuple(bench.applied)))
            if graph_hash(bench.graph) == captured.hash:
                best = ["a change of the graph"]
                continue
            apart = _apart(captured.graph, bench.graph, captured.inputs, loaded.no_grad)
            if apart:
                return judged(Outcome.REFUTED, counterexample=f"on {stem}, {recipe}: {apart}")
            fires = fired_by(bench.graph, captured.inputs, loaded.config(CompileConfig()), loaded.no_grad)
            return judged(Outcome.ADMITTED, made=(f"{stem}: {recipe}",), fires=fires)
    return judged(Outcome.UNKNOWN, reason=f"no seed of {len(stems)} takes {', '.join(best)}")


def judge_mutation(proposal: MutationProposal, source: str, corpus: CorpusGraphs) -> Judged:
    """The outcome of a mutation: admitted with the programs that it makes of seeds of the corpus."""
    judged = Said(proposal, Task.MUTATION, source)
    try:
        rule = build_rule(proposal, source)
        rule = replace(rule, claim=Level.UNKNOWN, preserves=frozenset(PRESERVABLE))
        wanted = _operations(rule)
    except Unsupported as error:
        return judged(Outcome.UNSUPPORTED, reason=str(error))
    except Malformed as error:
        return judged(Outcome.MALFORMED, reason=str(error))
    stems = corpus.with_operations(wanted)
    random.Random(proposal.name).shuffle(stems)
    programs: list[tuple[str, str]] = []
    fires: set[str] = set()
    trouble = f"no seed has {', '.join(sorted(wanted))}" if not stems else ""
    for stem, loaded, captured in _graphs(corpus, stems):
        if len(programs) >= MADE:
            break
        try:
            graph = _mutated(rule, proposal, stem, loaded, captured)
            if graph is None:
                continue
            meta = {k: v for k, v in loaded.meta.items() if k in ("no_grad", "config")}
            origin = f"mutation {proposal.name} ({proposal.issue or proposal.aims}) of {stem}"
            text = seed_text(graph, captured.inputs.rebuild(), meta, proposal.doc, origin)
        except (Inapplicable, Unprintable, UnsupportedInput) as error:
            trouble = trouble or f"{stem}: {error}"
            continue
        programs.append((f"{proposal.name}_{stem}"[:100], text))
        fires.update(fired_by(graph, captured.inputs, loaded.config(CompileConfig()), loaded.no_grad))
    if programs:
        made = tuple(name for name, _ in programs)
        return judged(Outcome.ADMITTED, made=made, programs=tuple(programs), fires=tuple(sorted(fires)))
    return judged(Outcome.UNKNOWN, reason=trouble or f"it applies to none of the seeds {', '.join(stems[:SEEDS])}")


def _graphs(corpus: CorpusGraphs, stems: list[str]) -> Iterator[tuple[str, LoadedSeed, Captured]]:
    """The largest graph of each of the first few seeds that have one of bearable size."""
    for stem in stems[:SEEDS]:
        try:
            loaded, graphs = corpus.captured(stem)
        except SeedFailed:
            continue
        fitting = [g for g in graphs if len(calls(g.graph)) <= MAX_CALLS]
        if fitting:
            yield stem, loaded, max(fitting, key=lambda g: len(calls(g.graph)))


def _operations(rule: Rule) -> set[str]:
    """Operations that a graph must have for the rule to apply; raises ``Malformed``."""
    if rule.site != "op":
        return set()
    pattern = pattern_of(rule)
    if pattern is None:
        raise Malformed("before is no pattern: it holds no operation, or it does not run")
    return {op.name for op in pattern.operations.values()}


def _mutated(
    rule: Rule, proposal: MutationProposal, stem: str, loaded: LoadedSeed, captured: Captured
) -> fx.Graph | None:
    """A seed's graph with the mutation at one place; None where it applies nowhere and runs."""
    bench = Workbench(captured.graph, captured.inputs, loaded.no_grad)
    rng = random.Random(f"{proposal.name} {stem}")
    sites = list(bench.sites(rule))
    rng.shuffle(sites)
    for node, match in sites[: 2 * MADE]:
        choices = tuple((n, rng.choice(c)) for n, c in sorted(rule.scalars.items()) if c is not None)
        points = bench.late_points(rule, node) if rule.site == "late" else []
        at = rng.choice(points).name if points else ""
        try:
            bench.apply(rule, Rewrite(rule.id, node.name, at, choices), match)
        except (Inapplicable, Unsound):
            continue
        if graph_hash(bench.graph) == captured.hash or runs_alike(bench.graph, captured.inputs, loaded.no_grad):
            return None
        return bench.graph
    return None


def _apart(old: fx.Graph, new: fx.Graph, inputs: InputSet, no_grad: bool) -> str:
    """How the results of two graphs differ in eager by more than rounding, or ""."""
    left, right = (_results(graph, inputs, no_grad) for graph in (old, new))
    if len(right) < len(left):
        return f"{len(left)} results become {len(right)}"
    for i, (a, b) in enumerate(zip(left, right, strict=False)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype} {tuple(a.shape)} becomes {b.dtype} {tuple(b.shape)}"
        if not (a.is_floating_point() or a.is_complex()):
            if not torch.equal(a, b):
                return f"result {i}: integers differ"
            continue
        both = a.isfinite() & b.isfinite()
        if not bool(both.any()):
            continue
        gap = float((a[both] - b[both]).abs().max()) / max(float(a[both].abs().max()), 1e-6)
        if gap > TOLERANCE.get(a.dtype, 2e-2):
            return f"result {i}: values differ by {gap:.3g} of the largest"
    return ""


def _results(graph: fx.Graph, inputs: InputSet, no_grad: bool) -> list[torch.Tensor]:
    seed_generators(2)
    with torch.set_grad_enabled(not no_grad):
        out = fx.Interpreter(fx.GraphModule(torch.nn.Module(), graph)).run(*inputs.rebuild())
    return [t.detach() for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
