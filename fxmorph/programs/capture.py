"""Seeds to FX graphs: what Dynamo hands to a backend, and what AOTAutograd makes of it.

A :class:`Captured` graph has only placeholders, calls and one output: parameters, buffers
and constants are inputs.  Its inputs are frozen as they were when the graph was called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.model import CompileConfig, GraphLevel, TensorSpec, ValuePlan
from fxmorph.programs.contents import look_into
from fxmorph.programs.graph import Unprintable, calls, copy_graph, graph_hash, print_graph
from fxmorph.programs.inputs import InputSet, NotApplicable, Unsupported
from fxmorph.programs.load import Invocation
from fxmorph.programs.values import Step, apply_plan
from fxmorph.torchapi.compiling import configured, reset
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tree_leaves, unset_fake_temporarily


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


def _run(invocation: Invocation, backend: Callable[..., Any], config: CompileConfig, no_grad: bool) -> Any:
    reset()
    with torch.set_grad_enabled(not no_grad), configured(config):
        seed_generators(2)
        return invocation.drive(torch.compile(invocation.fn, backend=backend, dynamic=False))


def capture_torch(invocation: Invocation, config: CompileConfig, no_grad: bool) -> list[Captured]:
    """Torch-level graphs of a fresh program, in the order of their first calls.

    Raises :class:`CaptureFailed`.
    """
    recording = Recording()
    try:
        _run(invocation, recording, config, no_grad)
    except Exception as error:
        raise CaptureFailed(said(error)) from error
    finally:
        reset()
    graphs = [g for g in recording.graphs if calls(g.graph)]
    if not graphs:
        why = recording.refused[0] if recording.refused else "Dynamo found nothing to compile"
        raise CaptureFailed(why)
    return graphs


def capture_aten(invocation: Invocation, config: CompileConfig, no_grad: bool) -> list[Captured]:
    """ATen-level graphs through AOTAutograd itself: inference graphs, or joint, forward and backward ones.

    Each has the arguments of its first call; a joint graph has those of its forward graph, and unit tangents.
    Where the program itself does not run backward, unit gradients of its outputs are sent back; a program whose
    gradients cannot be taken so has no backward graph.  Raises :class:`CaptureFailed`.
    """
    from fxmorph.torchapi.aot import recording_backend

    recording = _AtenRecording()
    try:
        out = _run(invocation, recording_backend(recording), config, no_grad)
        if any(g.part == "forward" for g in recording.graphs) and not recording.ran_backward:
            with contextlib.suppress(Exception), configured(config):
                send_back(out)
    except Exception as error:
        raise CaptureFailed(said(error)) from error
    finally:
        reset()
    if not recording.graphs:
        raise CaptureFailed(recording.refused[0] if recording.refused else "AOTAutograd made no graph")
    return recording.graphs


def send_back(out: Any) -> None:
    """Unit gradients of what is differentiable in a program's result; nothing where nothing is."""
    held = look_into(((f"out{i}", value) for i, value in enumerate(tree_leaves(out)))).tensors.values()
    ends = [t for t in held if t.grad_fn is not None]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(t) for t in ends])


class _AtenRecording:
    """Takes the graphs of AOTAutograd and keeps each, once it is called, with its first arguments."""

    def __init__(self) -> None:
        self.graphs: list[Captured] = []
        self.refused: list[str] = []
        self.ran_backward = False
        #: The joint graph that the next forward graph is cut from, with its constants and tangents.
        self._joint: tuple[fx.Graph, list[torch.Tensor], list[torch.Tensor]] | None = None

    def __call__(self, part: str, gm: fx.GraphModule) -> Callable[[list[Any]], None]:
        joint, self._joint = self._joint, None
        try:
            with unset_fake_temporarily():  # AOTAutograd calls its compilers under a fake mode
                graph, constants = lift_constants(gm)
                if part == "joint":
                    self._joint = graph, constants, _tangents(gm)
        except Unprintable as error:
            self.refused.append(str(error))
            return lambda _: None

        def keep(args: list[Any]) -> None:
            self.ran_backward |= part == "backward"
            plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
            if joint is not None:
                whole, more, tangents = joint
                self._add("joint", whole, [*plain, *tangents, *more])
            differentiable = part == "forward" and _differentiable(gm, args)
            self._add(part, graph, [*(args if differentiable else plain), *constants])

        return keep

    def _add(self, part: str, graph: fx.Graph, values: list[Any]) -> None:
        try:
            self.graphs.append(Captured(graph, InputSet.snapshot(values), GraphLevel.ATEN, part))
        except Unsupported as error:
            self.refused.append(str(error))


def _tangents(joint: fx.GraphModule) -> list[torch.Tensor]:
    """Ones for the gradients that a joint graph is given."""
    fakes = [n.meta["val"] for n in joint.graph.nodes if n.op == "placeholder" and n.name.startswith("tangents")]
    return [
        torch.empty_strided(
            [int(n) for n in fake.shape], [int(n) for n in fake.stride()], dtype=fake.dtype, device=fake.device
        ).fill_(1)
        for fake in fakes
    ]


def _differentiable(forward: fx.GraphModule, args: list[Any]) -> bool:
    """Whether eager takes gradients through a forward graph as it is written.

    It need not: the graph may write to its arguments, or call what only the program's own autograd
    function knows the gradient of.
    """
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            send_back(forward(*InputSet.snapshot(args).rebuild()))
    except Exception:
        return False
    return True


def inputs_under(plan: ValuePlan, base: InputSet, seed: int, step: Step = 0) -> InputSet:
    """The input set with its values changed by a step of a plan, or as found for it; raises :class:`NotApplicable`."""
    if plan is ValuePlan.RESEED:
        raise NotApplicable("reseeding needs the seed's own make_inputs")
    values = base.rebuild()
    apply_plan(plan, values, seed, step)
    return InputSet.snapshot(values)
