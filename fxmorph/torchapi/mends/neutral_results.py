"""A neutral operation that is returned gives a new tensor, not its operand (pytorch/pytorch#197893)."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.fx_passes.joint_graph:remove_no_ops": ("9917adc24064",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor.fx_passes import joint_graph

    original = joint_graph.remove_no_ops

    @functools.wraps(original)
    def remove_no_ops(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        before = _returned(gm.graph)
        answer = original(gm, *args, **kwargs)
        [output] = gm.graph.find_nodes(op="output")
        fresh: dict[fx.Node, fx.Node] = {}
        for was, now in zip(before, _returned(gm.graph), strict=True):
            if was is now or _base(now).op != "placeholder" or (was.op != "call_function" or _base(was) is _base(now)):
                continue
            used()
            with gm.graph.inserting_before(output):
                copy = gm.graph.call_function(torch.ops.aten.clone.default, (now,))
            copy.meta.update(now.meta)
            copy.meta["val"] = was.meta["val"]
            fresh[was] = copy
        if fresh:
            places = iter(zip(before, _returned(gm.graph), strict=True))

            def renewed(now: fx.Node) -> fx.Node:
                return fresh.get(next(places)[0], now)

            output.args = fx.map_arg(output.args, renewed)
        return answer

    return replaced((joint_graph, "remove_no_ops", remove_no_ops))


def _returned(graph: fx.Graph) -> list[fx.Node]:
    """What the graph returns, in order, repetitions included."""
    found: list[fx.Node] = []
    [output] = graph.find_nodes(op="output")

    def seen(node: fx.Node) -> fx.Node:
        found.append(node)
        return node

    fx.map_arg(output.args, seen)
    return found


def _base(node: fx.Node) -> fx.Node:
    """What the node is a view of, or the node."""
    while node.op == "call_function" and getattr(node.target, "is_view", False) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


MEND = Mend("neutral-results", "what is returned is a new tensor where eager's is", TEXTS, _apply)
