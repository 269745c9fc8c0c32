"""Numbers in the place of symbols that a pass wrote into a graph: what compiles the graph knows what these are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from fxmorph.inductor.apply import clone_module
from fxmorph.torchapi.symbolic_sizes import at_sizes


def with_numbers(gm: fx.GraphModule, numbers: Mapping[Any, int]) -> fx.GraphModule:
    """``gm`` itself where no argument is a symbol, else a copy."""
    met: list[torch.SymInt] = []

    def number(value: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return value
        met.append(value)
        return at_sizes(value, numbers)

    copy = clone_module(gm)
    for node in copy.graph.nodes:
        args: Any = map_aggregate(node.args, number)
        kwargs: Any = map_aggregate(node.kwargs, number)
        if met:
            node.args, node.kwargs = args, kwargs
    return copy if met else gm
