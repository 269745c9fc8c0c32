"""What reads an input that is overwritten later is saved for the backward pass (pytorch/pytorch#197039)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._functorch.partitioners:classify_nodes": ("3df7a40c459e",),
    "torch._functorch.partitioners:min_cut_rematerialization_partition": ("b75ad401fef2",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._functorch import partitioners

    original = partitioners.classify_nodes

    @functools.wraps(original)
    def classify_nodes(joint_module: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        info = original(joint_module, *args, **kwargs)
        for reader in _readers_of_overwritten(joint_module.graph):
            if reader not in info.required_bw_nodes and "recompute" not in reader.meta:
                used()
                reader.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return info

    return replaced((partitioners, "classify_nodes", classify_nodes))


def _readers_of_overwritten(graph: fx.Graph) -> Iterator[fx.Node]:
    """What computes from an input of the forward pass, or a view of it, that the graph writes back to at its end."""
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    waiting = list({copy.args[0]: None for copy in copies if copy.args[0].op == "placeholder"})
    while waiting:
        for user in waiting.pop().users:
            if user.op != "call_function" or user in copies:
                continue
            if getattr(user.target, "is_view", False):
                waiting.append(user)
            elif isinstance(user.meta.get("val"), torch.Tensor) and not set(user.users) <= set(copies):
                yield user


MEND = Mend(
    "overwritten-inputs", "what reads an overwritten input is not computed again",
    TEXTS, _apply,
)  # fmt: skip
