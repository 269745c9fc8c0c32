"""The graphs that one compile with Inductor hands from stage to stage, seen as they pass.

Inductor compiles up to the start of its post_grad passes; nothing is lowered, no code is generated, and the
program runs on the graphs that AOTAutograd made: aliases and mutation are those of a real compile.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch._inductor.config as config
import torch._inductor.freezing as freezing
from torch import fx
from torch._inductor import compile_fx as inductor

#: ``see(compile, stage, part, gm)`` keeps a copy of a graph that is about to change, and returns it.
See = Callable[[int, str, str, fx.GraphModule], fx.GraphModule]
#: Decompositions by operator.
Decompositions = dict[Any, Callable[..., Any]]
#: ``ran(compile, part, placeholders, values)``: the values that a graph is about to be run on.
Ran = Callable[[int, str, Sequence[str], Sequence[Any]], None]


def stage_backend(see: See, ran: Ran) -> Callable[..., Any]:
    """A ``torch.compile`` backend that shows the graphs of Inductor's stages and runs them in eager.

    ``compile`` numbers the graphs of Dynamo.  Stages and parts seen: ``pre_grad`` ``torch``; ``joint``
    ``inference`` or ``joint``; ``freezing`` ``frozen``; ``aot`` and ``post_grad`` ``inference``, ``forward``,
    ``backward`` or ``frozen``.  Values are given for parts ``torch``, ``inference``, ``forward``, ``backward``,
    ``frozen``, and ``parameters`` for what freezing made constant.
    """
    return _backend(see, ran, _joint_seen, {})


def aten_backend(decompositions: Decompositions, see: See, ran: Ran) -> Callable[..., Any]:
    """The like of :func:`stage_backend` without passes, and with no decompositions but these.

    The graphs seen are those of stage ``decomposition``, parts ``inference`` or ``joint``.
    """
    return _backend(see, ran, _aten_seen, {"decompositions": decompositions})


Hooks = Callable[[Callable[..., fx.GraphModule], Callable[..., None]], contextlib.AbstractContextManager[None]]


def _backend(see: See, ran: Ran, hooks: Hooks, arguments: dict[str, Any]) -> Callable[..., Any]:
    numbers = itertools.count()

    def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        number = next(numbers)
        show, tell = functools.partial(see, number), functools.partial(ran, number)
        names = _placeholders(gm)
        inner = functools.partial(_inner_compile, _not_shown if arguments else show, tell)
        with hooks(show, tell):
            compiled: Any = inductor.compile_fx(gm, example_inputs, inner_compile=inner, **arguments)

        def run(*args: Any) -> Any:
            tell("torch", names, args)
            return compiled(*args)

        return run

    return backend


def _not_shown(stage: str, part: str, gm: fx.GraphModule) -> fx.GraphModule:
    return gm


def _placeholders(gm: fx.GraphModule) -> list[str]:
    return [node.name for node in gm.graph.nodes if node.op == "placeholder"]


def _inner_compile(
    see: Callable[..., fx.GraphModule],
    ran: Callable[..., None],
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    **kwargs: Any,
) -> Any:
    """In the place of ``compile_fx_inner``: the graph as it comes, and as ``post_grad_passes`` would get it."""
    inference = kwargs.get("is_inference", False)
    part = "backward" if kwargs.get("is_backward") else "inference" if inference else "forward"
    if inference and config.freezing:
        part = "frozen"
    names = _placeholders(gm)
    original = see("aot", part, gm)
    if original is not gm:
        _before_post_grad(gm, example_inputs)
        see("post_grad", part, gm)

    def run(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        ran(part, names, values)
        return original(*values)

    run._boxed_call = True  # type: ignore[attr-defined]  # how AOTAutograd hands over its inputs
    return run


def _before_post_grad(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    view_to_reshape(gm)
    propagate: Any = inductor.fake_tensor_prop
    propagate(gm, example_inputs, True)


@contextlib.contextmanager
def _replaced(module: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """``module.name`` calls ``by(original, *args, **kwargs)``; nested calls of it go to the original."""
    original = getattr(module, name, None)
    if original is None:
        yield
        return
    inside = False

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return original(*args, **kwargs)
        inside = True
        try:
            return by(original, *args, **kwargs)
        finally:
            inside = False

    with mock.patch.object(module, name, replacement):
        yield


def _part(gm: fx.GraphModule) -> str:
    return "joint" if any(name.startswith("tangents") for name in _placeholders(gm)) else "inference"


@contextlib.contextmanager
def _joint_seen(see: Callable[..., fx.GraphModule], ran: Callable[..., None]) -> Iterator[None]:
    def pre_grad(original: Any, gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        see("pre_grad", "torch", gm)
        return original(gm, *args, **kwargs)

    def joint(original: Any, gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        see("joint", _part(gm), gm)
        return original(gm, *args, **kwargs)

    def freeze(original: Any, gm: fx.GraphModule, example_inputs: Sequence[Any], *args: Any) -> Any:
        inductor.fake_tensor_prop(gm, example_inputs, True)  # as freezing_passes does first
        see("freezing", "frozen", gm)
        return original(gm, example_inputs, *args)

    def constants(original: Any, gm: fx.GraphModule, parameters: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        ran("parameters", _placeholders(gm)[: len(parameters)], parameters)
        return original(gm, parameters, *args, **kwargs)

    with (
        _replaced(inductor, "_recursive_pre_grad_passes", pre_grad),
        _replaced(inductor, "_recursive_joint_graph_passes", joint),
        _replaced(freezing, "freezing_passes", freeze),
        _replaced(freezing, "replace_params_with_constants", constants),
    ):
        yield


@contextlib.contextmanager
def _aten_seen(see: Callable[..., fx.GraphModule], ran: Callable[..., None]) -> Iterator[None]:
    def joint(original: Any, gm: fx.GraphModule, *args: Any, **kwargs: Any) -> fx.GraphModule:
        see("decomposition", _part(gm), gm)
        return gm

    with _replaced(inductor, "_recursive_joint_graph_passes", joint):
        yield


def run_post_grad_passes(gm: fx.GraphModule, is_inference: bool) -> None:
    """Inductor's own passes over a post_grad graph, in place; raises what they raise."""
    from torch._inductor.fx_passes.post_grad import post_grad_passes

    from fxmorph.torchapi.optional_passes import as_compiling

    with as_compiling(gm.graph):
        post_grad_passes(gm, is_inference)


#: Higher-order operators that stand for calls of operators which write their arguments.
_FUNCTIONALISED = ("auto_functionalized", "auto_functionalized_v2")


def has_functionalised(graph: fx.Graph) -> bool:
    """Whether an operator that writes its arguments is called through a function that does not."""
    return any(getattr(node.target, "__name__", "") in _FUNCTIONALISED for node in graph.nodes)


def expand_functionalised(gm: fx.GraphModule) -> None:
    """Calls of such operators themselves, on copies of what they write, in place; raises what Inductor raises."""
    from torch._inductor.fx_passes.post_grad import decompose_auto_functionalized

    from fxmorph.torchapi.optional_passes import as_compiling

    with as_compiling(gm.graph):
        decompose_auto_functionalized(gm.graph)
    gm.recompile()
