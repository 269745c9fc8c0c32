"""FX passes as a user may write them: some right, some subtly wrong.  Run by ``test_check_pass.py``."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

aten = torch.ops.aten
NEUTRAL = {aten.mul.Tensor: 1, aten.add.Tensor: 0}


def replace(graph: fx.Graph, old: fx.Node, new: fx.Node) -> None:
    old.replace_all_uses_with(new)
    graph.erase_node(old)


def does_nothing(node: fx.Node) -> bool:
    return node.target is aten.clone.default or (
        node.target in NEUTRAL and node.args[1] == NEUTRAL[node.target] and not node.kwargs
    )


def drop_noops(graph: fx.Graph) -> None:
    """``x * 1``, ``x + 0``, ``clone(x)`` become ``x``: wrong where dtypes are promoted, or results must be fresh."""
    for node in list(graph.nodes):
        if does_nothing(node):
            replace(graph, node, node.args[0])


def drop_noops_guarded(graph: fx.Graph) -> None:
    """The same where the dtype stays and no result shares the memory."""

    def memory(value: object) -> int:
        return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else -1

    (output,) = (n for n in graph.nodes if n.op == "output")
    returned = {memory(n.meta.get("val")) for n in output.all_input_nodes}
    for node in list(graph.nodes):
        if does_nothing(node):
            source, value = node.args[0], node.meta["val"]
            if source.meta["val"].dtype == value.dtype and memory(value) not in returned:
                replace(graph, node, source)


def inner_permute(node: fx.Node) -> fx.Node | None:
    if node.target is not aten.permute.default or node.args[0].target is not aten.permute.default:
        return None
    return node.args[0]


def fold_permutes(graph: fx.Graph) -> None:
    """Twice the same permutation is none: wrong, a cycle of three axes is no involution."""
    for node in list(graph.nodes):
        inner = inner_permute(node)
        if inner is not None and list(inner.args[1]) == list(node.args[1]):
            replace(graph, node, inner.args[0])


def fold_permutes_right(gm: fx.GraphModule) -> fx.GraphModule:
    """Two permutations are one."""
    for node in list(gm.graph.nodes):
        inner = inner_permute(node)
        if inner is not None:
            with gm.graph.inserting_before(node):
                both = [inner.args[1][d] for d in node.args[1]]
                made = gm.graph.call_function(aten.permute.default, (inner.args[0], both))
            made.meta = dict(node.meta)
            replace(gm.graph, node, made)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


class HalvesAsProducts(CustomGraphPass):
    """``x / 2`` becomes ``x * 0.5``: exact."""

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is aten.div.Tensor and node.args[1] in (2, 2.0) and not node.kwargs:
                node.target, node.args = aten.mul.Tensor, (node.args[0], 0.5)

    def uuid(self) -> str:
        return "halves"


halves = HalvesAsProducts()
matcher = PatternMatcherPass()


@register_graph_pattern(CallFunction(aten.permute.default, KeywordArg("x"), KeywordArg("dims")), pass_dict=matcher)
def reversed_permute(match: object, x: fx.Node, dims: list[int]) -> None:
    """Wrong for all but involutions: the axes are taken from the wrong side."""
    match.replace_by_example(lambda t: aten.permute.default(t, [dims.index(d) for d in range(len(dims))]), [x])


def with_settings(graph: fx.Graph, settings: dict[str, int]) -> None:
    """No pass: Inductor has a graph to give and nothing else."""
    drop_noops(graph)


def timed(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> None:
        function(*args, **kwargs)

    return wrapper


timed_with_settings = timed(with_settings)


def raises_a_type_error(graph: fx.Graph) -> None:
    raise TypeError("raises_a_type_error() missing 1 required positional argument: 'settings'")


def never_fires(graph: fx.Graph) -> None:
    pass


def raises(graph: fx.Graph) -> None:
    raise KeyError("val")


def crashes_on_permutations(graph: fx.Graph) -> None:
    if any(node.target is aten.permute.default for node in graph.nodes):
        os.kill(os.getpid(), signal.SIGSEGV)


def leaves_a_dangling_node(graph: fx.Graph) -> None:
    """A node before what it reads."""
    last = list(graph.nodes)[-2]
    first = next(n for n in graph.nodes if n.op == "call_function")
    if first is not last:
        first.args = (last, *first.args[1:])


def forgets_the_dtype(graph: fx.Graph) -> None:
    """Casts to half are dropped, and the notes of the nodes are left as they were."""
    for node in list(graph.nodes):
        if node.target is torch.ops.prims.convert_element_type.default:
            replace(graph, node, node.args[0])
