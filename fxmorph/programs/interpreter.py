"""A graph as a program: its nodes one after the other on real tensors, or on fake ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import OpOverload, is_random, schema_of


class _OneCall(fx.Interpreter):
    """Tensors that the module holds are copied for each call: what a call writes to them stays its own."""

    def __init__(self, gm: fx.GraphModule, located: bool) -> None:
        super().__init__(gm)
        self.extra_traceback = located
        self._held: dict[str, Any] = {}

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target not in self._held:
            value = super().get_attr(target, args, kwargs)
            several = isinstance(value, (list, tuple, torch.nn.ParameterList))
            self._held[target] = [_copied(v) for v in value] if several else _copied(value)
        return self._held[target]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, OpOverload) and schema_of(target).name.endswith("::_unsafe_index_put_"):
            target = torch.ops.aten.index_put_.default  # Inductor's own name for it writes twice when eager runs it
        out = super().call_function(target, args, kwargs)
        if out is None and isinstance(target, OpOverload) and schema_of(target).name.startswith("aten::_foreach_"):
            # Reinplaced operators on lists return nothing, and Inductor's lowering what they wrote.
            return args[0]
        return out


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def program(gm: fx.GraphModule, located: bool = True) -> Callable[..., Any]:
    """The graph as a function of its placeholders.

    Interpreted: the code that torch.fx prints loses the sign of zero and NaN in complex constants.
    ``located``: exceptions say at which node.
    """
    return lambda *args: _OneCall(gm, located).run(*args)


def draws(gm: fx.GraphModule) -> str:
    """The name of an operator of the graph that draws random numbers, or ""."""
    for node in gm.graph.nodes:
        if isinstance(node.target, OpOverload) and is_random(node.target, node.args, node.kwargs):
            return str(node.target)
    return ""
