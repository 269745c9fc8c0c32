"""Passes that are right, in the forms in which people write them: none may be accused.  Run by ``test_passes.py``."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch._inductor import pattern_matcher as pm
from torch._inductor.custom_graph_pass import CustomGraphPass, CustomInferenceAwareGraphPass
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.subgraph_rewriter import replace_pattern

aten, prims = torch.ops.aten, torch.ops.prims


@dataclass
class Settings:
    enabled: bool = True


def swap(graph: fx.Graph, old: fx.Node, new: fx.Node) -> None:
    old.replace_all_uses_with(new)
    graph.erase_node(old)


def remove_detach(gm: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    for node in list(gm.graph.nodes):
        if node.target == aten.detach.default or node.target == "detach":
            swap(gm.graph, node, node.all_input_nodes[0])
    gm.graph.lint()
    return gm


def remove_assertions(gm: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    for node in list(gm.graph.nodes):
        if node.target in (aten._assert_async.msg, aten._assert_scalar.default, aten.sym_constrain_range.default):
            gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    return gm


def full_like_as_full(gm: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    for node in list(gm.graph.nodes):
        if node.target is aten.full_like.default and "memory_format" not in node.kwargs:
            value = node.meta["val"]
            with gm.graph.inserting_before(node):
                made = gm.graph.call_function(
                    aten.full.default, (list(value.shape), node.args[1]), {"dtype": value.dtype, "device": value.device}
                )
            made.meta = dict(node.meta)
            swap(gm.graph, node, made)
    return gm


def view_to_reshape(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.target is aten.view.default:
            node.target = aten.reshape.default


def _is_view(node: fx.Node) -> bool:
    return any(r.alias_info is not None for r in getattr(node.target, "_schema", aten.sin.default._schema).returns)


def common_calls(graph: fx.Graph) -> None:
    """Equal calls are made once."""
    known: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and not node.target.__name__.endswith("_") and hasattr(node.target, "_schema"):
            if node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags:
                continue
            if any(r.alias_info is not None for r in node.target._schema.returns):
                continue
            key = (node.target, repr(node.args), repr(node.kwargs))
            (output,) = (n for n in graph.nodes if n.op == "output")
            if (
                key in known
                and not any(u is output or _is_view(u) for u in node.users)
                and not any(u.target is aten.copy_.default for n in node.all_input_nodes for u in n.users)
            ):
                swap(graph, node, known[key])
            else:
                known.setdefault(key, node)


class AddsToOne(CustomGraphPass):
    """``x + x`` of floats is ``x * 2``."""

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            doubled = node.target is aten.add.Tensor and node.args[0] is node.args[1] and not node.kwargs
            if doubled and node.meta["val"].is_floating_point():
                node.target, node.args = aten.mul.Tensor, (node.args[0], 2.0)

    def uuid(self) -> Any:
        return None


class SquareAware(CustomInferenceAwareGraphPass):
    def __call__(self, graph: fx.Graph, is_inference: bool) -> None:
        for node in list(graph.nodes):
            if node.target is aten.pow.Tensor_Scalar and node.args[1] == 2:
                old, new = node.args[0].meta["val"].dtype, node.meta["val"].dtype
                if old == new != torch.bool:
                    node.target, node.args = aten.mul.Tensor, (node.args[0], node.args[0])

    def uuid(self) -> Any:
        return None


class FoldBase:
    def __init__(self, level: int = 2) -> None:
        self.level = level

    def __call__(self, gm: fx.GraphModule) -> bool:
        changed = self.process(gm)
        gm.recompile()
        return changed

    def process(self, gm: fx.GraphModule) -> bool:
        raise NotImplementedError


class FoldPermutes(FoldBase):
    def process(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in list(gm.graph.nodes):
            if node.target == aten.permute.default and node.args[0].target == aten.permute.default:
                inner = node.args[0]
                rank = len(node.args[1])
                both = [inner.args[1][d % rank] % rank for d in node.args[1]]
                node.args = (inner.args[0], both)
                changed = True
        return changed


class FoldSlices(FoldBase):
    def process(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in list(gm.graph.nodes):
            if node.target == aten.slice.Tensor and len(node.args) == 4:
                x, dim, start, end = node.args
                (output,) = (n for n in gm.graph.nodes if n.op == "output")
                if start == 0 and end >= x.meta["val"].shape[dim] and output not in node.users:
                    swap(gm.graph, node, x)
                    changed = True
        return changed


class SplitToSlices(PassBase):
    """``split`` as slices."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        graph, changed = graph_module.graph, False
        for node in list(graph.nodes):
            if node.target is aten.split_with_sizes.default:
                x, sizes = node.args[:2]
                dim = node.args[2] if len(node.args) > 2 else 0
                starts = [sum(sizes[:i]) for i in range(len(sizes))]
                for user in list(node.users):
                    if user.target is not operator.getitem:
                        continue
                    at = user.args[1]
                    with graph.inserting_before(user):
                        made = graph.call_function(aten.slice.Tensor, (x, dim, starts[at], starts[at] + sizes[at]))
                    made.meta = dict(user.meta)
                    swap(graph, user, made)
                    changed = True
        graph.eliminate_dead_code()
        return PassResult(graph_module, changed)


