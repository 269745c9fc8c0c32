"""Passes over constants and arguments, and over the compiler's configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import fx

from fxmorph.programs.canon import names_dimensions
from fxmorph.programs.graph import calls, copy_graph
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.driver import Reduction

ROUNDING = ("emulate_precision_casts",)


def fewer_arguments(search: Reduction) -> None:
    """Each call with its keywords left out, and with the last of its positional constants left out; not dimensions."""
    for name in [n.name for n in calls(search.best.graph)]:
        for key in [k for k in _call(search.best, name).kwargs if not names_dimensions(_call(search.best, name), k)]:
            kept = {k: v for k, v in _call(search.best, name).kwargs.items() if k != key}
            search.attempt(_calling(search.best, name, _call(search.best, name).args, kept))
        while len(args := _call(search.best, name).args) > 1 and not isinstance(args[-1], fx.Node):
            if names_dimensions(_call(search.best, name), len(args) - 1):
                break
            if not search.attempt(_calling(search.best, name, args[:-1], _call(search.best, name).kwargs)):
                break


def plainer_constants(search: Reduction) -> None:
    """Each number made 0, 1, 2 or rounded; each slice without an end.

    Dimensions stay: a pattern that does not look at them would be seen to fail at those instead.
    """
    for name in [n.name for n in calls(search.best.graph)]:
        place = 0
        while place < len(_places(search.best, name)):
            for made in _plainer(search.best, name, place):
                if search.attempt(made):
                    break
            place += 1


def fewer_settings(search: Reduction) -> None:
    """The compiler's defaults: for everything, then for one setting after the other.

    What keeps roundings stays: without it a difference may be one that the ladder excuses.
    """
    config = search.best.config
    kept = tuple(p for p in config.inductor if p[0] in ROUNDING)
    if search.attempt(replace(search.best, config=replace(config, options=(), inductor=kept, dynamo=()))):
        return
    for group in ("options", "inductor", "dynamo"):
        for pair in getattr(config, group):
            now = search.best.config
            fewer: dict[str, Any] = {group: tuple(p for p in getattr(now, group) if p != pair)}
            if pair[0] not in ROUNDING:
                search.attempt(replace(search.best, config=replace(now, **fewer)))


# -- editing -------------------------------------------------------------------


def _call(program: Candidate, name: str) -> fx.Node:
    return next(n for n in program.graph.nodes if n.name == name)


def _calling(program: Candidate, name: str, args: Any, kwargs: Any) -> Candidate:
    """The program with other arguments of one call, given with nodes of the program's own graph."""
    graph = copy_graph(program.graph)
    named = {n.name: n for n in graph.nodes}
    named[name].args = fx.node.map_arg(args, lambda n: named[n.name])
    named[name].kwargs = fx.node.map_arg(kwargs, lambda n: named[n.name])
    return replace(program, graph=graph)


def _places(program: Candidate, name: str) -> list[Any]:
    """The constants of a call, in order."""
    found: list[Any] = []
    _rewritten(_call(program, name), found, -1, None)
    return found


def _plainer(program: Candidate, name: str, place: int) -> Iterator[Candidate]:
    node = _call(program, name)
    for new in _instead_of(_places(program, name)[place]):
        yield _calling(program, name, *_rewritten(node, [], place, new))


def _instead_of(value: Any) -> Iterator[Any]:
    if isinstance(value, slice):
        yield slice(None)
        yield slice(None, value.stop, value.step)
        yield slice(value.start, None, value.step)
        yield slice(value.start, value.stop)
    elif isinstance(value, int) or math.isfinite(value):
        kind = type(value)
        yield from (kind(n) for n in (0, 1, 2, -1))
        if isinstance(value, float) and abs(value) < 1e6:
            yield float(round(value))


def _rewritten(node: fx.Node, found: list[Any], place: int, new: Any) -> tuple[Any, Any]:
    """The arguments of a call with the constant number ``place`` replaced; constants go to ``found`` in order."""

    def walked(argument: int | str, value: Any) -> Any:
        return value if names_dimensions(node, argument) else _walk(value, found, place, new)

    args = tuple(walked(i, a) for i, a in enumerate(node.args))
    return args, {k: walked(k, v) for k, v in node.kwargs.items()}


def _walk(value: Any, found: list[Any], place: int, new: Any) -> Any:
    """``value`` with the constant number ``place`` replaced; constants go to ``found`` in order."""
    if isinstance(value, (tuple, list)):
        return type(value)(_walk(v, found, place, new) for v in value)
    if isinstance(value, dict):
        return {k: _walk(v, found, place, new) for k, v in value.items()}
    if isinstance(value, bool) or not isinstance(value, (int, float, slice)):
        return value
    found.append(value)
    return new if len(found) - 1 == place else value
