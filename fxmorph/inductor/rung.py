"""The pass rung: units of Inductor, each alone, on the graphs that a source gives; judged and proved.

A source is a seed under one mode, a variant of a seed, or a graph derived from a pattern entry.  What a
unit made of a graph is judged by the oracles that judge compiled programs, then validated.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.core.records import SPARSE
from fxmorph.core.units import Stage, Unit, matches
from fxmorph.inductor.apply import CannotRun, NotInEager, apply_unit, module_structure
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.derive.near_misses import sort_of
from fxmorph.inductor.inventory import inventory, listed
from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.inductor.replaying import export_program
from fxmorph.inductor.stages import Drive, StageGraph, stage_graphs, stages_of, undecomposed_graphs
from fxmorph.inductor.validation import refuted, validate
from fxmorph.model import Case, CompileConfig, Kind, Level, Seed, Status, ValuePlan, VerdictCode
from fxmorph.programs.canon import canonical
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.graph import calls, function_of
from fxmorph.programs.inputs import InputSet, Unsupported
from fxmorph.programs.load import LoadedSeed, SeedFailed, load_seed
from fxmorph.prove.prover import Prover
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.recipes import draw_recipe
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry
from fxmorph.torchapi.dispatch import tree_leaves

#: Graphs with more nodes, or with results of more elements together, are left out: the reference keeps
#: a dozen copies in fp64.
MAX_NODES, MAX_ELEMENTS = 600, 4_000_000


#: CPU seconds after which no further unit is tried on a source.
SOURCE_SECONDS = 60.0
#: The part that a graph made from a pattern is.
DERIVED = "derived"
#: How entries that are registered several times for one pattern differ in name.
_VARIANT = re.compile(r"(_bs1|_half|_inference|_training)*(#\d+)?$")
#: How entries of one name are numbered, and what follows.
_NUMBERED = re.compile(r"(_\d+[^/]*|#\d+)$")


class Mode(StrEnum):
    """How a seed is compiled for the graphs of its stages."""

    INFERENCE = "inference"
    DYNAMIC = "dynamic"
    TRAINING = "training"
    FREEZING = "freezing"


@dataclass(frozen=True)
class Source:
    """Where graphs come from: a seed under a mode (its variant ``number``, 0 as it is), or a derived graph.

    ``favour`` names the rules that a variant's recipe is rather drawn from.
    """

    seed: Seed | None = None
    mode: Mode = Mode.INFERENCE
    number: int = 0
    derived: Derived | None = None
    favour: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        if self.derived is not None:
            return f"pattern {self.derived.entry}" + (f" ({self.derived.change})" if self.derived.change else "")
        assert self.seed is not None
        return f"{self.seed.label} {self.mode}" + (f" variant {self.number}" if self.number else "")


@dataclass(frozen=True)
class Pair:
    """A unit that fired on a graph, and what was found of it.

    ``graph`` is a hash of the structure before and of what its inputs are like; ``outcome``, ``level``,
    ``method`` and ``unproved`` are those of a :class:`~fxmorph.inductor.validation.Validation`, ``outcome`` ""
    where there was none.  ``program`` is the graph as a seed file and ``operations`` what it calls, for
    findings; ``change`` what made a near miss of a derived graph.  ``edges`` are the sorts of edge case that ``reason``
    tells of.
    """

    unit: str
    source: str
    part: str
    graph: str
    matches: int
    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    plan: str = ""
    outcome: str = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    assumptions: tuple[str, ...] = ()
    unproved: str = ""
    counterexample: str = ""
    program: str = ""
    change: str = ""
    operations: tuple[str, ...] = ()
    seconds: float = 0.0

    proof_seconds: float = 0.0
    edges: tuple[VerdictCode, ...] = field(default=(), metadata=SPARSE)

    @property
    def sort(self) -> str:
        """What sort of change made a near miss; "" for a graph as it is."""
        return sort_of(self.change) if self.change else ""

    @property
    def place(self) -> str:
        """Where the fault lies: the unit, or the patterns that are made like the one that does not see a change."""
        return kin(self.unit) if self.sort else family(self.unit)


def kin(entry: str) -> str:
    """The entry's name without its number: patterns of one name are made alike, and have their check in common."""
    return _NUMBERED.sub("", entry, count=1)


def family(unit: str) -> str:
    """The unit's name without what tells apart entries that are registered for one pattern."""
    return _VARIANT.sub("", unit, count=1)


@dataclass(frozen=True)
class PassesJudged:
    """The answer to one source.

    ``tried`` counts graphs by unit where it had something to look at, fired or not; ``cannot`` says why a
    unit did not run alone.  ``skipped`` says why the source gave nothing; ``recipe`` is that of a variant.
    """

    pairs: tuple[Pair, ...] = ()
    tried: dict[str, int] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    graphs: int = 0
    skipped: str = ""
    recipe: str = ""


