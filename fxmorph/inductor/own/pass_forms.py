"""The forms in which people write passes, each made one call on a graph's module.

A function or method of a graph, a class that makes one, patterns or what registers them, a pattern beside its
replacement, a pipeline of passes, a class that is made for each graph, as a ``torch.fx.Transformer``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.own.call import (
    PassError,
    bound_class,
    made,
    needed,
    plain,
    planned,
    short_name,
    signature_of,
)
from fxmorph.inductor.own.handed import Handed, annotation_of, giver_of, graph_kind
from fxmorph.torchapi.dispatch import OpOverload
from fxmorph.torchapi.optional_passes import sort_graph
from fxmorph.torchapi.own_patterns import matcher_pass, pattern_pass_of, rewritten

#: Methods that run a pass, the likeliest first, where an object is not called itself.
_METHODS = ("call", "process", "apply", "run", "transform", "run_pass", "optimize", "execute", "partition_and_fuse")
#: Names of the parameter that a function registers its patterns with.
_REGISTRIES = frozenset(
    "patterns pattern_pass patterns_pass pm_pass pattern_matcher_pass matcher_pass pass_dict match_pass".split()
)


@dataclass(frozen=True)
class OwnPass:
    """A pass under the name that the user gave.

    ``call`` takes what there is to hand over and returns what the pass returns; ``origin`` is what it was written
    as; ``steps`` gives the passes that it runs one after another.  ``exported``: its form is one for graphs of
    ``torch.export``, which write into nothing.
    """

    name: str
    call: Callable[[Handed], Any]
    origin: tuple[Any, ...] = ()
    steps: Callable[[], Sequence[OwnPass]] = tuple
    exported: bool = False


def result_module(result: Any, given: fx.GraphModule) -> fx.GraphModule:
    """What a pass made of ``given``: what it returns where that is a graph, ``given`` as it left it else."""
    if isinstance(result, tuple) and result and isinstance(result[0], fx.GraphModule):
        result = result[0]
    result = getattr(result, "graph_module", result)  # a PassResult
    if isinstance(result, fx.GraphModule):
        return result
    if isinstance(result, fx.Graph):
        given.graph = result
    return given


def own_pass(value: Any, name: str = "", said: Mapping[str, Any] | None = None) -> OwnPass:
    """The pass that an object is; ``said`` are values of parameters of its constructor, or of its call.

    Raises :class:`PassError` for what is none, and for what needs more than is said.
    """
    name, said = name or getattr(value, "__name__", type(value).__name__), said or {}
    if inspect.isclass(value):
        return _of_class(value, name, said)
    if _has_patterns(value):
        return OwnPass(name, lambda handed: _matched(value, handed.gm.graph), (value,))
    if isinstance(value, (list, tuple, Mapping)):
        members = list(value.values()) if isinstance(value, Mapping) else value
        return _rewrite(members, name) if _is_rewrite(members) else _pipeline(members, name, said, type(value).__name__)
    registering = _registration(value)
    if registering is not None:
        patterns = matcher_pass()
        _guarded(lambda: registering(patterns, **said), name)
        return OwnPass(name, lambda handed: _matched(patterns, handed.gm.graph), (patterns, value))
    if not callable(value):
        value = _method(value, said) or value
    if (result := _made_by(value, name, said)) is not None:
        return own_pass(result, name)
    plan = planned(value, name, said)
    steps = getattr(value, "passes", None)
    listed = list(steps.values()) if isinstance(steps, Mapping) else steps
    managed = listed if isinstance(listed, (list, tuple)) and listed else ()
    return OwnPass(
        name, plan.call, (value, *managed), lambda: _steps(managed, name), _for_export(value, plan.kind, plan.givers)
    )


def _for_export(value: Any, kind: type | None, givers: Mapping[str, Any]) -> bool:
    """Passes of back ends take a module and settings, or return a result of torch.fx's pass infrastructure."""
    if kind is not fx.GraphModule:
        return False
    owner = getattr(value, "__self__", value)
    return bool(givers) or any(base.__name__ in ("PassBase", "ExportPass") for base in type(owner).__mro__)


