"""Kernels of eager that hold a number rounded to float32, in float64 too, as ``hardsigmoid_backward`` holds 1/6.

Such a kernel is off by up to 2⁻²⁴ of its result, its fp64 run is off by the same, and a program that is compiled from
the operator's decomposition is right.  Who is off the numbers of both show: a decomposition has its own in its graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

#: How far float64 results are apart, relative to them, that one number of float32 explains.
APART = 2.0**-23
WIDE = frozenset({torch.float64, torch.complex128})

SAID = "an operator's own kernel holds a number in float32, and its decomposition in float64"


def single(eager: torch.Tensor, compiled: torch.Tensor, where: torch.Tensor) -> bool:
    """Whether float64 results are no further apart, ``where`` they are judged, than a number of float32 puts them."""
    if {eager.dtype, compiled.dtype} != {torch.float64}:
        return False
    return bool(((compiled - eager).abs() <= APART * eager.abs())[where].all())


def computes_in_float64(graphs: Iterable[fx.Graph]) -> bool:
    """Whether decomposed graphs compute all that is float64 in float64, of numbers of which none is rounded.

    A node that does not note what it gives counts as one that is not.  What else a program computes is not looked at.
    """
    nodes = [node for graph in graphs for node in _behind_wide_results(graph)]
    return bool(nodes) and all(_wide(node) and not any(map(_rounded, _numbers(node))) for node in nodes)


def _behind_wide_results(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that results are computed from, but for results that are known to be no float64."""
    results = [(node, _floats(node)) for node in graph.output_node().all_input_nodes]
    waiting = [node for node, dtypes in results if dtypes is None or dtypes & WIDE]
    found: dict[fx.Node, None] = {}
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += node.all_input_nodes
    return list(found)


def _wide(node: fx.Node) -> bool:
    dtypes = _floats(node)
    return dtypes is not None and dtypes <= WIDE


def _floats(node: fx.Node) -> set[torch.dtype] | None:
    """The floating-point dtypes of what the node gives; None where it does not note that."""
    if "val" not in node.meta:
        return None
    dtypes: set[torch.dtype] = set()

    def note(value: Any) -> None:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            dtypes.add(value.dtype)

    map_aggregate(node.meta["val"], note)
    return dtypes


def _numbers(node: fx.Node) -> list[float]:
    found: list[float] = []

    def note(value: Any) -> None:
        if isinstance(value, complex):
            found.extend((value.real, value.imag))
        elif isinstance(value, float):
            found.append(value)

    map_aggregate((node.args, node.kwargs), note)
    return found


def _rounded(number: float) -> bool:
    """Whether it is one of float32 that needs all of its digits, so that somebody rounded it."""
    wide = torch.tensor(number, dtype=torch.float64)
    return bool(wide.float().double() == wide) and bool(wide.to(torch.bfloat16).double() != wide)
