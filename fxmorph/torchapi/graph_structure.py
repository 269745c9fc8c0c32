"""When two FX graphs are the same: what tells whether a pass changed one, or wrote it otherwise alone."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import OpOverload, aten_packet, schema_of


def structure(graph: fx.Graph) -> tuple[Any, ...]:
    """Equal for graphs with the same calls in the same order; node names do not enter."""
    return _structure(graph.nodes, {n: i for i, n in enumerate(graph.nodes)}, lambda node: (node.args, node.kwargs))


def meaning(graph: fx.Graph) -> tuple[Any, ...]:
    """Equal also where arguments are given by place and by name, where defaults are written out and left out, and
    where attributes have other names and are read elsewhere.
    """
    calls = [node for node in graph.nodes if node.op != "get_attr"]
    names: dict[Any, int] = {}
    for node in (read for call in calls for read in call.all_input_nodes if read.op == "get_attr"):
        names.setdefault(node.target, -2 - len(names))
    number = {node: i for i, node in enumerate(calls)}
    number |= {node: names[node.target] for node in graph.nodes if node.op == "get_attr" and node.target in names}
    return _structure(calls, number, _arguments)


def _structure(
    nodes: Iterable[fx.Node], number: Mapping[fx.Node, int], arguments: Callable[[fx.Node], Any]
) -> tuple[Any, ...]:
    """The calls, with the nodes that they read by their numbers."""

    def show(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return ("%", number.get(value, -1))
        if isinstance(value, (tuple, list)):
            return tuple(map(show, value))
        if isinstance(value, dict):
            return tuple((k, show(v)) for k, v in value.items())
        return repr(value)

    return tuple(
        (n.op, "") if n.op == "placeholder" else (n.op, str(n.target), *map(show, arguments(n))) for n in nodes
    )


def _arguments(node: fx.Node) -> tuple[Any, Any]:
    """Each argument by its name, defaults too; as they are where the target says no names."""
    if node.op in ("call_function", "call_method"):
        for names, defaults in _parameters(node.target):
            given = dict(zip(names, node.args, strict=False))
            if len(node.args) <= len(names) and node.kwargs.keys() <= set(names) - given.keys():
                given |= node.kwargs
                return (), {name: given.get(name, defaults.get(name)) for name in names}
    return node.args, dict(node.kwargs)


@functools.lru_cache(4096)
def _parameters(target: Any) -> Sequence[tuple[Sequence[str], dict[str, Any]]]:
    """Names of parameters with the defaults among them, of each way that a target may be called."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if isinstance(target, OpOverload):
        overloads = [target]
    elif not isinstance(target, str) and (written := _written_in_python(target)):
        return [written]
    elif isinstance(target, str) or getattr(torch, name, None) is target:
        packet = aten_packet(name)
        overloads = [getattr(packet, each) for each in packet.overloads()] if packet is not None else []
    else:
        overloads = []
    found = []
    for overload in overloads:
        arguments = schema_of(overload).arguments
        first = "self" if isinstance(target, (str, OpOverload)) else "input"  # as functions of torch call it
        names = [first if a.name == "self" else a.name for a in arguments]
        found.append((names, {n: a.default_value for n, a in zip(names, arguments, strict=True)}))
    return found


def _written_in_python(function: Any) -> tuple[Sequence[str], dict[str, Any]] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return [p.name for p in parameters], {p.name: p.default for p in parameters if p.default is not p.empty}