# -- classes -------------------------------------------------------------------------


def _of_class(kind: type, name: str, said: Mapping[str, Any]) -> OwnPass:
    if _is_made_for_graphs(kind):
        return _made_for_graphs(kind, name, said)
    value, rest = made(kind, name, said)
    found = own_pass(value, name, rest)
    return OwnPass(found.name, found.call, (kind, *found.origin), found.steps, found.exported)


def _is_made_for_graphs(kind: type) -> bool:
    """Whether the constructor takes the graph, as that of a Transformer or a partitioner."""
    if issubclass(kind, fx.Interpreter):
        return True
    first = next(iter(needed(signature_of(kind))), None)
    return first is not None and not issubclass(kind, torch.nn.Module) and _says_graph(first, kind)


def _says_graph(parameter: inspect.Parameter, owner: Any) -> bool:
    if graph_kind(parameter) is not None:
        return True
    said = annotation_of(parameter, owner)
    return inspect.isclass(said) and issubclass(said, torch.nn.Module)


def _made_for_graphs(kind: type, name: str, said: Mapping[str, Any]) -> OwnPass:
    first = needed(signature_of(kind))[0]
    method = "transform" if issubclass(kind, fx.Transformer) else _method_name(kind, bound=False)
    if not method:
        raise PassError(f"{name} is made for a graph and has none of the methods {', '.join(_METHODS)}")
    missing = [p for p in needed(signature_of(kind))[1:] if p.name not in said and giver_of(p, kind) is None]
    if missing:
        short = short_name(name)
        raise PassError(
            f"{name} cannot be made as {short}(graph): missing a required argument: {missing[0].name!r}; its "
            f"constructor is {short}{plain(signature_of(kind))}; give it as --arg {missing[0].name}=VALUE"
        )

    def call(handed: Handed) -> Any:
        graph = handed.gm.graph if graph_kind(first) is fx.Graph else handed.gm
        arguments = bound_class(kind, name, {**said, first.name: graph})
        return getattr(kind(**arguments or {}), method)()

    return OwnPass(name, call, (kind,), exported=True)


def _method_name(owner: Any, bound: bool) -> str:
    """The first method of a pass's that needs nothing: beside ``self``, of a class."""
    for method in _METHODS:
        function = getattr(owner, method, None)
        if callable(function) and len(needed(signature_of(function))) == (0 if bound else 1):
            return method
    return ""


