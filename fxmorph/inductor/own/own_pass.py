"""A user's own FX pass: found, loaded, and applied to a copy of a graph."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied, clone_module, module_structure, only_respelled
from fxmorph.inductor.own.call import PassError, signature_of
from fxmorph.inductor.own.handed import Handed, graph_kind
from fxmorph.inductor.own.named_object import evaluated, guarded, named
from fxmorph.inductor.own.pass_forms import OwnPass, own_pass, result_module
from fxmorph.inductor.own.pass_request import PassRequest
from fxmorph.torchapi.optional_passes import as_compiling, metadata_updater

__all__ = ["MalformedGraph", "OwnPass", "PassError", "apply_pass", "load_pass", "own_pass", "source_of"]


class MalformedGraph(RuntimeError):
    """A pass left a graph that no stage takes."""


#: The class that torch.fx makes for each module.
_GENERATED = "GraphModuleImpl"
#: The entry-point group under which packages offer passes by name.
GROUP = "fxmorph.passes"


def load_pass(request: PassRequest | str) -> OwnPass:
    """The pass that ``package.module:attribute``, ``file.py:attribute`` or the name of a plug-in names; in the place of
    the attribute may stand a call, as ``file.py:MyPass(4)``.

    Of a request: made and called as it says.  Raises :class:`PassError`.
    """
    if isinstance(request, str):
        request = PassRequest(request)
    name, where = request.name, request.where
    if request.setup:
        _called(_set_up(request.setup, where), f"--setup {request.setup}")
    surrounding = evaluated(request.context, where) if request.context else contextlib.nullcontext
    with _entered(surrounding, request.context):
        value = _found(request.target)
        said: Mapping[str, Any] = {key: evaluated(text, where) for key, text in request.args}
        if request.make:
            value, said = _made(value, request, said)
        found = own_pass(value, name, said)
    if not request.context:
        return found
    return replace(found, call=lambda handed: _inside(surrounding, request.context, lambda: found.call(handed)))


def _set_up(text: str, where: str) -> Any:
    """The value of ``--setup``, before the pass's module is imported where the expression names nothing of it."""
    try:
        return evaluated(text, "")
    except PassError as error:
        if not isinstance(error.__cause__, NameError):
            raise
    return evaluated(text, where)


def _found(name: str) -> Any:
    where, colon, attribute = name.rpartition(":")
    if not colon:
        found = [point for point in metadata.entry_points(group=GROUP) if point.name == name]
        if not found:
            raise PassError(f"{name}: no such plug-in; name a pass as module:attribute or file.py:attribute")
        if len(found) > 1:
            raise PassError(f"pass {name!r} is defined twice: {found[0].value} and {found[1].value}")
        return guarded(found[0].load, name)
    if not attribute:
        raise PassError(f"{name}: want module:attribute or file.py:attribute")
    return evaluated(attribute, where) if attribute.endswith(")") else named(where, attribute)


def _made(value: Any, request: PassRequest, said: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """(What ``--make`` makes, what was said and is left): a factory is called, an expression knows ``it``."""
    factory = evaluated(request.make, request.where, {"it": value, **said})
    if request.make.lstrip().startswith("lambda") and _takes_graph(factory):
        return factory, {} if said else said
    if not inspect.isroutine(factory) or ":" not in request.make.partition("(")[0]:
        return factory, {} if said else said
    signature = signature_of(factory)
    taken = {n: v for n, v in said.items() if signature is None or n in signature.parameters}
    rest = {n: v for n, v in said.items() if n not in taken}
    free = [p for p in (signature.parameters.values() if signature else ()) if p.name not in taken]
    given = [value] if any(p.default is p.empty for p in free) else []
    return _called(lambda: factory(*given, **taken), f"--make {request.make}"), rest


def _takes_graph(function: Any) -> bool:
    """Whether a function is a pass by what its first parameter is called, and none that makes one."""
    signature = signature_of(function)
    first = next(iter(signature.parameters.values()), None) if signature else None
    return first is not None and graph_kind(first) is not None


def _called(function: Any, what: str) -> Any:
    return guarded(function, what) if callable(function) else function


def _entered(surrounding: Any, what: str) -> contextlib.AbstractContextManager[Any]:
    """The context manager itself, or that a function returns; raises :class:`PassError` where it is none."""
    ready = hasattr(surrounding, "__enter__") and not inspect.isclass(surrounding)
    manager = surrounding if ready else _called(surrounding, f"--context {what}")
    if not hasattr(manager, "__enter__"):
        raise PassError(f"--context {what}: want a context manager, or a function that returns one")
    entered: contextlib.AbstractContextManager[Any] = manager
    return entered


def _inside(surrounding: Any, what: str, body: Callable[[], Any]) -> Any:
    with _entered(surrounding, what):
        return body()


def source_of(value: Any) -> str:
    """The text that an object, or its class, was written as; "" where it is not known."""
    for candidate in (value, type(value)):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(candidate)
    return ""


def apply_pass(
    own: OwnPass,
    gm: fx.GraphModule,
    stage: Stage,
    inputs: Callable[[], Sequence[Any]] = tuple,
    inference: bool = True,
) -> Applied:
    """Run the pass on a copy of a graph of ``stage``, and what Inductor does after such a pass.

    ``inputs`` gives what the graph runs on to passes that ask for it.  Raises whatever the pass raises,
    :class:`MalformedGraph` for a graph that does not lint, and :class:`PassError` where it cannot be called.
    """
    after = clone_module(gm)
    with as_compiling(after.graph):
        update = metadata_updater(after) if stage is Stage.POST_GRAD else None
        after = _ready(result_module(own.call(Handed(after, inputs, inference)), after), inputs)
        try:
            after.graph.lint()
        except Exception as error:
            raise MalformedGraph(f"it leaves a graph that does not lint: {error}") from error
        fired = module_structure(after) != module_structure(gm)
        tidied = fired and only_respelled(gm, after)
        if fired and update is not None:
            with contextlib.suppress(Exception):  # what cannot be propagated cannot run either, which is judged
                update()
    return Applied(after, fired, 0, tidied)


def _ready(gm: fx.GraphModule, inputs: Callable[[], Sequence[Any]]) -> fx.GraphModule:
    """A module that has a call of its own is called once: it may finish its graph then, as ``const_fold`` does."""
    kinds = (kind for kind in type(gm).__mro__ if issubclass(kind, fx.GraphModule) and kind is not fx.GraphModule)
    if any("__call__" in vars(kind) and kind.__name__ != _GENERATED for kind in kinds):
        with contextlib.suppress(Exception), torch.no_grad():  # what fails then fails when it is judged
            gm(*inputs())
    return gm
