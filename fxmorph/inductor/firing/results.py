"""What a call gives of a fake value, before it is part of a program."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.inductor.firing.argument_values import Fresh, Given, New
from fxmorph.inductor.firing.module_calls import made_module
from fxmorph.inductor.firing.operator_calls import Call
from fxmorph.torchapi.dispatch import tree_leaves, tree_map


def shapes_of(value: Any) -> tuple[Any, ...]:
    """Those of a tensor, or of several; of tensors that a call wants besides."""
    shapes: list[tuple[Any, Any]] = []
    for each in tree_leaves(value):
        if isinstance(each, torch.Tensor):
            shapes.append((tuple(each.shape), each.dtype))
        elif isinstance(each, (New, Fresh)):
            shapes.append((each.spec.shape, each.spec.dtype))
    return tuple(shapes)


def called(call: Call, value: Any) -> Any:
    """The result of a call on a fake value."""

    def filled(argument: Any) -> Any:
        if isinstance(argument, Given):
            return value
        if isinstance(argument, (New, Fresh)):
            return torch.empty(argument.spec.shape, dtype=getattr(torch, argument.spec.dtype))
        return argument

    args, kwargs = tree_map(filled, call.args), tree_map(filled, dict(call.kwargs))
    if call.op == "call_module":
        return made_module(call.target)(*args, **kwargs)
    if call.op == "call_method":
        return getattr(args[0], call.target)(*args[1:], **kwargs)
    return call.target(*args, **kwargs)
