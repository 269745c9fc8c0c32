"""What is copied from an input is taken before the input is overwritten (pytorch/pytorch#198131)."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.fx_passes.post_grad:remove_noop_ops": ("49cbc8505267",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor.fx_passes import post_grad

    original = post_grad.remove_noop_ops

    @functools.wraps(original)
    def remove_noop_ops(graph: fx.Graph) -> Any:
        before = {copy: copy.args[1] for copy in _copies(graph)}
        answer = original(graph)
        written: dict[fx.Node, fx.Node] = {}
        for copy in _copies(graph):
            target, source = copy.args[:2]
            if source in written and before.get(copy) is not source:
                used()
                with graph.inserting_before(written[source]):
                    taken = graph.call_function(torch.ops.aten.clone.default, (source,))
                taken.meta.update(before[copy].meta)
                copy.replace_input_with(source, taken)
            written.setdefault(target, copy)
        return answer

    return replaced((post_grad, "remove_noop_ops", remove_noop_ops))


def _copies(graph: fx.Graph) -> list[Any]:
    """In the order of the graph."""
    return [node for node in graph.nodes if node.target is torch.ops.aten.copy_.default]


MEND = Mend("copied-sources", "a copy takes its source before that is overwritten", TEXTS, _apply)