def chosen_units(patterns: Collection[str]) -> tuple[Unit, ...]:
    """Units by name, glob, stage or kind, all that eager can run for ``*``; raises ``UnknownUnit`` for one of none."""
    units = inventory()
    out: dict[str, Unit] = {}
    for pattern in patterns:
        found = [u for u in units if pattern in (u.stage.value, u.kind.value) or matches(u.name, pattern)]
        if not found:
            listed(pattern)  # raises, with names like it
        out.update((u.name, u) for u in found)
    return tuple(u for u in units if u.name in out)


def judge_source(
    source: Source, units: Collection[Unit], prover: Prover, rules: Registry, campaign_seed: int, folder: Path,
    skip: Collection[str] = (), tell: Callable[[str], None] = lambda _: None,
) -> PassesJudged:  # fmt: skip
    """Every unit of ``units`` on every graph of its stage; ``tell`` hears the unit that runs.

    Programs of findings are written below ``folder``.  Raises nothing for what graphs and units do.
    """
    began = time.process_time()
    tell("capture")
    try:
        graphs, recipe = _graphs(source, rules, campaign_seed)
    except (CaptureFailed, SeedFailed, Unsupported) as error:
        return PassesJudged(skipped=str(error))
    pairs: list[Pair] = []
    tried: dict[str, int] = {}
    cannot: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    judged = 0
    by_stage: dict[Stage, list[Unit]] = {}
    for unit in units:
        if unit.eager and unit.name not in skip:
            by_stage.setdefault(stages_of(unit), []).append(unit)
    for graph in graphs:
        if graph.inputs is None or _large(graph.gm.graph):
            continue
        judged += 1
        same = repr((module_structure(graph.gm), graph.inputs.specs()))
        key = hashlib.sha256(same.encode()).hexdigest()[:16]
        mine = [u for u in by_stage.get(graph.stage, ()) if _concerns(u, source)]
        for unit in mine:
            if (unit.name, key) in seen:
                continue
            seen.add((unit.name, key))
            tell(unit.name)
            started = time.process_time()
            if started - began > SOURCE_SECONDS:
                return PassesJudged(tuple(pairs), tried, cannot, judged, recipe=recipe)
            try:
                applied = apply_unit(unit, graph.gm)
            except (CannotRun, NotInEager) as error:
                cannot[unit.name] = str(error)
                continue
            except Exception as error:
                cannot[unit.name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
                continue
            if applied.after is graph.gm:
                continue
            tried[unit.name] = tried.get(unit.name, 0) + 1
            if applied.fired:
                try:
                    pair = _judged(unit, source, graph, applied.after, applied.matches, key, prover, folder)
                except Exception as error:  # of ours, or of values that cannot be copied
                    said = " ".join(str(error).split())[:160]
                    cannot[unit.name] = f"it fires, and cannot be judged: {type(error).__name__}: {said}"
                    continue
                pairs.append(replace(pair, seconds=round(time.process_time() - started, 4)))
    return PassesJudged(tuple(pairs), tried, cannot, judged, recipe=recipe)


def _concerns(unit: Unit, source: Source) -> bool:
    """A graph derived from an entry is for that entry, and as it is for the entry's pass too."""
    if source.derived is None:
        return True
    entry = source.derived.entry
    return unit.name == entry or (not source.derived.change and entry.startswith(f"{unit.name}/"))


def _large(graph: fx.Graph) -> bool:
    elements = 0
    for node in graph.nodes:
        noted = node.meta.get("val", node.meta.get("example_value"))
        for value in tree_leaves(noted):
            if isinstance(value, torch.Tensor):
                elements += math.prod(n for n in value.shape if isinstance(n, int))
    return len(graph.nodes) > MAX_NODES or elements > MAX_ELEMENTS


def _judged(
    unit: Unit, source: Source, graph: StageGraph, after: fx.GraphModule, matches: int, key: str, prover: Prover,
    folder: Path,
) -> Pair:  # fmt: skip
    assert graph.inputs is not None
    inputs = graph.inputs.rebuild()
    of_program = source.derived is None
    verdict = judge_pair(
        graph.gm,
        after,
        inputs,
        aliases=of_program and _real_aliases(graph),
        strides=of_program and _final_strides(graph),
    )
    outcome, level, method, unproved, counterexample, seconds = "", Level.UNKNOWN, "", "", "", 0.0
    assumptions: tuple[str, ...] = ()
    if verdict.status not in (Status.UNSUPPORTED, Status.ERROR):
        shown = validate(graph.gm, after, graph.inputs.rebuild(), judged=verdict, prover=prover)
        outcome, level, method, seconds = str(shown.outcome), shown.level, shown.method, shown.seconds
        assumptions, unproved, counterexample = shown.assumptions, shown.reason, shown.counterexample
        verdict = refuted(verdict, shown)
    program = ""
    operations: tuple[str, ...] = ()
    if verdict.status is Status.FINDING:
        operations = tuple(sorted({canonical(n).name for n in calls(graph.gm.graph)}))
        with contextlib.suppress(Exception):  # a finding stands without its program
            program = _exported(unit, source, graph, after, verdict, key, folder)
    return Pair(
        unit.name, source.label, graph.part, key, matches, verdict.status, verdict.kinds, verdict.reason,
        str(verdict.plan or ""), outcome, level, method, assumptions, unproved, counterexample, program,
        source.derived.change if source.derived else "", operations, proof_seconds=seconds,
        edges=verdict.edges,
    )  # fmt: skip


def _real_aliases(graph: StageGraph) -> bool:
    """Whether which outputs share memory is what the program will see."""
    return graph.part in ("inference", "forward", "backward")


def _final_strides(graph: StageGraph) -> bool:
    """Whether the strides of outputs are those that the program will see.

    Inductor records them after the passes of the joint stage, and later ones may change them: they are restored.
    """
    return graph.stage is Stage.JOINT and graph.part == "inference"


def _exported(
    unit: Unit, source: Source, graph: StageGraph, after: fx.GraphModule, verdict: PairVerdict, key: str, folder: Path
) -> str:
    assert graph.inputs is not None
    kinds = "-".join(verdict.kinds)
    where = folder / hashlib.sha256(f"{unit.name} {kinds} {key} {source.label} {graph.part}".encode()).hexdigest()[:12]
    settings = (
        {"freezing": True, **listed(unit.name).settings}
        if graph.stage is Stage.FREEZING
        else dict(listed(unit.name).settings)
    )
    title = f"What {unit.name} was given ({source.label}, {graph.part}): {kinds}: {verdict.reason}"
    return export_program(where, title, graph.gm, after, graph.inputs, verdict.plan or ValuePlan.SEED, settings)


# -- graphs -----------------------------------------------------------------------


def _graphs(source: Source, rules: Registry, campaign_seed: int) -> tuple[list[StageGraph], str]:
    """The source's graphs, and the recipe of a variant."""
    if source.derived is not None:
        return [_derived_graph(source.derived)], ""
    assert source.seed is not None
    loaded = load_seed(source.seed)
    if source.number:
        return _variant_graphs(loaded, source, rules, campaign_seed)
    training = source.mode is Mode.TRAINING
    if training and loaded.no_grad:
        raise CaptureFailed("the seed runs without gradients")

    def fresh() -> tuple[Callable[..., Any], Drive]:
        made = loaded.fresh()
        return made.fn, made.drive

    fn, drive = fresh()
    dynamic = source.mode is Mode.DYNAMIC
    graphs = stage_graphs(fn, training=training, dynamic=dynamic, freezing=source.mode is Mode.FREEZING, drive=drive)
    if source.mode in (Mode.INFERENCE, Mode.TRAINING):
        fn, drive = fresh()
        graphs += undecomposed_graphs(fn, training=training, drive=drive)
    if training and not any(g.part == "joint" for g in graphs):
        raise CaptureFailed("nothing requires grad")
    return graphs, ""


def _variant_graphs(
    loaded: LoadedSeed, source: Source, rules: Registry, campaign_seed: int
) -> tuple[list[StageGraph], str]:
    """The stages of a rewritten seed, so that units see what the corpus does not spell."""
    from fxmorph.core.clock import Clock
    from fxmorph.judge.case import captured_graph
    from fxmorph.programs.graph import print_graph

    assert source.seed is not None
    case = Case(source.seed, source.number, campaign_seed, plans=(ValuePlan.SEED,), compile=CompileConfig.make())
    captured = captured_graph(case, loaded, Clock())
    bench = Workbench(captured.graph, captured.inputs, loaded.no_grad)
    try:
        rng = random.Random(f"passes {campaign_seed} {source.seed.hash} {source.number}")
        recipe = draw_recipe(bench, rules, rng, favour=source.favour)
    except (Unsound, Inapplicable) as error:
        raise CaptureFailed(str(error)) from None
    if not bench.applied:
        raise CaptureFailed("no rewrite applies")
    fn = function_of(print_graph(bench.graph))
    values = captured.inputs.rebuild()
    training = source.mode is Mode.TRAINING and any(getattr(v, "requires_grad", False) for v in values)
    return stage_graphs(fn, values, training=training, dynamic=source.mode is Mode.DYNAMIC), str(recipe)


def _derived_graph(derived: Derived) -> StageGraph:
    stage = stages_of(listed(derived.entry).unit)
    return StageGraph(stage, DERIVED, derived.graph_module(), InputSet.snapshot(derived.values()))
