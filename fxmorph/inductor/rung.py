"""The pass rung: units of Inductor, each alone, on the graphs that a source gives; judged and proved.

A source is a seed under one mode, a variant of a seed, or a graph derived from a pattern entry.  What a
unit made of a graph is judged by the oracles that judge compiled programs, then validated.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.core.installed_lists import UNITS
from fxmorph.core.said import said
from fxmorph.core.units import Stage, Unit, matches
from fxmorph.inductor.apply import Applied, CannotRun, NotInEager, apply_unit
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.graphs_from_code import has_code, made_graphs
from fxmorph.inductor.inventory import inventory, listed
from fxmorph.inductor.pair_check import check_pair, graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pairs import PLANS, SAFE_PLANS
from fxmorph.inductor.replaying import export_program
from fxmorph.inductor.sampled_calls import SAMPLED, Sampled, sampled_calls
from fxmorph.inductor.stages import Drive, StageGraph, aten_graphs, stage_graphs, stages_of
from fxmorph.model import Case, CompileConfig, Seed, Status, ValuePlan
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
from fxmorph.torchapi.functions_run import functions_noted, telling
from fxmorph.torchapi.operator_samples import NoSamples

#: Graphs with more nodes, or with results of more elements together, are left out: the reference keeps
#: a dozen copies in fp64.
MAX_NODES, MAX_ELEMENTS = 600, 4_000_000


#: CPU seconds after which no further unit is tried on a source.
SOURCE_SECONDS = 60.0
#: CPU seconds for the search for graphs that one unit changes, and how many of them are judged: first, and once all
#: units had their turn.
MADE_TURNS = ((0.8, 120), (5.0, 400))
#: The part that a graph made from a pattern is.
DERIVED = "derived"


class Mode(StrEnum):
    """How a seed is compiled for the graphs of its stages."""

    INFERENCE = "inference"
    DYNAMIC = "dynamic"
    TRAINING = "training"
    FREEZING = "freezing"


@dataclass(frozen=True)
class Source:
    """Where graphs come from: a seed under a mode (its variant ``number``, 0 as it is), a derived graph, operators of
    torch's own tests, or the code of a unit.

    ``favour`` names the rules that a variant's recipe is rather drawn from; ``samples`` is the part of the tests'
    operators, of which ``turn`` says in which dtypes; ``made`` is a unit's name, and ``turn`` then its place in
    :data:`MADE_TURNS`.  Graphs run on ``device``.
    """

    seed: Seed | None = None
    mode: Mode = Mode.INFERENCE
    number: int = 0
    derived: Derived | None = None
    favour: tuple[str, ...] = ()
    samples: int | None = None
    turn: int = 0
    made: str = ""
    device: str = "cpu"

    @property
    def label(self) -> str:
        if self.made:
            return f"{'more ' if self.turn else ''}graphs made for {self.made}"
        if self.samples is not None:
            return f"operator samples {self.samples}.{self.turn}"
        if self.derived is not None:
            return f"pattern {self.derived.entry}" + (f" ({self.derived.change})" if self.derived.change else "")
        assert self.seed is not None
        return f"{self.seed.label} {self.mode}" + (f" variant {self.number}" if self.number else "")


@dataclass(frozen=True)
class PassesJudged:
    """The answer to one source.

    ``tried`` counts graphs by unit where it had something to look at, fired or not; ``cannot`` says why a
    unit did not run alone.  ``skipped`` says why the source gave nothing; ``recipe`` is that of a variant;
    ``seconds`` of CPU are what all of it took.
    """

    pairs: tuple[Pair, ...] = ()
    tried: dict[str, int] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    graphs: int = 0
    skipped: str = ""
    recipe: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Chosen:
    """Units, and the names of those that graphs can be made for from their code."""

    units: tuple[Unit, ...] = ()
    coded: tuple[str, ...] = ()


def chosen(patterns: Collection[str]) -> Chosen:
    """The :func:`chosen_units`, and what can be made for them."""
    units = chosen_units(patterns)
    return Chosen(units, tuple(u.name for u in units if has_code(u)))


def chosen_units(patterns: Collection[str]) -> tuple[Unit, ...]:
    """Units by name, glob, stage or kind, all that eager can run for ``*``; raises ``UnknownUnit`` for one of none."""
    units = inventory()
    UNITS.remember(units)
    out: dict[str, Unit] = {}
    for pattern in patterns:
        found = [u for u in units if pattern in (u.stage.value, u.kind.value) or matches(u.name, pattern)]
        if not found:
            listed(pattern)  # raises, with names like it
        out.update((u.name, u) for u in found)
    return tuple(u for u in units if u.name in out)


def judge_source(
    source: Source, units: Collection[Unit], prover: Prover | None, rules: Registry, campaign_seed: int, folder: Path,
    skip: Collection[str] = (), tell: Callable[[str], None] = lambda _: None,
) -> PassesJudged:  # fmt: skip
    """Every unit of ``units`` on every graph of its stage; ``tell`` hears the unit that runs.

    Without a ``prover`` nothing is proved.  Programs of findings are written below ``folder``.  Raises nothing for
    what graphs and units do.
    """
    began = time.process_time()
    tell("capture")
    judging = _Judging(source, prover, folder, tell)
    at: dict[Stage, dict[str, Unit]] = {}
    only = _made_for(source)
    for unit in units:
        if unit.eager and unit.name not in skip and only in (None, unit.name):
            at.setdefault(stages_of(unit), {})[unit.name] = unit
    try:
        if source.samples is not None:
            wanted = at.get(Stage.DECOMPOSITION, {})
            for sampled in sampled_calls(wanted.values(), source.samples, source.turn, tell, source.device):
                judging.graphs += 1
                if sampled.graph is None:
                    judging.same(sampled)
                else:
                    judging.unit_on(wanted[sampled.unit], sampled.graph, graph_key(sampled.graph))
            return judging.answer()
        graphs, recipe = _graphs(source, units, rules, campaign_seed)
    except (CaptureFailed, SeedFailed, Unsupported, NoSamples) as error:
        return PassesJudged(skipped=str(error))
    for graph in graphs:
        if graph.inputs is None or _large(graph.gm.graph):
            continue
        judging.graphs += 1
        key = graph_key(graph)
        for unit in at.get(graph.stage, {}).values():
            if time.process_time() - began > SOURCE_SECONDS:
                return judging.answer(recipe)
            judging.unit_on(unit, graph, key)
    return judging.answer(recipe)


class _Judging:
    """Units on the graphs of a source, each once on graphs that are the same."""

    def __init__(self, source: Source, prover: Prover | None, folder: Path, tell: Callable[[str], None]) -> None:
        self._source, self._prover, self._folder, self._tell = source, prover, folder, tell
        self._pairs: list[Pair] = []
        self._tried: Counter[str] = Counter()
        self._cannot: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self.graphs = 0

    def answer(self, recipe: str = "") -> PassesJudged:
        return PassesJudged(tuple(self._pairs), dict(self._tried), self._cannot, self.graphs, recipe=recipe)

    def same(self, sampled: Sampled) -> None:
        """What a decomposition makes of a call is the same to the bit."""
        self._tried[sampled.unit] += 1
        self._pairs.append(Pair(sampled.unit, self._source.label, sampled.part, "", 1, Status.CLEAN, nodes=1))

    def unit_on(self, unit: Unit, graph: StageGraph, key: str) -> None:
        """Raises nothing."""
        if (unit.name, key) in self._seen:
            return
        self._seen.add((unit.name, key))
        self._tell(unit.name)
        started = time.process_time()
        try:
            applied = apply_unit(unit, graph.gm)
        except (CannotRun, NotInEager) as error:
            self._cannot[unit.name] = str(error)
            return
        except Exception as error:
            self._cannot[unit.name] = said(error)
            return
        if applied.after is graph.gm:
            return
        self._tried[unit.name] += 1
        if applied.fired:
            try:
                pair = _checked(unit, self._source, graph, applied, key, self._prover, self._folder)
            except Exception as error:  # of ours, or of values that cannot be copied
                self._cannot[unit.name] = f"it fires, and cannot be judged: {said(error)}"
                return
            self._pairs.append(replace(pair, seconds=round(time.process_time() - started, 4)))


def _made_for(source: Source) -> str | None:
    """The one unit that the source's graphs are there for; None for every one of their stage."""
    if source.made:
        return source.made
    return source.derived.entry if source.derived is not None else None


