"""Programs that a pass's own patterns describe: search functions on their example inputs, and pattern expressions."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.derive.derived_graph import InputSpec
from fxmorph.inductor.derive.search_function import VARIATIONS, traced_search
from fxmorph.inductor.derive.sketch import Misfit as NoSketch
from fxmorph.inductor.derive.sketch import sketch
from fxmorph.inductor.firing.small_program import Misfit, SmallProgram, program_of, tensor_spec
from fxmorph.programs.graph import read_graph
from fxmorph.torchapi.own_patterns import entries_of, is_replacement, traced_pattern
from fxmorph.torchapi.pattern_expressions import UnknownExpression, expression_of
from fxmorph.torchapi.patterns import Source

#: Attempts at a program from one expression, and entries of one pass that are tried.
ATTEMPTS, ENTRIES = 12, 40
#: Shapes of the inputs of a pattern that brings no example inputs, one for all of them, the likeliest first.
_SHAPES = ((4, 4), (2, 4, 4), (2, 4, 4, 4), (4,))


def pattern_programs(noted: Sequence[Source], patterns: Sequence[Any]) -> Iterator[SmallProgram]:
    """Of what was registered with functions, then of expressions."""
    for source in noted[:ENTRIES]:
        yield from _of_function(source)
    for each in patterns:
        for entry in entries_of(each)[:ENTRIES]:
            if not (noted and is_replacement(entry)):  # its function says more
                yield from _of_expression(entry)


def _of_function(source: Source) -> Iterator[SmallProgram]:
    name = f"pattern {getattr(source.search_fn, '__name__', 'search')}"
    if not source.example_inputs:
        yield from _of_traced(source.search_fn, name)
        return
    for variation in VARIATIONS:
        with contextlib.suppress(NoSketch, Misfit):
            yield replace(program_of(*traced_search(source, False, variation), name), stated=True)


#: What a pattern is given for a parameter that is no tensor, by its annotation and else by its name.
_BY_TYPE: dict[str, Any] = {"float": 0.5, "int": 1, "bool": True, "torch.dtype": torch.float32, "dtype": torch.float32}
_BY_NAME: dict[str, Any] = {
    "eps": 1e-5, "epsilon": 1e-5, "dim": -1, "axis": -1, "dtype": torch.float32, "out_dtype": torch.float32,
}  # fmt: skip


def scalars_of(pattern: Any) -> dict[str, Any]:
    """Values for the parameters of a pattern that are numbers or dtypes."""
    try:
        parameters = inspect.signature(pattern).parameters.values()
    except (TypeError, ValueError):
        return {}
    found = {}
    for p in parameters:
        said = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
        bare = p.annotation is p.empty
        if said in _BY_TYPE or (bare and p.name in _BY_NAME):
            found[p.name] = _BY_NAME.get(p.name, _BY_TYPE.get(said))
    return found


def _of_traced(pattern: Any, name: str) -> Iterator[SmallProgram]:
    """Of a pattern of ``subgraph_rewriter``: one size for all inputs."""
    try:
        graph = traced_pattern(pattern).graph
    except Exception:  # what a pattern does when it is traced is its own
        return
    scalars = scalars_of(pattern)
    for node in [n for n in graph.nodes if n.op == "placeholder" and n.name in scalars]:
        node.replace_all_uses_with(scalars[node.name])
        graph.erase_node(node)
    count = sum(node.op == "placeholder" for node in graph.nodes)
    for shape in _SHAPES:
        with contextlib.suppress(Misfit):
            yield program_of(_tuple_returned(graph), [tensor_spec(shape)] * count, name)


def _tuple_returned(graph: fx.Graph) -> fx.Graph:
    for node in graph.nodes:
        if node.op == "output" and isinstance(node.args[0], fx.Node):
            node.args = ((node.args[0],),)
    return graph


def _of_expression(entry: Any) -> Iterator[SmallProgram]:
    name = f"pattern {getattr(getattr(entry, 'handler', None), '__name__', 'expression')}"
    try:
        expression = expression_of(entry.pattern)
    except (UnknownExpression, TypeError, AttributeError):
        return
    for attempt in range(ATTEMPTS):
        with contextlib.suppress(Exception):  # an attempt that fits no shapes
            found = sketch(expression, 0, attempt, False)
            specs: list[InputSpec] = list(found.inputs)
            yield replace(program_of(read_graph(found.text), specs, name), stated=is_replacement(entry))
