"""Faults planted in pattern entries, the partitioner, the scheduler and C++ code generation.

Context managers like those of ``planting``; those that a release has no place for raise ``ValueError``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import fx

from fxmorph.torchapi.patterns import entries


@contextlib.contextmanager
def planted_entry(name: str, edit: Callable[[fx.Graph], object] | None) -> Iterator[None]:
    """Where the pattern entry of this full name matches, ``edit`` changes what it puts in.

    ``edit`` gets the replacement's graph, or the whole graph after the handler of a graph entry.  The IR
    that an entry makes is negated, without ``edit``.
    """
    from torch._inductor import lowering

    found = [e for e in entries() if e.full_name == name]
    if not found:
        raise ValueError(f"torch {torch.__version__} has no pattern entry {name!r}")
    entry = found[0].entry
    attribute = "extra_check" if found[0].kind == "replacement" else "handler"
    original = getattr(entry, attribute)

    @functools.wraps(original)
    def edited(match: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(match, *args, **kwargs)
        if edit is None:
            return lowering.lowerings[torch.ops.aten.neg.default](result)
        if attribute == "handler":
            edit(match.graph)
        elif result and match.replacement_graph is not None:
            edit(match.replacement_graph.graph)
            match.replacement_graph.recompile()
        return result

    with mock.patch.object(entry, attribute, edited):
        yield


@contextlib.contextmanager
def planted_partition(edit: Callable[[fx.Graph], object]) -> Iterator[None]:
    """``edit`` changes the backward graph that the min-cut partitioner makes."""
    from torch._dynamo.backends import debugging
    from torch._inductor import compile_fx

    original = compile_fx.min_cut_rematerialization_partition

    @functools.wraps(original)
    def edited(*args: Any, **kwargs: Any) -> Any:
        forward, backward = original(*args, **kwargs)
        edit(backward.graph)
        backward.recompile()
        return forward, backward

    name = original.__name__
    with mock.patch.object(compile_fx, name, edited), mock.patch.object(debugging, name, edited):
        yield


@contextlib.contextmanager
def planted_runtime(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """What AOTAutograd's runtime gives back as a view of an input goes through ``change``."""
    from torch._functorch._aot_autograd import runtime_wrappers

    original = runtime_wrappers.gen_alias_from_base

    @functools.wraps(original)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return change(original(*args, **kwargs))

    with mock.patch.object(runtime_wrappers, original.__name__, changed):
        yield


@contextlib.contextmanager
def planted_capture(edit: Callable[[fx.Graph], object]) -> Iterator[None]:
    """``edit`` changes each graph that AOTAutograd traces, before anyone else sees it."""
    from torch._functorch._aot_autograd import graph_capture

    original = graph_capture._create_graph

    @functools.wraps(original)
    def edited(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        made = result[0] if isinstance(result, tuple) else result
        edit(made.graph)
        made.recompile()
        return result

    with mock.patch.object(graph_capture, original.__name__, edited):
        yield


@contextlib.contextmanager
def planted_dynamo(edit: Callable[[fx.Graph], object]) -> Iterator[None]:
    """``edit`` changes each graph that Dynamo hands to its backend."""
    from torch._dynamo.output_graph import OutputGraph

    original = OutputGraph.call_user_compiler

    @functools.wraps(original)
    def edited(self: Any, gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        edit(gm.graph)
        gm.recompile()
        return original(self, gm, *args, **kwargs)

    with mock.patch.object(OutputGraph, original.__name__, edited):
        yield


@contextlib.contextmanager
def planted_fusion_check(name: str, answer: bool = True) -> Iterator[None]:
    """The scheduler's check of this name always gives ``answer``."""
    from torch._inductor.scheduler import Scheduler

    if not hasattr(Scheduler, name):
        raise ValueError(f"torch {torch.__version__} has no Scheduler.{name}")
    with mock.patch.object(Scheduler, name, lambda self, *args, **kwargs: answer):
        yield


@contextlib.contextmanager
def planted_fusion_for_gpus() -> Iterator[None]:
    """Triton's scheduling fuses what reads a buffer with what writes it, whichever elements they are."""
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.scheduler import Scheduler

    right = Scheduler.fusable_read_and_write

    def wrong(self: Any, read: Any, write: Any, *rest: Any, **more: Any) -> bool:
        for_gpus = any(isinstance(b, TritonScheduling) for b in self.backends.values())
        return (for_gpus and read.name == write.name) or bool(right(self, read, write, *rest, **more))

    with mock.patch.object(Scheduler, "fusable_read_and_write", wrong):
        yield


@contextlib.contextmanager
def planted_inplace() -> Iterator[None]:
    """Every node of the scheduler may write over what it reads."""
    from torch._inductor.scheduler import SchedulerNode

    with mock.patch.object(SchedulerNode, "can_inplace", lambda self, read: True):
        yield


@contextlib.contextmanager
def planted_cpp_sum() -> Iterator[None]:
    """C++ kernels, vectorised or not, add a hundredth too much to a sum at each step."""
    from torch._inductor.codegen import cpp

    def changed(original: Callable[..., str]) -> Any:
        @functools.wraps(original)
        def combine(*args: Any, **kwargs: Any) -> str:
            text = original(*args, **kwargs)
            kind = next(a for a in args if isinstance(a, str))
            return f"({text}) * decltype({text})(1.01f)" if kind == "sum" else text

        return combine

    with contextlib.ExitStack() as stack:
        for holder, name in ((cpp, "reduction_combine"), (cpp.CppVecKernel, "reduction_combine_vec")):
            stack.enter_context(mock.patch.object(holder, name, changed(getattr(holder, name))))
        yield


@contextlib.contextmanager
def planted_cpp(op: str, vector: str, scalar: str = "") -> Iterator[None]:
    """C++ code of ``op``: ``vector`` in vectorised kernels, and ``scalar`` (if given) in scalar ones.

    Format strings of the operand ``{0}``: ``{0}.exp() + {0}``.
    """
    from torch._inductor.codegen import cpp

    def code(template: str) -> Any:
        return staticmethod(lambda *operands: template.format(*operands))

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(cpp.CppVecOverrides, op, code(vector)))
        if scalar:
            stack.enter_context(mock.patch.object(cpp.CppOverrides, op, code(scalar)))
        yield
