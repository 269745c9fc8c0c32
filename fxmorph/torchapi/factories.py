"""Calls that make tensors of no other tensor: they are told on which device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import OpOverload, aten_packet, schema_of, tree_leaves


def make_on(device: str, graph: fx.Graph) -> None:
    """Calls that make tensors make them on ``device``, whatever they said; on the CPU they stay as they are."""
    for node in graph.nodes:
        if node.op == "call_function":
            node.kwargs = {**node.kwargs, **device_of(node.target, node.args, node.kwargs, device)}


def device_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: str) -> dict[str, torch.device]:
    """The keyword that a call needs for its result to be on ``device``; nothing where it has that of a tensor."""
    if device == "cpu" or not _takes_device(target):
        return {}
    given = tree_leaves([list(args), dict(kwargs)])
    if any(isinstance(v, (fx.Node, torch.Tensor)) for v in given) and "device" not in kwargs:
        return {}
    return {"device": torch.device(device)}


def _takes_device(target: Any) -> bool:
    """Whether an operator, or a function of torch by the operator of its name, has such a keyword."""
    name = getattr(target, "__name__", "")
    if isinstance(target, OpOverload):
        overloads = [target]
    elif getattr(torch, name, None) is target:
        packet = aten_packet(name)
        overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    else:
        return False
    return any(a.name == "device" and a.kwarg_only for o in overloads for a in schema_of(o).arguments)
