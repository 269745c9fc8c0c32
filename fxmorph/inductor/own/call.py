"""How a pass is called: with the graph, what the user says, and what is known; what cannot be is refused, not judged.

The signature decides, never the exception of a call: a TypeError that a pass raises is its own failure.
"""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.own.handed import Giver, Handed, annotation_of, giver_of, graph_kind, inputs_giver

_Kind = inspect._ParameterKind
_BY_PLACE = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
_BY_NAME = (_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY)
_VARIABLE = (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)


class PassError(ValueError):
    """A text that names no pass, or an object that is none; the message says what is wrong."""


@dataclass(frozen=True)
class Plan:
    """How ``value`` is called.

    ``graph`` is the parameter that the graph is bound to, ``kind`` what it takes (None: nothing tells), ``givers``
    give the other parameters their values.  ``refusal`` says why what decorates may have promised too much.
    """

    value: Callable[..., Any]
    name: str
    signature: inspect.Signature | None
    graph: inspect.Parameter | None
    kind: type | None
    givers: Mapping[str, Giver]
    refusal: str = ""

    def call(self, handed: Handed) -> Any:
        """What the pass returns; raises what it raises, and :class:`PassError` where that is no call of the pass."""
        if self.kind is not None:
            return self._with(handed, handed.gm if self.kind is fx.GraphModule else handed.gm.graph)
        spare = clone_module(handed.gm)
        try:
            return self._with(handed, handed.gm.graph)
        except AttributeError as error:  # Inductor hands a Graph; what wants more than that gets the module
            if not isinstance(error.obj, fx.Graph):
                raise
        handed.gm.graph = spare.graph
        return self._with(handed, handed.gm)

    def _with(self, handed: Handed, graph: fx.Graph | fx.GraphModule) -> Any:
        try:
            result = self._called(handed, graph)
        except TypeError as error:
            if self.refusal and not _entered(inspect.unwrap(self.value), error):
                raise PassError(self.refusal) from error
            raise
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            if inspect.iscoroutine(result):
                result.close()  # or Python warns that it was never awaited
            kind = type(result).__name__
            raise PassError(f"{self.name} returns a {kind}, which nobody runs: a pass is a plain function")
        return result

    def _called(self, handed: Handed, graph: Any) -> Any:
        if self.signature is None or self.graph is None:
            return self.value(graph)
        given = {name: give(handed) for name, give in self.givers.items()}
        variable = self.graph.kind is _Kind.VAR_POSITIONAL
        given[self.graph.name] = (graph,) if variable else graph
        bound = inspect.BoundArguments(self.signature, _in_order(self.signature, given))  # type: ignore[arg-type]
        return self.value(*bound.args, **bound.kwargs)


