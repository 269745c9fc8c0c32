"""Graphs for ExecuTorch: Core ATen without views, and the edge dialect where that library is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, cast

from torch import fx

from fxmorph.torchapi.dispatch import OpOverload
from fxmorph.torchapi.stage_graphs import Decompositions


def is_installed() -> bool:
    """Whether graphs can be written in the dialect here."""
    return importlib.util.find_spec("executorch") is not None


def core_aten() -> Decompositions:
    """The decompositions after which only operators of Core ATen are left."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions())


def without_views(gm: fx.GraphModule) -> fx.GraphModule:
    """Operators that give views replaced by those that give copies; ``gm`` may change.  Raises what torch raises."""
    from torch._export.passes.replace_view_ops_with_view_copy_ops_pass import ReplaceViewOpsWithViewCopyOpsPass

    result = ReplaceViewOpsWithViewCopyOpsPass()(gm)
    return gm if result is None else cast(fx.GraphModule, result.graph_module)


def aten_operator(target: Any) -> OpOverload | None:
    """The operator of torch that one of the dialect stands for; None of what is none of the dialect."""
    return getattr(target, "_op", None) if type(target).__name__ == "EdgeOpOverload" else None


def to_edge_dialect(gm: fx.GraphModule) -> None:
    """Operators become those of the dialect, in place.  Raises ``ImportError`` without the library."""
    edge: Any = importlib.import_module("executorch.exir.dialects._ops").ops.edge
    for node in gm.graph.nodes:
        if isinstance(node.target, OpOverload):
            packet = getattr(getattr(edge, node.target.namespace), node.target.overloadpacket.__name__)
            node.target = getattr(packet, node.target._overloadname)
    gm.recompile()


def to_aten(gm: fx.GraphModule) -> None:
    """Operators of the dialect become those that they stand for, in place."""
    for node in gm.graph.nodes:
        node.target = aten_operator(node.target) or node.target
    gm.recompile()


def calls_edge_dialect(graph: fx.Graph) -> bool:
    """Whether a graph calls operators of the dialect."""
    return any(aten_operator(node.target) is not None for node in graph.nodes)