def _method(value: Any, said: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The method of an object that is not called itself which takes a graph; None where it has none."""
    for name in _METHODS:
        method = getattr(value, name, None)
        if callable(method):
            try:
                planned(method, name, said)
            except PassError:
                continue
            return method  # type: ignore[no-any-return]
    return None


def _made_by(value: Any, name: str, said: Mapping[str, Any]) -> Any:
    """What a function that takes no graph returns: a pass; None where it takes one, or returns nothing."""
    signature = signature_of(value) if inspect.isroutine(value) else None
    if signature is None or any(p.name not in said for p in signature.parameters.values()):
        return None
    if isinstance(value, torch.nn.Module) or inspect.iscoroutinefunction(value):
        return None
    return _guarded(lambda: value(**said), name)


def _guarded(make: Callable[[], Any], name: str) -> Any:
    try:
        return make()
    except Exception as error:
        said = " ".join(str(error).split())
        raise PassError(f"{name} cannot be made: {type(error).__name__}: {said}") from error


# -- patterns ------------------------------------------------------------------------


def _has_patterns(value: Any) -> bool:
    """Whether it is a ``PatternMatcherPass``, or the like: it holds patterns by what they end in."""
    kept = isinstance(getattr(value, "patterns", None), Mapping)
    return kept and callable(getattr(value, "apply", None)) and not callable(value)


def _matched(patterns: Any, graph: fx.Graph) -> None:
    """Replacements are inserted where patterns end, so that Inductor sorts graphs after them."""
    patterns.apply(graph)
    sort_graph(graph)


def _registration(value: Any) -> Callable[..., Any] | None:
    """What registers patterns with the pass that it is given: a function, or the method ``register`` of an object."""
    function = value if inspect.isroutine(value) else None if callable(value) else getattr(value, "register", None)
    signature = signature_of(function) if callable(function) else None
    first = next(iter(signature.parameters.values()), None) if signature else None
    if first is None:
        return None
    said = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    if "PatternMatcherPass" in said or (first.name in _REGISTRIES and not said):
        return function
    return None


def _is_rewrite(value: Sequence[Any]) -> bool:
    """Whether it is (pattern, replacement), with example inputs or without."""
    if len(value) not in (2, 3) or not all(_is_pattern(side) for side in value[:2]):
        return False
    if len(value) == 3:
        examples = value[2]
        return isinstance(examples, (list, tuple)) and all(not callable(v) or torch.is_tensor(v) for v in examples)
    names = [list(signature_of(side).parameters) for side in value if signature_of(side)]  # type: ignore[union-attr]
    return all(len(n) == len(names[0]) for n in names)


def _is_pattern(value: Any) -> bool:
    if isinstance(value, (fx.GraphModule, torch.nn.Module)):
        return True
    if not inspect.isroutine(value):
        return False
    parameters = list((signature_of(value) or inspect.Signature()).parameters.values())
    return bool(parameters) and all(graph_kind(p) is None for p in parameters)


def _rewrite(value: Sequence[Any], name: str) -> OwnPass:
    """Inductor's matcher where there are example inputs and the graph is of ATen, ``subgraph_rewriter`` else."""
    pattern, replacement, examples = *value[:2], (value[2] if len(value) == 3 else None)
    patterns = None
    if examples is not None:
        patterns = _guarded(lambda: pattern_pass_of(pattern, replacement, examples), name)

    def call(handed: Handed) -> Any:
        if patterns is not None and _is_of_aten(handed.gm.graph):
            return _matched(patterns, handed.gm.graph)
        return rewritten(handed.gm, pattern, replacement)

    return OwnPass(name, call, (pattern, replacement, *([patterns] if patterns is not None else [])))


def _is_of_aten(graph: fx.Graph) -> bool:
    return any(isinstance(node.target, OpOverload) for node in graph.nodes)


# -- pipelines -----------------------------------------------------------------------


def _pipeline(passes: Sequence[Any], name: str, said: Mapping[str, Any], kind: str) -> OwnPass:
    try:
        steps = _steps(passes, name, said)
    except PassError as error:
        raise PassError(f"{name} is a {kind}, whose members must be passes in their order: {error}") from None
    if not steps:
        raise PassError(f"{name} is an empty {kind}: want a pass, or passes in their order")

    def call(handed: Handed) -> Any:
        gm = handed.gm
        for step in steps:
            gm = result_module(step.call(Handed(gm, handed.inputs, handed.inference)), gm)
        return gm

    origin = tuple(each for step in steps for each in step.origin)
    return OwnPass(name, call, origin, lambda: steps, any(step.exported for step in steps))


def _steps(passes: Sequence[Any], name: str, said: Mapping[str, Any] | None = None) -> list[OwnPass]:
    """Each under its own name; arguments go to those that take them."""
    steps = []
    for number, each in enumerate(passes):
        own = getattr(each, "__name__", type(each).__name__)
        title = f"{name}[{number}]" if isinstance(each, (list, tuple)) else own
        signature = signature_of(each)
        mine = {n: v for n, v in (said or {}).items() if signature and n in signature.parameters}
        steps.append(own_pass(each, title, mine))
    return steps