def _in_order(signature: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Without gaps among what is given by place: defaults are filled in."""
    out: dict[str, Any] = {}
    extra = {name: value for name, value in given.items() if name not in signature.parameters}
    for name, parameter in signature.parameters.items():
        if name in given:
            out[name] = given[name]
        elif parameter.kind is _Kind.VAR_KEYWORD and extra:
            out[name] = extra
        elif parameter.default is not parameter.empty:
            out[name] = parameter.default
    return out


def planned(value: Any, name: str, said: Mapping[str, Any] | None = None) -> Plan:
    """How ``value`` is called with a graph; ``said`` are values that the user gives parameters.

    Raises :class:`PassError` where that is no call of it.  Of a builtin nothing is known.
    """
    said = said or {}
    if isinstance(value, torch.nn.Module):
        raise PassError(a_program(name, type(value)))
    if not callable(value):
        raise PassError(f"{name} is a {type(value).__name__}: want a callable, a PatternMatcherPass or CustomGraphPass")
    signature = signature_of(value)
    if signature is None:
        if overbound := _overbound(value, name):
            raise PassError(overbound)
        return Plan(value, name, None, None, None, {})
    decorated = inspect.unwrap(value)
    inner = signature_of(decorated) if decorated is not value and _takes_anything(signature) else None
    shown = inner or signature
    graph = _graph_parameter(shown, said)
    givers, missing = _givers(shown, graph, said, value)
    refusal = _refusal(shown, graph, givers, missing, name)
    if refusal and inner is None:
        raise PassError(refusal)
    if unknown := [n for n in said if n not in shown.parameters and not _has(shown, _Kind.VAR_KEYWORD)]:
        raise PassError(f"{name} has no parameter {unknown[0]!r}; its parameters are {plain(shown)}")
    other = None if graph is None else _other_kind(value, graph)
    if other is not None:
        raise PassError(f"{name} takes a {other.__name__}: a pass takes a Graph or a GraphModule")
    kind = None if graph is None else graph_kind(graph)
    if inner is not None and missing:  # what decorates may bind the rest
        return Plan(value, name, signature, _graph_parameter(signature, {}), kind, {}, refusal)
    return Plan(value, name, shown, graph, kind, givers)


def bound_class(kind: type, name: str, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of a constructor, of those that are ``said`` and of settings with defaults; None for what cannot."""
    signature = signature_of(kind)
    if signature is None:
        return {}
    arguments: dict[str, Any] = {n: v for n, v in said.items() if n in signature.parameters}
    for parameter in needed(signature):
        if parameter.name in arguments:
            continue
        give = giver_of(parameter, kind)
        if give is None:
            return None
        arguments[parameter.name] = give(Handed(fx.GraphModule({}, fx.Graph())))
    return arguments


def made(kind: type, name: str, said: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """(An instance of a class, what was said and is none of its constructor's); raises :class:`PassError`."""
    if issubclass(kind, torch.nn.Module):
        raise PassError(a_program(name, kind))
    short, signature = short_name(name), signature_of(kind)
    arguments = bound_class(kind, name, said)
    if arguments is None:
        missing = next(p for p in needed(signature) if p.name not in said and giver_of(p, kind) is None)
        rest = given_text(p for p in needed(signature) if p.name not in said)
        raise PassError(
            f"{name} cannot be made as {short}({', '.join(f'{n}=...' for n in said)}): missing a required argument: "
            f"{missing.name!r}; its constructor is {short}{plain(signature)}; give it as --arg {missing.name}=VALUE, "
            f"or make an instance in the file, as in made = {short}({rest}), and name that"
        )
    try:
        return kind(**arguments), {n: v for n, v in said.items() if n not in arguments}
    except Exception as error:
        spelled = ", ".join(f"{n}={_short(v)}" for n, v in arguments.items())
        why = f"{type(error).__name__}: {error}{stubs_wanted(error)}"
        raise PassError(f"{name} cannot be made as {short}({spelled}): {why}") from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:60]}..."


def stubs_wanted(error: BaseException) -> str:
    """What gives an operator that is not there a stand-in, where that is what an exception is about."""
    found = re.search(r"_OpNamespace' '(\w+)' object has no attribute", str(error))
    return f"; --stub-ops {found[1]} makes stand-ins of operators that are not there" if found else ""