def _large(graph: fx.Graph) -> bool:
    elements = 0
    for node in graph.nodes:
        noted = node.meta.get("val", node.meta.get("example_value"))
        for value in tree_leaves(noted):
            if isinstance(value, torch.Tensor):
                elements += math.prod(n for n in value.shape if isinstance(n, int))
    return len(graph.nodes) > MAX_NODES or elements > MAX_ELEMENTS


def _checked(
    unit: Unit, source: Source, graph: StageGraph, applied: Applied, key: str, prover: Prover | None, folder: Path
) -> Pair:
    of_program = source.derived is None and not source.made
    change = source.derived.change if source.derived else ""
    nodes = len(graph.gm.graph.nodes)
    pair = check_pair(
        Pair(unit.name, source.label, graph.part, key, applied.matches, Status.CLEAN, change=change, nodes=nodes),
        graph,
        applied.after,
        prover if source.samples is None and not source.made else None,
        aliases=of_program and _real_aliases(graph),
        strides=of_program and _final_strides(graph),
        notes=not source.made or graph.stage is not Stage.PRE_GRAD,
        plans=SAFE_PLANS if source.samples is not None else PLANS,
    )
    if pair.status is Status.UNSUPPORTED:  # a proof was not tried: the coverage counts those that were
        return replace(pair, outcome="", method="", unproved="")
    if pair.status is not Status.FINDING:
        return pair
    operations = tuple(sorted({canonical(n).name for n in calls(graph.gm.graph)}))
    pair = replace(pair, operations=operations, functions=_functions(unit, graph))
    with contextlib.suppress(Exception):  # a finding stands without its program
        return replace(pair, program=_exported(pair, graph, applied.after, folder))
    return pair


