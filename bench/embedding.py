"""Known bugs inside larger programs: a host graph around them, and rewrites by the shipped rules all over."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fxmorph.programs.graph import calls, copy_graph, print_graph, read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.recipes import draw_recipe
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry
from fxmorph.triage.reduce.order import outputs

#: Nodes of an embedded program.
FEWEST, MOST = 20, 60
#: One line each of a host; none uses what the plants are planted in.
_LINES = (
    "{a}.abs()", "torch.relu({a})", "{a} * {b}", "{a} + {b}", "{a} - 1.5", "torch.maximum({a}, {b})",
    "torch.sigmoid({a})", "{a}.mT", "{a}.square()", "torch.erf({a})", "{a} * 0.5", "torch.minimum({a}, {b})",
    "{a}.reshape(6, 6)", "{a} / 3.0",
)  # fmt: skip


def host(rng: random.Random, length: int) -> fx.Graph:
    """A graph of ``length`` calls on two 6 by 6 matrices that returns two of its values."""
    names, lines = ["host_x", "host_y"], []
    for i in range(length):
        a, b = (names[-1], rng.choice(names[-5:])) if i else ("host_x", "host_y")
        lines.append(f"    h{i} = {rng.choice(_LINES).format(a=a, b=b)}")
        names.append(f"h{i}")
    text = "def fn(host_x, host_y):\n" + "\n".join(lines) + f"\n    return ({names[-1]}, {names[-3]})\n"
    return read_graph(text)


def embedded(
    graph: fx.Graph, inputs: InputSet, no_grad: bool, rules: Registry, seed: int, shows: Callable[[str, InputSet], bool]
) -> tuple[str, InputSet] | None:
    """The bug's graph as text with its inputs, grown to 20 to 60 calls; None where nothing tried shows the bug.

    Its calls stand between those of the host, what it returns is worked on, and rules are applied anywhere; where
    that hides the bug, to the host alone.
    """
    for attempt in range(12):
        rng = random.Random(f"embedding {seed} {attempt}")
        around = host(rng, 14 - 2 * (attempt % 6 // 2))
        if attempt < 6:
            merged, given = _merged(graph, inputs, around, rng, attempt < 3)
            merged = _rewritten(merged, given, no_grad, rules, rng, FEWEST + (8 if attempt < 2 else 0))
        else:
            around = _rewritten(around, InputSet.snapshot(_matrices()), no_grad, rules, rng, FEWEST)
            merged, given = _merged(graph, inputs, around, rng, attempt < 9)
        text = print_graph(merged)
        if FEWEST <= len(calls(merged)) <= MOST and shows(text, given):
            return text, given
    return None


def _merged(
    graph: fx.Graph, inputs: InputSet, around: fx.Graph, rng: random.Random, consumers: bool
) -> tuple[fx.Graph, InputSet]:
    """One graph of both; calls keep their order within each."""
    made, seen = fx.Graph(), dict[fx.Node, fx.Node]()
    for part in (graph, around):
        for node in part.nodes:
            if node.op == "placeholder":
                name = node.name if part is around else f"bug_{node.name}"
                seen[node] = made.create_node("placeholder", name, name=name)
    queues = [calls(graph), calls(around)]
    while any(queues):
        queue = rng.choice([q for q in queues if q])
        node = queue.pop(0)
        seen[node] = made.node_copy(node, seen.__getitem__)
    values = [fx.node.map_arg(v, seen.__getitem__) for part in (graph, around) for v in outputs(part)]
    after = []
    if consumers:
        for value in values[: len(outputs(graph))]:
            if isinstance(value, fx.Node):
                doubled = made.call_function(torch.mul, (value, 2))
                after.append(made.call_function(torch.add, (doubled, 1)))
    made.output((*values, *after))
    return read_graph(print_graph(made)), InputSet.snapshot([*inputs.rebuild(), *_matrices()])


def _matrices() -> list[torch.Tensor]:
    """The host's inputs."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, 6, generator=generator) for _ in range(2)]


def _rewritten(
    graph: fx.Graph, inputs: InputSet, no_grad: bool, rules: Registry, rng: random.Random, wanted: int
) -> fx.Graph:
    for _ in range(8):
        bench = Workbench(graph, inputs, no_grad)
        try:
            draw_recipe(bench, rules, rng)
        except (Unsound, Inapplicable):
            continue
        if len(calls(bench.graph)) <= MOST and bench.applied:
            graph = copy_graph(bench.graph)
        if len(calls(graph)) >= wanted:
            break
    return graph


def program_of(text: str, meta: dict[str, Any]) -> str:
    """A seed file of an embedded program; its inputs lie beside it in ``inputs.pt``."""
    return f"""import os

import torch
import operator

META = {meta!r}

{text}

def make_inputs():
    return torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs.pt"), weights_only=False)
"""
