"""The graphs that the stages of one compile take, with the inputs that they were really run on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.core.units import Stage, Unit
from fxmorph.inductor.apply import apply_unit, clone_module
from fxmorph.inductor.inventory import UnknownUnit, listed
from fxmorph.model import CompileConfig
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.inputs import InputSet, Unsupported
from fxmorph.programs.observe import loss_of
from fxmorph.torchapi.compiling import configured, reset
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tree_leaves, unset_fake_temporarily
from fxmorph.torchapi.stage_graphs import Decompositions, aten_backend, stage_backend

Drive = Callable[[Callable[..., Any]], Any]

#: Passes that others of the stage count on: their result is one more graph of the stage.
_PREPARING = {
    Stage.PRE_GRAD: "pre_grad.normalization_pass",
    Stage.FREEZING: "freezing.constant_fold",
    Stage.POST_GRAD: "post_grad.normalization_aten_pass",
}


@dataclass(frozen=True)
class StageGraph:
    """A graph as a stage takes it.

    ``part``: ``torch`` before AOTAutograd; then ``inference``, ``joint``, ``forward``, ``backward`` or
    ``frozen``; ``(prepared)`` is added after the pass that others of the stage count on.  ``inputs`` is None
    where the graph never ran, or ran on what cannot be rebuilt.
    """

    stage: Stage
    part: str
    gm: fx.GraphModule
    inputs: InputSet | None


def stages_of(unit: Unit) -> Stage:
    """The stage whose graphs a unit takes."""
    if unit.name == "post_grad.view_to_reshape":
        return Stage.AOT  # it makes what the other passes of post_grad take
    if unit.stage is Stage.PARTITIONER:
        return Stage.AOT  # the graphs that it makes
    return unit.stage


def stage_graphs(
    fn: Callable[..., Any],
    inputs: Sequence[Any] = (),
    training: bool = False,
    dynamic: bool = False,
    freezing: bool = False,
    drive: Drive | None = None,
    prepared: bool = True,
) -> list[StageGraph]:
    """The graphs of one compile of ``fn`` by stage.

    The program is ``drive(compiled)``, without it ``compiled(*inputs)`` on copies of the inputs; if
    ``training``, a backward of what it returns follows.  A program that raises gives the graphs that ran
    before.  ``prepared`` adds what passes leave that others count on.  Subgraphs of higher-order operators
    are part of the graphs that call them.  Raises :class:`CaptureFailed` where nothing ran.
    """
    if training and freezing:
        raise ValueError("freezing is for inference alone")
    settings = {"freezing": True} if freezing else {}
    found = _watched(stage_backend, fn, drive or _calling(inputs), training, dynamic, settings)
    return [*found, *(_prepared(found) if prepared else ())]


def aten_graphs(
    fn: Callable[..., Any],
    inputs: Sequence[Any] = (),
    training: bool = False,
    dynamic: bool = False,
    drive: Drive | None = None,
    decompositions: Decompositions | None = None,
) -> list[StageGraph]:
    """The graphs of AOTAutograd before any pass: as decompositions take them, or under those of a table.

    The program runs as in :func:`stage_graphs`, which tells what is raised.
    """
    backend = functools.partial(aten_backend, decompositions or {})
    return _watched(backend, fn, drive or _calling(inputs), training, dynamic, {})


def _watched(
    make_backend: Callable[..., Any],
    fn: Callable[..., Any],
    drive: Drive,
    training: bool,
    dynamic: bool,
    settings: dict[str, Any],
) -> list[StageGraph]:
    watching = _Watching()
    reset()
    why = "Dynamo found nothing to compile"
    try:
        with torch.set_grad_enabled(training), configured(CompileConfig.make("inductor", {}, settings, {})):
            seed_generators(2)
            result = drive(torch.compile(fn, backend=make_backend(watching.see, watching.ran), dynamic=dynamic))
            if training:
                _backward(result)
    except Exception as error:
        why = said(error)
    finally:
        reset()
    found = watching.graphs()
    if not found:
        raise CaptureFailed(why)
    return found


def _calling(inputs: Sequence[Any]) -> Drive:
    return lambda compiled: compiled(*InputSet.snapshot(inputs).rebuild())


def _backward(result: Any) -> None:
    loss = loss_of([t for t in tree_leaves(result) if isinstance(t, torch.Tensor)], False)
    if loss is not None:
        loss.backward()


def _prepared(graphs: Sequence[StageGraph]) -> Iterator[StageGraph]:
    for graph in graphs:
        name = _PREPARING.get(graph.stage)
        if name is None:
            continue
        try:
            applied = apply_unit(listed(name).unit, graph.gm)
        except UnknownUnit:
            continue
        except Exception:  # its failure shows when the unit itself is judged
            continue
        if applied.fired:
            yield StageGraph(graph.stage, f"{graph.part} (prepared)", applied.after, graph.inputs)


@dataclass
class _Kept:
    number: int
    stage: str
    part: str
    gm: fx.GraphModule


@dataclass
class _Run:
    """What the placeholders of one graph were given: ``inputs`` in the order of ``names``."""

    names: tuple[str, ...]
    inputs: InputSet


@dataclass
class _Watching:
    """Keeps graphs as they pass, and the first inputs of each compiled one."""

    kept: list[_Kept] = field(default_factory=list)
    runs: dict[tuple[int, str], _Run | None] = field(default_factory=dict)

    def see(self, number: int, stage: str, part: str, gm: fx.GraphModule) -> fx.GraphModule:
        copy = clone_module(gm)
        self.kept.append(_Kept(number, stage, part, copy))
        return copy

    def ran(self, number: int, part: str, names: Sequence[str], values: Sequence[Any]) -> None:
        if (number, part) in self.runs:
            return
        try:
            with unset_fake_temporarily():
                self.runs[number, part] = _Run(tuple(names), InputSet.snapshot(values))
        except Unsupported:
            self.runs[number, part] = None

    def graphs(self) -> list[StageGraph]:
        ran = {number for number, _ in self.runs}  # a compile that Dynamo started over never ran
        return [StageGraph(Stage(k.stage), k.part, k.gm, self._inputs(k)) for k in self.kept if k.number in ran]

    def _inputs(self, kept: _Kept) -> InputSet | None:
        """Of a graph that is not run itself, from the graphs that it was split or frozen into, by names."""
        own = self.runs.get((kept.number, kept.part))
        names = tuple(n.name for n in kept.gm.graph.nodes if n.op == "placeholder")
        if own is not None and own.names == names:
            return own.inputs
        known: dict[str, Any] = {}
        for part in ("parameters", "frozen", "inference", "backward", "forward"):
            run = self.runs.get((kept.number, part))
            if run is not None:
                known.update(zip(run.names, run.inputs.rebuild(), strict=True))
        if not set(names) <= known.keys():
            return None
        return InputSet.snapshot([known[name] for name in names])
