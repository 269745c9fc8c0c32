"""Every graph that one compile passes through, each with the real values that it is called with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.model import CompileConfig
from fxmorph.programs.graph import copy_graph
from fxmorph.programs.inputs import InputSet, Unsupported
from fxmorph.torchapi.compiling import compile_callable, configured
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.eager_pipeline import dynamo_inputs, graphs_in_eager, placeholders
from fxmorph.torchapi.graph_structure import structure
from fxmorph.torchapi.tracking import Tracker, tracked


@dataclass(frozen=True)
class Snapshot:
    """A graph as it was after ``unit`` had changed it, or as ``stage`` began with it (unit "").

    ``line`` is equal for snapshots of one graph module, whose first is what the compiler was given
    and whose last is what it went on with.  ``inputs`` hold one value a placeholder.
    """

    stage: Stage
    unit: str
    line: int
    graph_module: fx.GraphModule
    inputs: InputSet


@dataclass
class Recorder:
    """Takes graphs while a compile is tracked, and values while the compiled program runs."""

    _taken: list[tuple[Stage, str, int, fx.GraphModule]] = field(default_factory=list)
    _owners: list[fx.GraphModule] = field(default_factory=list)
    _called: list[tuple[tuple[str, ...], InputSet]] = field(default_factory=list)

    def see(self, stage: Stage, unit: str, graph_module: fx.GraphModule) -> None:
        """Keep a copy, unless the line's last graph is the same."""
        line = next((i for i, owner in enumerate(self._owners) if owner is graph_module), len(self._owners))
        if line == len(self._owners):
            self._owners.append(graph_module)
        last = next((t[3] for t in reversed(self._taken) if t[2] == line), None)
        if last is None or structure(last.graph) != structure(graph_module.graph):
            copied = fx.GraphModule(graph_module, copy_graph(graph_module.graph))
            self._taken.append((stage, unit, line, copied))

    def call(self, names: tuple[str, ...], values: Sequence[Any]) -> None:
        """Keep the values that a graph is called with; those that cannot be rebuilt are let go."""
        with contextlib.suppress(Unsupported):
            self._called.append((names, InputSet.snapshot(_detached(values))))

    def snapshots(self) -> list[Snapshot]:
        """In the order of the compile; without those whose inputs were never seen, as code that did not run."""
        found = ((taken, self._inputs(placeholders(taken[3]))) for taken in self._taken)
        return [Snapshot(*taken, inputs) for taken, inputs in found if inputs is not None]

    def _inputs(self, names: tuple[str, ...]) -> InputSet | None:
        """The values of placeholders of these names, from one call or, for a joint graph, from both of its parts."""
        for seen, inputs in self._called:
            if seen == names:
                return inputs
        values: dict[str, Any] = {}
        for seen, inputs in self._called:
            values |= {n: v for n, v in zip(seen, inputs.rebuild(), strict=True) if n not in values}
        return InputSet.snapshot([values[n] for n in names]) if names and set(names) <= set(values) else None


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """What is compiled by Inductor inside is recorded; its graphs run in eager, nothing is generated."""
    recorder = Recorder()
    tracker = Tracker(see=recorder.see, eager=True)
    with tracked(tracker), graphs_in_eager(recorder.call), dynamo_inputs(recorder.call):
        yield recorder


def snapshots(fn: Callable[..., Any], inputs: InputSet, config: CompileConfig) -> list[Snapshot]:
    """Every graph of one compile of ``fn`` called with ``inputs``, backward included where it requires grad.

    Raises what the compile or the run raises.
    """
    with configured(config), recording() as recorder:
        outputs = compile_callable(fn, config)(*inputs.rebuild())
        losses = [t.sum() for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
        if losses:
            torch.autograd.backward(losses, [torch.ones_like(loss) for loss in losses])
    return recorder.snapshots()


def pairs(taken: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, Snapshot]]:
    """(before, after) of each step that changed a graph; ``after.unit`` names the step."""
    last: dict[int, Snapshot] = {}
    for snapshot in taken:
        if snapshot.unit and snapshot.line in last:
            yield last[snapshot.line], snapshot
        last[snapshot.line] = snapshot


def _detached(values: Sequence[Any]) -> list[Any]:
    return [v.detach() if isinstance(v, torch.Tensor) else v for v in values]