class Fusion:
    """With patterns of its own, and a configuration."""

    def __init__(self, config: Settings) -> None:
        self.patterns = pm.PatternMatcherPass()
        pm.register_replacement(
            lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w,
            lambda x, w: torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * x * w,
            [torch.empty(4, 8), torch.empty(8)],
            pm.fwd_only,
            self.patterns,
        )

    def __call__(self, graph: fx.Graph) -> None:
        self.patterns.apply(graph)


class NeedsALevel:
    """Its constructor wants an argument."""

    def __init__(self, level: int, names: tuple[str, ...] = ()) -> None:
        self.level = level

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is aten.mul.Tensor and node.args[1] == self.level:
                if isinstance(node.args[0], fx.Node) and node.args[0].meta["val"].dtype == torch.float32:
                    node.args = (node.args[0], float(self.level))


def register_neg(pm_pass: pm.PatternMatcherPass) -> None:
    @pm.register_graph_pattern(
        pm.CallFunction(aten.sub.Tensor, pm.KeywordArg("x"), pm.KeywordArg("y")),
        pass_dict=pm_pass,
        extra_check=lambda match: (
            isinstance(match.kwargs["y"], fx.Node)
            and not match.nodes[0].kwargs
            and all(match.kwargs[n].meta["val"].is_floating_point() for n in "xy")
            and match.kwargs["x"].meta["val"].dtype == match.kwargs["y"].meta["val"].dtype
        ),
    )
    def negated(match: pm.Match, x: fx.Node, y: fx.Node) -> None:
        match.replace_by_example(lambda x, y: aten.add.Tensor(x, aten.neg.default(y)), [x, y])


PAIR = (lambda x: x * torch.sigmoid(x), lambda x: F.silu(x), [torch.empty(4, 8)])


def tidy(gm: fx.GraphModule) -> fx.GraphModule:
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


class Manager:
    """Runs passes in their order."""

    def __init__(self) -> None:
        self.passes = [FoldPermutes(), tidy]

    def __call__(self, gm: fx.GraphModule) -> fx.GraphModule:
        for each in self.passes:
            each(gm)
        return gm


class ReluByClamp(fx.Transformer):
    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target in (torch.relu, F.relu):
            return super().call_function(torch.clamp_min, (args[0], 0), {})
        return super().call_function(target, args, kwargs)


class Pointwise(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node.op == "call_function" and node.target in (aten.add.Tensor, aten.mul.Tensor, aten.relu.default)


def fuse_pointwise(gm: fx.GraphModule) -> fx.GraphModule:
    """Puts what is supported into modules of its own."""
    return CapabilityBasedPartitioner(gm, Pointwise(), allows_single_node_partition=True).partition_and_fuse()


def float_methods(gm: fx.GraphModule, sample_inputs: list[torch.Tensor]) -> fx.GraphModule:
    """``x.float()`` as ``x.to(torch.float32)``."""
    for node in list(gm.graph.nodes):
        if node.op == "call_method" and node.target == "float":
            node.target, node.args = "to", (node.args[0], torch.float32)
    gm.recompile()
    return gm


def fold_constants(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns a module that folds, and finishes its graph, when it is first called."""
    return split_const_subgraphs(gm)


def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.relu(x * scale)


def scaled_otherwise(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.clamp_min(torch.mul(x, scale), 0)


def rewrite_scaled(gm: fx.GraphModule) -> fx.GraphModule:
    """A pattern with a number among its parameters."""
    replace_pattern(gm, scaled, scaled_otherwise)
    return gm
