"""A graph that a registered replacement matches: its own search function, traced on its own example inputs."""

from __future__ import annotations

import functools

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.inductor.derive.derived_graph import InputSpec, spec_for
from fxmorph.inductor.derive.sketch import Misfit, Sketch
from fxmorph.programs.graph import Unprintable, print_graph
from fxmorph.torchapi.patterns import Source, search_graph

#: Names of arguments that hold parameters of a frozen model.
_FROZEN = ("w", "b", "s")


#: How the traced graph may be varied, the most likely to fire first.
VARIATIONS = ("numbers", "tensors", "larger", "vectors", "as given")
#: The same with one size throughout, so that dimensions can be taken for one another.
SQUARE = "square"
#: What stands for a 0-d tensor argument that is made a number, by how much sizes grow, and the one size.
_NUMBER, _GROWTH, _SIDE = 2.0, 16, 4
#: Sizes of more are divided: torch's own examples may have millions of elements.
_LARGE, _DIVISOR = 64, 16


def _resized(variation: str, shape: list[int]) -> list[int]:
    if variation == "as given":
        return shape
    if variation == "larger":
        return [shape[0] * _GROWTH, *shape[1:]] if shape else shape
    if variation == SQUARE:
        return [_SIDE if n > 2 else n for n in shape]
    return [n // _DIVISOR if n > _LARGE else n for n in shape]


def searched(source: Source, frozen: bool, variation: str) -> Sketch:
    """The traced search function as text; raises :class:`Misfit`."""
    graph, specs = traced_search(source, frozen, variation)
    try:
        return Sketch(print_graph(graph), specs)
    except Unprintable as error:
        raise Misfit(str(error)) from error


def traced_search(source: Source, frozen: bool, variation: str) -> tuple[fx.Graph, tuple[InputSpec, ...]]:
    """The traced search function, and what its inputs are; raises :class:`Misfit`.

    ``frozen``: weights, biases and scales (by the names of the arguments) are constants.
    ``variation``: ``numbers`` makes 0-d tensors numbers (a scale is one in programs), ``tensors`` keeps
    them, ``larger`` also grows first sizes (for slices that the example inputs do not fill),
    ``vectors`` makes 2-D biases 1-D, ``square`` makes all sizes over 2 one.  Large sizes become smaller in all of them
    but ``larger`` and ``as given``.
    """
    try:
        gm = search_graph(source, functools.partial(_resized, variation))
    except Exception as error:  # the search function is PyTorch's and may raise anything
        raise Misfit(said(error)) from error
    graph, specs = fx.Graph(), []
    seen: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                if node.users:
                    raise Misfit(f"input {node.name} is a {type(value).__name__}")
                continue
            if variation in ("numbers", SQUARE) and not value.ndim and not node.name.startswith("tangents"):
                node.replace_all_uses_with(_NUMBER)  # type: ignore[arg-type]
                continue
            if variation == "vectors" and value.ndim == 2 and node.name.startswith("b"):
                value = value[0]
            constant = frozen and node.name.startswith(_FROZEN)
            fill = _fill(node, value)
            specs.append(spec_for(value, fill, constant))
        seen[node] = graph.node_copy(node, lambda n: seen[n])
        seen[node].meta = {}
    return graph, tuple(specs)


def _fill(node: fx.Node, value: torch.Tensor) -> str:
    """Masks hold 0 and 1, divisors are positive; everything else is normal."""
    if "mask" in node.name and not node.name.startswith("tangents"):
        return "mask"
    return "positive" if "scale" in node.name else "normal"
