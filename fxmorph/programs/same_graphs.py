"""Whether two seeds are the same test: equal graphs, on inputs that are alike, under equal settings.

Graphs are equal where their calls are the same operations (``canon.py``), however they are spelled; inputs are alike as
``capture`` has it: shape, strides, dtype, shared memory, requires_grad, the range of integers, the sign of floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from fxmorph.model import digest
from fxmorph.programs.canon import canonical
from fxmorph.programs.capture import Captured
from fxmorph.programs.graph import numbered
from fxmorph.programs.harvest import inputs_source


def hash_of_test(graphs: Sequence[Captured], dispatched: Sequence[str], meta: Mapping[str, Any]) -> str:
    """Equal for seeds that are the same test.

    ``dispatched`` are the operators that eager dispatched, in order: what a program does between its graphs and to
    their gradients.  Raises ``Unprintable`` and ``Unsupported`` for what has no text form.
    """
    parts = [[_canonical_lines(g.graph), inputs_source(g.inputs.rebuild(), writes=False)] for g in graphs]
    return digest([parts, list(dispatched), sorted((key, repr(value)) for key, value in meta.items())])


def _canonical_lines(graph: fx.Graph) -> list[str]:
    number = {node: place for place, node in enumerate(graph.nodes)}
    return [_line(node, number) for node in graph.nodes]


def _line(node: fx.Node, number: Mapping[fx.Node, int]) -> str:
    if node.op == "placeholder":
        return node.op
    if node.op == "output":
        return f"{node.op} {numbered(node.args, number)}"
    operation = canonical(node)
    return f"{operation.name} {numbered(dict(operation.arguments), number)}"
