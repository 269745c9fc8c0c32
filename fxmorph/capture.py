"""Seeds to FX graphs: what Dynamo hands to a backend, and what AOTAutograd makes of it.

A :class:`Captured` graph has only placeholders, calls and one output: parameters, buffers
and constants are inputs.  Its inputs are frozen as they were when the graph was called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.graph import Unprintable, calls, copy_graph, graph_hash, print_graph
from fxmorph.inputs import InputSet, NotApplicable, Unsupported
from fxmorph.load import Invocation
from fxmorph.model import CompileConfig, GraphLevel, TensorSpec, ValuePlan
from fxmorph.torchapi.compiling import configured, reset
from fxmorph.torchapi.dispatch import unset_fake_temporarily
from fxmorph.values import apply_plan


class CaptureFailed(Exception):
    """The program gives no graph that can be worked on; the message says why."""


@dataclass
class Captured:
    """One graph with the inputs it was called with.

    ``part`` is ``torch`` or, at ATen level, ``inference``, ``forward``, ``joint`` or ``backward``.
    """

    graph: fx.Graph
    inputs: InputSet
    level: GraphLevel
    part: str = "torch"

    @property
    def text(self) -> str:
        """Readable Python; raises :class:`Unprintable`."""
        return print_graph(self.graph)

    @property
    def hash(self) -> str:
        return graph_hash(self.graph)

    def specs(self) -> list[TensorSpec | None]:
        return self.inputs.specs()


def lift_constants(gm: fx.GraphModule) -> tuple[fx.Graph, list[torch.Tensor]]:
    """A copy of the graph whose tensor attributes are placeholders after the others.

    Raises :class:`Unprintable` where the graph holds submodules (control flow, checkpoint).
    """
    graph = copy_graph(gm.graph)
    constants: list[torch.Tensor] = []
    last = next((n for n in reversed(graph.nodes) if n.op == "placeholder"), None)
    for node in list(graph.nodes):
        if node.op == "call_module":
            raise Unprintable(f"submodule {node.target}")
        if node.op != "get_attr":
            continue
        value: Any = gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise Unprintable(f"attribute {node.target} is a {type(value).__name__}")
        with graph.inserting_after(last) if last else graph.inserting_before(next(iter(graph.nodes))):
            new = graph.create_node("placeholder", f"{node.name}_constant", name=f"{node.name}_constant")
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        constants.append(value.detach().clone())
        last = new
    return graph, constants


class Recording:
    """A ``torch.compile`` backend that keeps each graph with its first inputs, and runs it eagerly."""

    def __init__(self) -> None:
        self.graphs: list[Captured] = []
        self.refused: list[str] = []

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any], **_: Any) -> Callable[..., Any]:
        try:
            graph, constants = lift_constants(gm)
        except Unprintable as error:
            self.refused.append(str(error))
            return gm.forward
        seen = False

        def run(*args: Any) -> Any:
            nonlocal seen
            if not seen:
                seen = True
                try:
                    frozen = InputSet.snapshot([*args, *constants])
                    self.graphs.append(Captured(graph, frozen, GraphLevel.TORCH))
                except Unsupported as error:
                    self.refused.append(str(error))
            return gm.forward(*args)

        return run


def _run(invocation: Invocation, backend: Callable[..., Any], config: CompileConfig, no_grad: bool) -> None:
    reset()
    with torch.set_grad_enabled(not no_grad), configured(config):
        torch.manual_seed(2)
        invocation.drive(torch.compile(invocation.fn, backend=backend, dynamic=False))
    reset()


def capture_torch(invocation: Invocation, config: CompileConfig, no_grad: bool) -> list[Captured]:
    """Torch-level graphs of a fresh program, in the order of their first calls.

    Raises :class:`CaptureFailed`.
    """
    recording = Recording()
    try:
        _run(invocation, recording, config, no_grad)
    except Exception as error:
        raise CaptureFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    graphs = [g for g in recording.graphs if calls(g.graph)]
    if not graphs:
        why = recording.refused[0] if recording.refused else "Dynamo found nothing to compile"
        raise CaptureFailed(why)
    return graphs


def capture_aten(invocation: Invocation, config: CompileConfig, no_grad: bool) -> list[Captured]:
    """ATen-level graphs (inference, or forward, joint and backward), through AOTAutograd itself.

    The joint graph is recorded with the forward's inputs and unit tangents.  Raises
    :class:`CaptureFailed`.
    """
    from fxmorph.torchapi.aot import recording_backend

    found: list[Captured] = []
    refused: list[str] = []

    def record(part: str, gm: fx.GraphModule, example: list[Any]) -> None:
        try:
            graph, constants = lift_constants(gm)
        except Unprintable as error:
            refused.append(str(error))
            return
        with unset_fake_temporarily():  # AOTAutograd calls its compilers under a fake mode
            inputs = _placeholders(gm, constants)
        found.append(Captured(graph, inputs, GraphLevel.ATEN, part))

    try:
        _run(invocation, recording_backend(record), config, no_grad)
    except Exception as error:
        raise CaptureFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    if not found:
        raise CaptureFailed(refused[0] if refused else "AOTAutograd made no graph")
    return found


def _placeholders(gm: fx.GraphModule, constants: list[torch.Tensor]) -> InputSet:
    """Inputs with the shapes, strides and dtypes that the graph's placeholders carry."""
    values: list[Any] = []
    torch.manual_seed(3)
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            values.append(int(fake) if fake is not None else 0)
            continue
        shape, stride = [int(s) for s in fake.shape], [int(s) for s in fake.stride()]
        made = torch.empty_strided(shape, stride, dtype=fake.dtype, device=fake.device)
        if fake.dtype.is_floating_point or fake.dtype.is_complex:
            made.normal_()
        else:
            made.zero_()
        values.append(made)
    return InputSet.snapshot([*values, *constants])


def inputs_under(plan: ValuePlan, base: InputSet, seed: int, step: int = 0) -> InputSet:
    """The input set with its values changed by a step of a plan; raises :class:`NotApplicable`."""
    if plan is ValuePlan.RESEED:
        raise NotApplicable("reseeding needs the seed's own make_inputs")
    values = base.rebuild()
    apply_plan(plan, values, seed, step)
    return InputSet.snapshot(values)
