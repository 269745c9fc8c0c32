"""A user's own FX pass, in any of the forms that Inductor takes: found, loaded, and applied to a copy of a graph."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied, clone_module, module_structure
from fxmorph.inductor.own.call import PassError, call, first_parameter, made, require_call
from fxmorph.inductor.own.named_object import guarded, named
from fxmorph.torchapi.optional_passes import as_compiling, metadata_updater, sort_graph

__all__ = ["OwnPass", "PassError", "apply_pass", "load_pass", "own_pass", "source_of"]

#: The entry-point group under which packages offer passes by name.
GROUP = "fxmorph.passes"


@dataclass(frozen=True)
class OwnPass:
    """A pass under the name that the user gave; ``call`` takes a GraphModule and returns what the pass returns."""

    name: str
    call: Callable[[fx.GraphModule], Any]


def load_pass(name: str) -> OwnPass:
    """The pass that ``package.module:attribute``, ``file.py:attribute`` or the name of a plug-in names.

    Raises :class:`PassError`.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon:
        found = [point for point in metadata.entry_points(group=GROUP) if point.name == name]
        if not found:
            raise PassError(f"{name}: no such plug-in; name a pass as module:attribute or file.py:attribute")
        if len(found) > 1:
            raise PassError(f"pass {name!r} is defined twice: {found[0].value} and {found[1].value}")
        return own_pass(guarded(found[0].load, name), name)
    if not attribute:
        raise PassError(f"{name}: want module:attribute or file.py:attribute")
    return own_pass(named(where, attribute), name)


def source_of(value: Any) -> str:
    """The text that an object, or its class, was written as; "" where it is not known."""
    for candidate in (value, type(value)):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(candidate)
    return ""


def own_pass(value: Any, name: str = "") -> OwnPass:
    """A pass of a callable on a Graph or a GraphModule, a ``PatternMatcherPass`` or a ``CustomGraphPass``.

    A class is called without arguments first.  Raises :class:`PassError`.
    """
    name = name or getattr(value, "__name__", type(value).__name__)
    value = made(value, name) if inspect.isclass(value) else value
    if hasattr(value, "patterns") and callable(getattr(value, "apply", None)):
        return OwnPass(name, lambda gm: _matched(value, gm.graph))
    require_call(value, name)
    takes = _takes(value)
    if takes is fx.Graph:
        return OwnPass(name, lambda gm: call(value, gm.graph, name))
    if takes is fx.GraphModule:
        return OwnPass(name, lambda gm: call(value, gm, name))
    return OwnPass(name, lambda gm: _either(value, gm, name))


def _matched(patterns: Any, graph: fx.Graph) -> None:
    """Replacements are inserted where patterns end, so that Inductor sorts graphs after them."""
    patterns.apply(graph)
    sort_graph(graph)


def _takes(value: Any) -> type | None:
    """What the first parameter is by its annotation or its name; None where neither tells."""
    first = first_parameter(value)
    if first is None:
        return None
    said = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    for kind in (fx.GraphModule, fx.Graph):
        if said.rpartition(".")[2].strip("'\"") == kind.__name__:
            return kind
    if first.name in ("gm", "graph_module", "module", "mod"):
        return fx.GraphModule
    return fx.Graph if first.name in ("graph", "g") else None


def _either(value: Any, gm: fx.GraphModule, name: str) -> Any:
    """Inductor hands its custom passes a Graph; what wants more than that gets the module."""
    spare = clone_module(gm)
    try:
        return call(value, gm.graph, name)
    except AttributeError as error:
        if not isinstance(error.obj, fx.Graph):
            raise
    gm.graph = spare.graph
    return call(value, gm, name)


def apply_pass(own: OwnPass, gm: fx.GraphModule, stage: Stage) -> Applied:
    """Run the pass on a copy of a graph of ``stage``, and what Inductor does after such a pass.

    Raises whatever the pass raises, what ``Graph.lint`` does, and :class:`PassError` where it cannot be called.
    """
    after = clone_module(gm)
    with as_compiling(after.graph):
        update = metadata_updater(after) if stage is Stage.POST_GRAD else None
        result = own.call(after)
        result = getattr(result, "graph_module", result)  # a PassResult
        if isinstance(result, fx.GraphModule):
            after = result
        elif isinstance(result, fx.Graph):
            after.graph = result
        after.graph.lint()
        fired = module_structure(after) != module_structure(gm)
        if fired and update is not None:
            with contextlib.suppress(Exception):  # what cannot be propagated cannot run either, which is judged
                update()
    return Applied(after, fired, 0)
