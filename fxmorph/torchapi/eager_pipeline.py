"""Inductor's pipeline with the graphs run in eager: all passes, no lowering, no code; and what graphs are called with.

AOTAutograd's runtime around the graphs is the real one, so what it adds (input mutation, output
aliasing, the autograd function) is there as in a compiled program.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx

#: ``compiled(names of the placeholders)`` when a graph is compiled; what it gives is told the inputs of each call of
#: the graph, before that may change them.
Compiled = Callable[[tuple[str, ...]], Callable[[list[Any]], None]]


def placeholders(gm: fx.GraphModule) -> tuple[str, ...]:
    """Names of a graph's inputs, in order."""
    return tuple(n.name for n in gm.graph.nodes if n.op == "placeholder")


@contextlib.contextmanager
def graphs_in_eager(
    compiled: Compiled | None = None, returned: Callable[[Any], object] | None = None
) -> Iterator[None]:
    """``torch.compile(backend="inductor")`` runs the final FX graphs as they are.

    ``returned(values)`` is told what each graph computes.
    """
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    def inner(gm: fx.GraphModule, example_inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
        if hasattr(compile_fx, "view_to_reshape"):
            compile_fx.view_to_reshape(gm)
        with torch.no_grad():
            fake_mode = compile_fx.fake_tensor_prop(gm, example_inputs)
        with V.set_fake_mode(fake_mode):
            compile_fx._recursive_post_grad_passes(gm, is_inference=bool(kwargs.get("is_inference")))
        gm.recompile()
        called = None if compiled is None else compiled(placeholders(gm))

        def run(boxed: list[Any]) -> Any:
            values = list(boxed)
            boxed.clear()
            if called is not None:
                called(values)
            with torch.no_grad():
                result = _Run(gm, garbage_collect_values=False).run(*values)
            if returned is not None:
                returned(result)
            return result

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    with mock.patch.object(compile_fx, "_compile_fx_inner", inner):
        yield


class _Run(fx.Interpreter):
    """Runs a graph as Inductor reads it."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().call_function(target, args, kwargs)
        if result is None and getattr(target, "__name__", "").startswith("_foreach_"):
            return args[0]  # what an in-place operator on lists wrote is read by getitem
        return result


@contextlib.contextmanager
def graph_inputs(compiled: Compiled) -> Iterator[None]:
    """Of graphs that Inductor generates code for, as it always does."""
    from torch._inductor import compile_fx

    original = compile_fx._compile_fx_inner

    @functools.wraps(original)
    def inner(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        called = compiled(placeholders(gm))  # now: the graph is the compiler's to change
        code = original(gm, *args, **kwargs)
        if not callable(code):
            return code

        def run(boxed: list[Any]) -> Any:
            called(list(boxed))
            return code(boxed)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    with mock.patch.object(compile_fx, "_compile_fx_inner", inner):
        yield


@contextlib.contextmanager
def dynamo_inputs(
    compiled: Compiled, compiling: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
) -> Iterator[None]:
    """Of functions that Inductor compiles from Dynamo's graphs, each ``compiling()`` meanwhile."""
    from torch._inductor import compile_fx

    original = compile_fx.compile_fx

    @functools.wraps(original)
    def watched(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        with compiling():
            called = compiled(placeholders(gm))
            function = original(gm, *args, **kwargs)
        if not callable(function):
            return function

        # Not functools.wraps: Dynamo would find what is wrapped by the copied attributes, and call that.
        def run(*values: Any) -> Any:
            called(list(values))
            return function(*values)

        return run

    with mock.patch.object(compile_fx, "compile_fx", watched):
        yield