def signature_of(value: Any) -> inspect.Signature | None:
    """None of what has none; of what decorates its own."""
    try:
        return inspect.signature(value, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def needed(signature: inspect.Signature | None) -> list[inspect.Parameter]:
    """Parameters that must be given."""
    every = [] if signature is None else signature.parameters.values()
    return [p for p in every if p.default is p.empty and p.kind not in _VARIABLE]


def _graph_parameter(signature: inspect.Signature, said: Mapping[str, Any]) -> inspect.Parameter | None:
    """What the graph is bound to: what says that it is one, else the first that takes what comes by place."""
    free = [p for p in signature.parameters.values() if p.name not in said]
    told = [p for p in free if p.kind not in _VARIABLE and graph_kind(p) is not None]
    placed = [p for p in free if p.kind in (*_BY_PLACE, _Kind.VAR_POSITIONAL)]
    return next(iter([*told, *placed]), None)


def _givers(
    signature: inspect.Signature, graph: inspect.Parameter | None, said: Mapping[str, Any], owner: Any
) -> tuple[dict[str, Giver], list[inspect.Parameter]]:
    """(What gives parameters their values, those that need one and have none)."""
    givers: dict[str, Giver] = {name: functools.partial(_constant, value) for name, value in said.items()}
    missing = []
    spread = [p for p in signature.parameters.values() if p.kind is _Kind.VAR_POSITIONAL and p is not graph]
    for parameter in spread:
        if (give := inputs_giver(parameter)) is not None:
            givers[parameter.name] = give
    for parameter in needed(signature):
        if parameter is graph or parameter.name in said:
            continue
        give = giver_of(parameter, owner)
        if give is None:
            missing.append(parameter)
        else:
            givers[parameter.name] = give
    return givers, missing


def _constant(value: Any, _: Handed) -> Any:
    return value


def _refusal(
    signature: inspect.Signature,
    graph: inspect.Parameter | None,
    givers: Mapping[str, Giver],
    missing: list[inspect.Parameter],
    name: str,
) -> str:
    """Why what has this signature cannot be called, with the call that was tried and what to do; "" where it can."""
    if graph is not None and not missing:
        return ""
    short = short_name(name)
    why = "too many positional arguments" if graph is None else f"missing a required argument: {missing[0].name!r}"
    tried = ", ".join(["graph", *(f"{n}=..." for n in givers)])
    return (
        f"{name} cannot be called as {short}({tried}): {why}; its parameters are {plain(signature)}; a pass is called "
        f"with a graph{'' if missing else ' alone'}{_remedy(missing, short)}"
    )


def _remedy(missing: list[inspect.Parameter], short: str) -> str:
    if missing and all(p.kind in _BY_NAME for p in missing):
        said = " ".join(f"--arg {p.name}=VALUE" for p in missing)
        bound = f"functools.partial({short}, {given_text(missing)})"
        return f", its inputs and settings that have defaults: give the rest as {said}, or name bound = {bound}"
    return f": name what wraps it, as wrapped = lambda graph: {short}(graph, ...)" if missing else ""


def _overbound(value: Any, name: str) -> str:
    """Why a partial cannot be called at all; "" of what else has no signature."""
    if not isinstance(value, functools.partial):
        return ""
    bound, inner = signature_of(value.func), getattr(value.func, "__name__", type(value.func).__name__)
    if bound is None:
        return ""
    try:
        bound.bind_partial(*value.args, **value.keywords)
    except TypeError as error:
        return f"{name} binds what {inner}{plain(bound)} does not take: {error}"
    return ""


def _takes_anything(signature: inspect.Signature) -> bool:
    return _has(signature, _Kind.VAR_POSITIONAL) and not needed(signature)


def _has(signature: inspect.Signature, kind: Any) -> bool:
    return any(p.kind is kind for p in signature.parameters.values())


def given_text(parameters: Iterable[inspect.Parameter]) -> str:
    return ", ".join(f"{p.name}=..." if p.kind in _BY_NAME else "..." for p in parameters)


def plain(signature: inspect.Signature | None) -> str:
    """The signature on one line, without annotations."""
    if signature is None:
        return "(...)"
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return " ".join(str(inspect.Signature(bare)).split())


def short_name(name: str) -> str:
    return name.rpartition(":")[2]


def a_program(name: str, kind: type) -> str:
    return f"{name} is a torch.nn.Module ({kind.__name__}): a program, and no pass over its graph"


def _other_kind(value: Any, graph: inspect.Parameter) -> type | None:
    """The class that the graph's parameter is annotated with, where no graph is one."""
    if graph.annotation is graph.empty or graph_kind(graph) is not None:
        return None
    kind = annotation_of(graph, value)
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return None
    fits = any(issubclass(each, kind) or issubclass(kind, each) for each in (fx.Graph, fx.GraphModule))
    return None if fits else kind


def _entered(function: Any, error: BaseException) -> bool:
    """Whether the exception came out of a call of the function, or of what that called."""
    code = getattr(function, "__code__", None)
    return code is None or any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))