def _functions(unit: Unit, graph: StageGraph) -> tuple[str, ...]:
    """The functions of torch that do the unit's work on the graph."""
    with contextlib.suppress(Exception), functions_noted() as run:  # the pair is judged without them
        apply_unit(unit, graph.gm)
    return telling(run, unit.stage)


def _real_aliases(graph: StageGraph) -> bool:
    """Whether which outputs share memory is what the program will see."""
    return graph.part in ("inference", "forward", "backward") or graph.part.startswith(SAMPLED)


def _final_strides(graph: StageGraph) -> bool:
    """Whether the strides of outputs are those that the program will see.

    Inductor records them after the passes of the joint stage, and later ones may change them: they are restored.
    """
    return graph.stage is Stage.JOINT and graph.part == "inference"


def _exported(pair: Pair, graph: StageGraph, after: fx.GraphModule, folder: Path) -> str:
    assert graph.inputs is not None
    kinds = "-".join(pair.kinds)
    name = f"{pair.unit} {kinds} {pair.graph} {pair.source} {pair.part}"
    where = folder / hashlib.sha256(name.encode()).hexdigest()[:12]
    settings = dict(listed(pair.unit).settings)
    if graph.stage is Stage.FREEZING:
        settings = {"freezing": True, **settings}
    title = f"What {pair.unit} was given ({pair.source}, {pair.part}): {kinds}: {pair.reason}"
    return export_program(where, title, graph.gm, after, graph.inputs, ValuePlan(pair.plan or "seed"), settings)


# -- graphs -----------------------------------------------------------------------


def _graphs(
    source: Source, units: Collection[Unit], rules: Registry, campaign_seed: int
) -> tuple[Iterable[StageGraph], str]:
    """The source's graphs, and the recipe of a variant."""
    if source.derived is not None:
        return [_derived_graph(source.derived, source.device)], ""
    if source.made:
        seconds, most = MADE_TURNS[source.turn]
        return itertools.islice(made_graphs(listed(source.made).unit, seconds, source.device), most), ""
    assert source.seed is not None
    loaded = load_seed(source.seed, source.device)
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
        graphs += aten_graphs(fn, training=training, drive=drive)
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
    case = Case(
        source.seed, source.number, campaign_seed, plans=(ValuePlan.SEED,), compile=CompileConfig.make(),
        device=source.device,
    )  # fmt: skip
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


def _derived_graph(derived: Derived, device: str) -> StageGraph:
    """Raises :class:`CaptureFailed` for what cannot be on the device."""
    stage = stages_of(listed(derived.entry).unit)
    try:
        return StageGraph(stage, DERIVED, derived.graph_module(device), InputSet.snapshot(derived.values(0, device)))
    except Exception as error:
        if device == "cpu":
            raise
        raise CaptureFailed(f"not on {device}: {said(error)}") from error
