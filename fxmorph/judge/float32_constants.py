"""Kernels of eager that hold a number rounded to float32, in float64 too, as ``hardsigmoid_backward`` holds 1/6.

Such a kernel is off by up to 2⁻²⁴ of its result, its fp64 run is off by the same, and a program that is compiled from
the operator's decomposition is right.  Who is off the numbers of both show: a decomposition has its own in its graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

#: How far float64 results are apart, relative to them, that one number of float32 explains.
APART = 2.0**-23
WIDE = frozenset({torch.float64, torch.complex128})
#: What a program asks for, and no step of a decomposition.
_CASTS = frozenset({"aten._to_copy.default", "prims.convert_element_type.default"})

SAID = "an operator's own kernel holds a number in float32, and its decomposition in float64"


def single(eager: torch.Tensor, compiled: torch.Tensor, where: torch.Tensor) -> bool:
    """Whether float64 results are no further apart, ``where`` they are judged, than a number of float32 puts them."""
    if {eager.dtype, compiled.dtype} != {torch.float64}:
        return False
    return bool(((compiled - eager).abs() <= APART * eager.abs())[where].all())


def computes_in_float64(graphs: Iterable[fx.Graph]) -> bool:
    """Whether all floating-point values of decomposed graphs are float64, and none of their numbers is rounded.

    A node that does not note what it gives counts as one that is not.
    """
    return all(_in_float64(node) for graph in graphs for node in graph.nodes)


def decompose_in_float64(graphs: Iterable[fx.Graph]) -> bool:
    """The same of each decomposition in graphs of AOTAutograd that is given a float64 or gives one.

    What a program itself casts to float32, and computes there, is eager's as well.
    """
    steps = [nodes for graph in graphs for nodes in _decomposed(graph) if any(map(_touches_float64, nodes))]
    return bool(steps) and all(map(_in_float64, itertools.chain(*steps)))


def _decomposed(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """The nodes of each call that was taken apart, by what tracing notes of where they come from; casts are none."""

    def call_of(node: fx.Node) -> Any:
        return node.meta.get("original_aten"), node.meta.get("seq_nr")

    for (operator, _), nodes in itertools.groupby((n for n in graph.nodes if n.op == "call_function"), call_of):
        same = list(nodes)
        if operator is not None and str(operator) not in _CASTS and any(n.target is not operator for n in same):
            yield same


def _touches_float64(node: fx.Node) -> bool:
    return any((_floats(n) or set()) & WIDE for n in (node, *node.all_input_nodes))


def _in_float64(node: fx.Node) -> bool:
    dtypes = _floats(node)
    wide = node.op == "output" or (dtypes is not None and dtypes <= WIDE)
    return wide and not any(map(_rounded, _numbers(node)))


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
