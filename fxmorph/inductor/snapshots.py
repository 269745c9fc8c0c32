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
from fxmorph.torchapi.compiling import caches_off, compile_callable, configured, hooked
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.eager_pipeline import dynamo_inputs, graph_inputs, graphs_in_eager, placeholders
from fxmorph.torchapi.graph_structure import structure
from fxmorph.torchapi.tracking import Tracker, tracked

#: The number of a compile that happens when compiled code runs, and not while Dynamo's graph is compiled.
LATER = 0


@dataclass(frozen=True)
class Snapshot:
    """A graph as it was after ``unit`` had changed it, or as ``stage`` began with it (unit "").

    ``line`` is equal for snapshots of one graph module, whose first is what the compiler was given
    and whose last is what it went on with.  ``inputs`` hold one value a placeholder; ``own`` is the name of the user's
    pass that the unit, a hook, held.
    """

    stage: Stage
    unit: str
    line: int
    graph_module: fx.GraphModule
    inputs: InputSet
    own: str = ""


@dataclass(frozen=True)
class _Taken:
    """A graph as it was; ``compile`` numbers the graph of Dynamo's that it was made of."""

    stage: Stage
    unit: str
    line: int
    graph_module: fx.GraphModule
    compile: int
    own: str


@dataclass
class Recorder:
    """Takes graphs while compiles are tracked, and values when what is compiled is called first."""

    _taken: list[_Taken] = field(default_factory=list)
    _owners: list[fx.GraphModule] = field(default_factory=list)
    _called: list[tuple[int, tuple[str, ...], InputSet]] = field(default_factory=list)
    _compiles: int = 0
    #: The graph of Dynamo's that is compiled now; :data:`LATER` where what is compiled belongs to an earlier one.
    _compile: int = LATER

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Around the compile of one graph of Dynamo's, which may begin anew inside of itself."""
        outer = self._compile
        if outer == LATER:
            self._compiles += 1
            self._compile = self._compiles
        try:
            yield
        finally:
            self._compile = outer

    def see(self, stage: Stage, unit: str, graph_module: fx.GraphModule) -> None:
        """Keep a copy, unless the line's last graph is the same."""
        line = next((i for i, owner in enumerate(self._owners) if owner is graph_module), len(self._owners))
        if line == len(self._owners):
            self._owners.append(graph_module)
        last = next((t.graph_module for t in reversed(self._taken) if t.line == line), None)
        if last is None or structure(last.graph) != structure(graph_module.graph):
            try:
                copied = fx.GraphModule(graph_module, copy_graph(graph_module.graph))
            except ValueError:  # no graph any more, as the compiler will say
                return
            self._taken.append(_Taken(stage, unit, line, copied, self._compile, hooked(unit.partition(".")[2])))

    def compiled(self, names: tuple[str, ...]) -> Callable[[list[Any]], None]:
        """What keeps the values of the first call of a graph; those that cannot be rebuilt are let go."""
        compile, met = self._compile, False

        def called(values: list[Any]) -> None:
            nonlocal met
            if not met:
                met = True
                with contextlib.suppress(Unsupported):
                    self._called.append((compile, names, InputSet.snapshot(_detached(values))))

        return called

    def snapshots(self) -> list[Snapshot]:
        """In the order of the compile; without those whose inputs were never seen, as code that did not run."""
        found = ((taken, self._inputs(taken)) for taken in self._taken)
        kept = ((t, inputs) for t, inputs in found if inputs is not None)
        return [Snapshot(t.stage, t.unit, t.line, t.graph_module, inputs, t.own) for t, inputs in kept]

    def _inputs(self, taken: _Taken) -> InputSet | None:
        """The values of a graph's placeholders, by name, from one call or, for a joint graph, from both of its parts.

        A backward pass may be compiled when it is needed: then only names and shapes say whose it is.
        """
        notes = {n.name: n.meta.get("val", n.meta.get("example_value")) for n in taken.graph_module.graph.nodes}
        names = placeholders(taken.graph_module)
        near = [(seen, inputs) for compile, seen, inputs in self._called if LATER in (compile, taken.compile)
                or compile == taken.compile]  # fmt: skip
        for seen, inputs in near:
            if seen == names and _fit(inputs.rebuild(), [notes[n] for n in names]):
                return inputs
        values: dict[str, Any] = {}
        for seen, inputs in near:
            held = {n: v for n, v in zip(seen, inputs.rebuild(), strict=True) if n in notes}
            if _fit(list(held.values()), [notes[n] for n in held]):
                values |= {n: v for n, v in held.items() if n not in values}
        return InputSet.snapshot([values[n] for n in names]) if names and set(names) <= set(values) else None


def _fit(values: Sequence[Any], notes: Sequence[Any]) -> bool:
    """Whether values have the dtypes and sizes that nodes note; sizes that are symbols may be any."""
    pairs = [(v, n) for v, n in zip(values, notes, strict=True) if isinstance(n, torch.Tensor)]
    return all(
        isinstance(v, torch.Tensor) and v.dtype == n.dtype and v.ndim == n.ndim
        and all(a == b for a, b in zip(v.shape, n.shape, strict=True) if type(b) is int)
        for v, n in pairs
    )  # fmt: skip


@contextlib.contextmanager
def recording(generate: bool = False) -> Iterator[Recorder]:
    """What is compiled by Inductor inside is recorded.

    Its graphs run in eager, and nothing is generated; ``generate``: all is compiled as ever, with caches off, and
    graphs in Inductor's IR are not among what is recorded.
    """
    recorder = Recorder()
    tracker = Tracker(see=recorder.see, eager=not generate)
    ran = graph_inputs if generate else graphs_in_eager
    caches = caches_off() if generate else contextlib.nullcontext()
    with caches, tracked(tracker), ran(recorder.compiled), dynamo_inputs(recorder.compiled, recorder.compiling):
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
