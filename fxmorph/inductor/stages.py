"""The graphs that the stages of one compile take, with the inputs that they were really run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxmorph.capture import CaptureFailed
from fxmorph.inductor.applying import apply_unit, clone_module
from fxmorph.inductor.inventory import UnknownUnit, listed
from fxmorph.inductor.units import Stage, Unit, UnitKind
from fxmorph.inputs import InputSet, Unsupported
from fxmorph.model import CompileConfig
from fxmorph.observe import loss_of
from fxmorph.torchapi.compiling import configured, reset
from fxmorph.torchapi.dispatch import tree_leaves, unset_fake_temporarily
from fxmorph.torchapi.stages import stage_backend, undecomposed_backend

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
    if unit.kind is UnitKind.PASS and unit.name == "post_grad.view_to_reshape":
        return Stage.AOT  # it makes what the other passes of post_grad take
    return unit.stage


def stage_graphs(
    fn: Callable[..., Any],
    inputs: Sequence[Any] = (),
    training: bool = False,
    dynamic: bool = False,
    freezing: bool = False,
    drive: Drive | None = None,
) -> list[StageGraph]:
    """The graphs of one compile of ``fn`` by stage, and those of another one without decompositions.

    With ``freezing`` the latter are left out.  The program is ``drive(compiled)``; without it
    ``compiled(*inputs)`` and, if ``training``, a backward.  Subgraphs of higher-order operators are part
    of the graphs that call them.  Raises :class:`CaptureFailed`.
    """
    if training and freezing:
        raise ValueError("freezing is for inference alone")
    drive = drive or _driver(inputs, training)
    found = compile_graphs(fn, drive, training, dynamic, freezing)
    if not freezing:
        found += compile_graphs(fn, drive, training, dynamic, make_backend=undecomposed_backend)
    if not found:
        raise CaptureFailed("Dynamo found nothing to compile")
    return [*found, *_prepared(found)]


def compile_graphs(
    fn: Callable[..., Any],
    drive: Drive,
    training: bool = False,
    dynamic: bool = False,
    freezing: bool = False,
    make_backend: Callable[..., Any] = stage_backend,
) -> list[StageGraph]:
    """The graphs of one compile of ``fn`` by stage, none where Dynamo found none; raises :class:`CaptureFailed`."""
    config = CompileConfig.make("inductor", {}, {"freezing": True} if freezing else {}, {})
    watching = _Watching()
    reset()
    try:
        with torch.set_grad_enabled(training), configured(config):
            torch.manual_seed(2)
            drive(torch.compile(fn, backend=make_backend(watching.see, watching.ran), dynamic=dynamic))
    except Exception as error:
        raise CaptureFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    finally:
        reset()
    return watching.graphs()


def backpropagate(result: Any) -> None:
    """A backward pass from all that a program returned and that requires grad."""
    loss = loss_of([t for t in tree_leaves(result) if isinstance(t, torch.Tensor)], False)
    if loss is not None:
        loss.backward()


def _driver(inputs: Sequence[Any], training: bool) -> Drive:
    def drive(compiled: Callable[..., Any]) -> None:
        result = compiled(*inputs)
        if training:
            backpropagate(result)

    return drive


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
