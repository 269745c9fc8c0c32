"""Whether a pass can be called with the graph alone, as Inductor calls it; what cannot is refused, and not judged.

The signature decides, never the exception of a call: a TypeError that a pass raises is its own failure.
"""

from __future__ import annotations

import functools
import inspect
import traceback
import typing
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

_Kind = inspect._ParameterKind
_BY_PLACE = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD, _Kind.VAR_POSITIONAL)
_BY_NAME = (_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY)


class PassError(ValueError):
    """A text that names no pass, or an object that is none; the message says what is wrong."""


def made(value: type, name: str) -> Any:
    """An instance of a class that needs no arguments; raises :class:`PassError`."""
    if issubclass(value, torch.nn.Module):
        raise PassError(_a_program(name, value))
    short, signature = _short(name), _signature(value)
    try:
        if signature is not None:
            signature.bind()
    except TypeError as error:
        raise PassError(
            f"{name} cannot be made as {short}(): {error}; its constructor is {short}{_plain(signature)}; make an "
            f"instance in the file, as in made = {short}({_given(_needed(signature))}), and name that"
        ) from None
    try:
        return value()
    except Exception as error:
        raise PassError(f"{name} cannot be made as {short}(): {type(error).__name__}: {error}") from error


def require_call(value: Any, name: str) -> None:
    """Raises :class:`PassError` where ``value`` does not take a graph as its only argument.

    Of a builtin nothing is known.
    """
    if isinstance(value, torch.nn.Module):
        raise PassError(_a_program(name, type(value)))
    if not callable(value):
        raise PassError(f"{name} is a {type(value).__name__}: want a callable, a PatternMatcherPass or CustomGraphPass")
    signature = _signature(value)
    refusal = _overbound(value, name) if signature is None else _refusal(signature, name)
    if refusal:
        raise PassError(refusal)
    other = _other_kind(value, signature)
    if other is not None:
        raise PassError(f"{name} takes a {other.__name__}: a pass takes a Graph or a GraphModule")


def call(value: Callable[[Any], Any], given: fx.Graph | fx.GraphModule, name: str) -> Any:
    """What the pass returns; raises what it raises, and :class:`PassError` where that is no call of the pass.

    A decorator takes any arguments, and what it decorates may not: that was then never entered.
    """
    try:
        result = value(given)
    except TypeError as error:
        decorated = inspect.unwrap(value)
        refusal = "" if decorated is value else _refusal(_signature(decorated), name)
        if refusal and not _entered(decorated, error):
            raise PassError(refusal) from error
        raise
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python warns that it was never awaited
        raise PassError(f"{name} returns a {type(result).__name__}, which nobody runs: a pass is a plain function")
    return result


def first_parameter(value: Any) -> inspect.Parameter | None:
    """What the graph is bound to; None where the signature is not known."""
    signature = _signature(value, follow=True)
    found = [] if signature is None else [p for p in signature.parameters.values() if p.kind in _BY_PLACE]
    return found[0] if found else None


def _signature(value: Any, follow: bool = False) -> inspect.Signature | None:
    """None of what has none; of what decorates only if ``follow`` that of what is decorated."""
    try:
        return inspect.signature(value, follow_wrapped=follow)
    except (TypeError, ValueError):
        return None


def _refusal(signature: inspect.Signature | None, name: str) -> str:
    """Why what has this signature cannot be called with one argument, and what to do; "" where it can."""
    if signature is None:
        return ""
    try:
        signature.bind(object())
    except TypeError as error:
        short = _short(name)
        return (
            f"{name} cannot be called as {short}(graph): {error}; its parameters are {_plain(signature)}; "
            f"a pass is called with a graph alone{_remedy(signature, short)}"
        )
    return ""


def _overbound(value: Any, name: str) -> str:
    """Why a partial cannot be called at all; "" of what else has no signature."""
    if not isinstance(value, functools.partial):
        return ""
    bound, inner = _signature(value.func), getattr(value.func, "__name__", type(value.func).__name__)
    if bound is None:
        return ""
    try:
        bound.bind_partial(*value.args, **value.keywords)
    except TypeError as error:
        return f"{name} binds what {inner}{_plain(bound)} does not take: {error}"
    return ""


def _remedy(signature: inspect.Signature, short: str) -> str:
    needed = _needed(signature)
    if not any(p.kind in _BY_PLACE for p in signature.parameters.values()):
        return f": name what wraps it, as wrapped = lambda graph: {short}({needed[0].name}=graph)" if needed else ""
    rest = needed[1:]
    if rest and all(p.kind in _BY_NAME for p in rest):
        return f": name what binds the rest, as bound = functools.partial({short}, {_given(rest)})"
    return f": name what wraps it, as wrapped = lambda graph: {short}(graph, ...)" if rest else ""


def _needed(signature: inspect.Signature | None) -> list[inspect.Parameter]:
    """Parameters that must be given."""
    every = [] if signature is None else signature.parameters.values()
    return [p for p in every if p.default is p.empty and p.kind in (*_BY_NAME, _Kind.POSITIONAL_ONLY)]


def _given(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(f"{p.name}=..." if p.kind in _BY_NAME else "..." for p in parameters)


def _plain(signature: inspect.Signature | None) -> str:
    """The signature on one line, without annotations."""
    if signature is None:
        return "(...)"
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return " ".join(str(inspect.Signature(bare)).split())


def _short(name: str) -> str:
    return name.rpartition(":")[2]


def _a_program(name: str, kind: type) -> str:
    return f"{name} is a torch.nn.Module ({kind.__name__}): a program, and no pass over its graph"


def _other_kind(value: Any, signature: inspect.Signature | None) -> type | None:
    """The class that the first parameter is annotated with, where no graph is one."""
    first = first_parameter(value) if signature is not None else None
    if first is None or first.annotation is first.empty:
        return None
    kind = first.annotation
    if isinstance(kind, str):
        try:
            kind = typing.get_type_hints(inspect.unwrap(value)).get(first.name)
        except Exception:  # names that only a type checker sees
            return None
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return None
    fits = any(issubclass(graph, kind) or issubclass(kind, graph) for graph in (fx.Graph, fx.GraphModule))
    return None if fits else kind


def _entered(function: Any, error: BaseException) -> bool:
    """Whether the exception came out of a call of the function, or of what that called."""
    code = getattr(function, "__code__", None)
    return code is None or any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))
