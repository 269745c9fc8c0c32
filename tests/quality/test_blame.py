"""Faults planted all over the compiler must be blamed on the stage and the unit that they were planted in.

Each case plants one fault in this process and asks for blame as an investigation does, on a small
program.  The default run holds one of each stage; ``-m slow`` all of them, and counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_programs import below_the_diagonal, two_scores
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.judge.ladder import kinds_of
from fxmorph.judge.trial import GraphSubject, Trial
from fxmorph.model import CompileConfig, Kind, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi import plain_parts, planting, planting_backend
from fxmorph.torchapi.compiling import cpp_compiler, reset
from fxmorph.torchapi.new_memory import garbage_in_new_memory
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.torchapi.planting_text import planted_text
from fxmorph.triage.blame.localize import localize
from fxmorph.triage.blame.probe import Probe

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler"),
]
aten = torch.ops.aten
Plant = Callable[[], contextlib.AbstractContextManager[Any]]


def blame_of(
    plant: Plant, fn: Callable[..., Any], inputs: Sequence[Any], config: CompileConfig, no_grad: bool = False,
    plan: ValuePlan = ValuePlan.SEED,
) -> Blame:  # fmt: skip
    """What is blamed for the finding that ``fn`` shows under the plant; fails where there is no finding."""
    subject = GraphSubject(fn, {ValuePlan.SEED: InputSet.snapshot(inputs)}, lambda c: c, no_grad)

    def trial(config: CompileConfig) -> Trial:
        return Trial(subject, config, 0, Clock())

    reset()
    try:
        # What is read before it is written must not hold the right value from an earlier run.
        with garbage_in_new_memory(), plant():
            accused = kinds_of(trial(config).judge(plan))
            assert accused, "the plant shows nothing"
            early = CompileConfig.make("eager", dict(config.options))
            stage = "dynamo" if kinds_of(trial(early).judge(plan)) & accused else "inductor"
            return localize(Probe(trial, config, plan, accused, 300.0), stage)
    finally:
        reset()


def swapping(old: Any, new: Any) -> Callable[[fx.Graph], None]:
    """A graph edit: every call of ``old`` is one of ``new``."""

    def edit(graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=old):
            node.target = new

    return edit


SIN_TO_COS = swapping(aten.sin.default, aten.cos.default)


def drop_scale(graph: fx.Graph) -> None:
    """The replacement's attention scales as it does by default, not as it was told."""
    for node in graph.nodes:
        if "scaled_dot_product" in str(node.target):
            node.kwargs = {k: v for k, v in node.kwargs.items() if k != "scale"}


@dataclass(frozen=True)
class Case:
    """A plant, a program, and where the blame must fall."""

    plant: Plant
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    unit: str
    config: CompileConfig = field(default_factory=CompileConfig.make)
    no_grad: bool = False
    plan: ValuePlan = ValuePlan.SEED


def randn(*shape: int, grad: bool = False) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return values.requires_grad_(grad)


def sines(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = torch.relu(x * 2 + y) - y
    b = torch.sin(a) * y
    return b.sum(0), a.mT


def cat_of_a_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = torch.cat([x, y], 1)
    return torch.cat([both, both[0:9999][:, 0:3]], 1)


XY = (randn(4, 6), randn(4, 6) * 0.5)


def wrong_silu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x * 1.01)


def wrong_softmax(x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / (e.sum(dim, keepdim=True) + 0.1)


def contiguous_silu(x: torch.Tensor) -> torch.Tensor:
    return (x * torch.sigmoid(x)).contiguous()


def wrong_tanh_backward(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return grad * (1 - out)


CASES: dict[str, Case] = {
    "pre_grad pass": Case(
        lambda: planting.planted_pass(swapping(torch.sin, torch.cos), "numpy_compat_normalization", "pre_grad"),
        sines, XY, "pre_grad.numpy_compat_normalization",
    ),
    "pre_grad pass of another module": Case(
        lambda: planting.planted_pass(swapping(torch.sin, torch.cos), "quant_lift_up", "quantization"),
        sines, XY, "pre_grad.quant_lift_up",
    ),
    "decomposition": Case(
        lambda: planting.planted_decomposition("silu", wrong_silu),
        lambda x: F.silu(x + 1) * 2, XY[:1], "decomposition.aten.silu.default",
    ),
    "inner decomposition": Case(
        lambda: planting.planted_decomposition("_softmax", wrong_softmax),
        lambda x, y: torch.softmax(x * 2, -1) + y, XY, "decomposition.aten._softmax.default",
    ),
    "decomposition's strides": Case(
        lambda: planting.planted_decomposition("silu", contiguous_silu),
        lambda x: F.silu(x.mT), XY[:1], "decomposition.aten.silu.default",
    ),
    "backward decomposition": Case(
        lambda: planting.planted_decomposition("tanh_backward", wrong_tanh_backward),
        lambda x, y: torch.tanh(x * y) + 1, (randn(4, 6, grad=True), XY[1]), "decomposition.aten.tanh_backward.default",
    ),
    "joint pass": Case(
        lambda: planting.planted_pass(SIN_TO_COS), sines, XY, "joint.constant_fold_uniform_value"
    ),
    "joint pass, gradient": Case(
        lambda: planting.planted_pass(swapping(aten.cos.default, aten.sin.default)),
        lambda x, y: torch.sin(x * y), (randn(4, 6, grad=True), XY[1]), "joint.constant_fold_uniform_value",
    ),
    "post_grad pass": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "remove_assert_ops", "post_grad"),
        sines, XY, "post_grad.remove_assert_ops",
    ),
    "view_to_reshape": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "view_to_reshape", "compile_fx"),
        sines, XY, "post_grad.view_to_reshape",
    ),
    "cse": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "fx_graph_cse", "partitioner"),
        lambda x, y: torch.sin(x * y), (randn(4, 6, grad=True), XY[1]), "partitioner.fx_graph_cse",
    ),
    "partitioner": Case(
        lambda: planting_backend.planted_partition(swapping(aten.cos.default, aten.sin.default)),
        lambda x, y: torch.sin(x * y), (randn(4, 6, grad=True), XY[1]),
        "partitioner.min_cut_rematerialization_partition",
    ),
    "runtime": Case(
        lambda: planting_backend.planted_runtime(torch.clone),
        lambda x, y: (x.view(-1), x + y), XY,
        "runtime_wrappers.RuntimeWrapper/_replay_output_aliases",
    ),
    "attention pattern": Case(
        lambda: planting_backend.planted_entry(
            "joint.pass_patterns[0]/_sfdp_pattern_1_inference", drop_scale
        ),
        lambda q, k, v: (torch.matmul(q, k.transpose(-2, -1)).div(3.0)).softmax(dim=-1).matmul(v),
        (randn(1, 2, 8, 4), randn(1, 2, 8, 4) * 2, randn(1, 2, 8, 4) + 1),
        "joint.pass_patterns[0]/_sfdp_pattern_1_inference",
    ),
    "joint graph entry": Case(
        lambda: planting_backend.planted_entry("joint.pass_patterns[1]/mul_softmax_pattern", swapping(
            aten.amax.default, aten.amin.default)),
        lambda x: torch.softmax(x * 200, -1), XY[:1], "joint.pass_patterns[1]/mul_softmax_pattern",
    ),
    "post_grad entry": Case(
        lambda: planting_backend.planted_entry(
            "post_grad.pass_patterns[1]/pointless_cumsum_replacement", SIN_TO_COS
        ),
        lambda x: torch.sin(x) + torch.ones(4, 6).cumsum(1), XY[:1],
        "post_grad.pass_patterns[1]/pointless_cumsum_replacement",
    ),
    "captured graph": Case(
        lambda: planting_backend.planted_capture(SIN_TO_COS), sines, XY, "aot.graph_capture"
    ),
    "dynamo": Case(
        lambda: planting_backend.planted_dynamo(swapping(torch.sin, torch.cos)), sines, XY, "dynamo",
    ),
    "reduced sum": Case(
        lambda: planting.planted_lowering("sum", "amax"),
        lambda x: x.sum([1]) * 2, XY[:1], "lowering.aten.sum.dim_IntList",
    ),
    "opt-in entry": Case(
        lambda: planting_backend.planted_entry(
            "pre_grad.normalization_pass/normalize_cat_default", swapping(torch.sin, torch.cos)
        ),
        lambda x, y: torch.sin(torch.cat([x, y], -1)), XY, "pre_grad.normalization_pass/normalize_cat_default",
        CompileConfig.make(inductor={"pre_grad_fusion_options": {"normalization_pass": {}}}),
    ),
    "entry to Inductor's IR": Case(
        lambda: planting_backend.planted_entry("post_grad.pass_patterns[1]/cat_slice_cat", None),
        cat_of_a_slice, XY, "post_grad.pass_patterns[1]/cat_slice_cat",
    ),
    "fusion legality, vertical check": Case(
        lambda: planting_backend.planted_fusion_check("can_fuse_vertical"),
        lambda x: (x.sum(1), x.sum(1).flip(0) * x.exp().sum(1)), (randn(8, 16),), "scheduler.can_fuse_vertical",
    ),
    "reinplace": Case(
        lambda: planting.planted_pass(swapping(aten.copy_.default, aten.add_.Tensor),
                                      "reinplace_inplaceable_ops", "post_grad"),
        lambda x, y: x.copy_(y * 2), XY, "post_grad.reinplace_inplaceable_ops",
    ),
    "noop removal": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "remove_noop_ops", "post_grad"), sines, XY,
        "post_grad.remove_noop_ops",
    ),
    "reorder_for_locality": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "reorder_for_locality", "post_grad"),
        sines, XY, "post_grad.reorder_for_locality", no_grad=True,
    ),
    "freezing": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "constant_fold", "freezing"),
        sines, XY, "freezing.constant_fold", CompileConfig.make(inductor={"freezing": True}), no_grad=True,
    ),
    "lowering": Case(
        lambda: planting.planted_lowering("sin", "cos"), sines, XY, "lowering.aten.sin.default"
    ),
    "reduction's lowering": Case(
        lambda: planting.planted_lowering("amax", "amin"),
        lambda x, y: torch.amax(x * y, 1) + 1, XY, "lowering.aten.amax.default",
    ),
    "vectorised code": Case(
        lambda: planting_backend.planted_cpp("exp", "{0}.exp() + {0}"),
        lambda x: torch.exp(x * 0.5) + 1, (randn(8, 32),), "codegen.CppVecOverrides.exp",
    ),
    "fusion legality": Case(
        lambda: planting_backend.planted_fusion_check("fusable_read_and_write"),
        lambda x: (x.sum(1), x.sum(1).flip(0) * x.exp().sum(1)), (randn(8, 16),), "scheduler.fusable_read_and_write",
    ),
    "in place": Case(
        planting_backend.planted_inplace,
        lambda x: (lambda s: s.flip(0) * 2)(torch.softmax(x, 1).cumsum(0)), (randn(16, 16),),
        "scheduler.SchedulerNode/can_inplace",
    ),
    "sort": Case(
        lambda: planting.planted_pass(SIN_TO_COS, "stable_topological_sort", "post_grad"),
        sines, XY, "post_grad.stable_sort",
    ),
    "code of a reduction": Case(
        planting_backend.planted_cpp_sum, lambda x: x.abs().sum(1), (randn(40, 70),),
        "codegen.CppKernel.reduction(sum)",
    ),
    "scalar code": Case(
        lambda: planting_backend.planted_cpp("exp", "{0}.exp() + {0}", "std::exp({0}) + {0}"),
        lambda x: torch.exp(x * 0.5) + 1, (randn(8, 32),), "codegen.CppOverrides.exp",
    ),
}  # fmt: skip

PARTITIONERS = "torch._functorch.partitioners"
RUNTIME = "torch._functorch._aot_autograd.runtime_wrappers"
METADATA = "torch._functorch._aot_autograd.collect_metadata_analysis"
CAPTURE = "torch._functorch._aot_autograd.graph_capture_wrappers"
FUNCTIONAL = "torch._subclasses.functional_tensor"
CPP, WRAPPER, SCHEDULER = (f"torch._inductor.{n}" for n in ("codegen.cpp", "codegen.wrapper", "scheduler"))
MIN_CUT = "partitioner.min_cut_rematerialization_partition"
XY_GRAD = (randn(4, 6, grad=True), randn(6, 4, grad=True).detach().mT.contiguous().requires_grad_())
SQUARE = (randn(6, 6), randn(6, 6) * 0.5)


def text(module: str, name: str, old: str, new: str) -> Plant:
    return lambda: planted_text(module, name, old, new)


def writes_a_used_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = (x * 2) * y
    x.mul_(0)
    return z


def writes_its_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return y.sin()


def writes_a_row(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    z[1].add_(y[0])
    return z * 3


def returns_what_it_wrote(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    z[1].add_(y[0])
    return z


def views_of_a_product(x: torch.Tensor, y: torch.Tensor) -> Any:
    t = x * y
    return x + y, t.view(-1), t[1:]


def draws_again(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two masks that the backward pass draws again."""
    from torch.utils.checkpoint import checkpoint

    def region(a: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.dropout(a.sin(), 0.5, True), 0.3, True).cos()

    out: torch.Tensor = checkpoint(region, x * y, use_reentrant=False)
    return out


#: Of parts that work between graphs: each is found by doing it otherwise.
CASES |= {
    "random numbers drawn again unnoticed": Case(
        text(PARTITIONERS, "has_recomputable_rng_ops", "            return True\n", "            return False\n"),
        draws_again, (randn(16, 32, grad=True), randn(16, 32)), "partitioner.has_recomputable_rng_ops",
    ),
    "states of random numbers in another order": Case(
        text(PARTITIONERS, "functionalize_rng_ops", "fw_rng_state_outputs.append(state)",
             "fw_rng_state_outputs.insert(0, state)"),
        draws_again, (randn(16, 32, grad=True), randn(16, 32)), "partitioner.functionalize_rng_ops",
    ),
    "gradient of what is taken apart in Python": Case(
        text("torch._decomp.decompositions", "multi_margin_loss", "    z = z.clamp_min(0)\n",
             "    z = z.detach().clamp_min(0) + z - z.detach()\n"),
        lambda x: F.multi_margin_loss(x * 2, torch.arange(4)), XY_GRAD[:1],
        "decomposition.aten.multi_margin_loss.default",
    ),
    "writes that have not reached a result": Case(
        text("torch._functorch._aot_autograd.functional_utils", "from_fun", "    sync_functional_tensor(t)\n", ""),
        returns_what_it_wrote, XY, "functionalization.from_fun",
    ),
    "function of a pass": Case(
        text("torch._inductor.fx_passes.joint_graph", "remove_no_ops",
             "not any(e in zeros for e in node.args)\n                    or node.kwargs.get(\"alpha\", 1) != 1",
             "not any(e in ones for e in node.args)"),
        lambda x, y: (x + torch.ones_like(x)) * y, XY, "joint.constant_fold_uniform_value/remove_no_ops",
    ),
    "saved values in another order": Case(
        text(PARTITIONERS, "_extract_fwd_bwd_modules",
             "            + saved_values\n            + saved_opaque_objects\n"
             "            + saved_opaque_nodes\n            + t",
             "            + saved_values[::-1]\n            + saved_opaque_objects\n            + saved_opaque_nodes\n"
             "            + t"),
        lambda x, y: (x.exp() @ y).tanh(), (randn(5, 5, grad=True), (randn(5, 5) * 2).requires_grad_()),
        f"{MIN_CUT}/_extract_fwd_bwd_modules",
    ),
    "only inputs saved": Case(
        text(PARTITIONERS, "choose_saved_values_set", "    if memory_budget > 1 or",
             "    return node_info.inputs\n    if memory_budget > 1 or"),
        writes_a_used_input, (XY[0], XY_GRAD[1]), f"{MIN_CUT}/choose_saved_values_set",
    ),
    "gradients in another order": Case(
        text(PARTITIONERS, "_extract_fwd_bwd_outputs",
             "bwd_outputs = outputs[num_fwd_outputs:]", "bwd_outputs = outputs[num_fwd_outputs:][::-1]"),
        lambda x, y: torch.sin(x) * y.exp(), XY_GRAD, f"{MIN_CUT}/_extract_fwd_bwd_modules",
    ),
    "functional form of an operator": Case(
        text(FUNCTIONAL, "FunctionalTensorMode.__torch_dispatch__",
             "        if kwargs is None:\n            kwargs = {}\n",
             "        kwargs = kwargs or {}\n"
             "        if func is torch.ops.aten.sub_.Tensor: func = torch.ops.aten.add_.Tensor\n"),
        lambda x, y: (x * 2).sub_(y) * 3, XY, "functionalization.aten.sub_.Tensor",
    ),
    "functional form of a view": Case(
        text(FUNCTIONAL, "FunctionalTensorMode.__torch_dispatch__",
             "        if kwargs is None:\n            kwargs = {}\n",
             "        kwargs = kwargs or {}\n"
             "        if func is torch.ops.aten.select.int and args[2] == 1: args = (args[0], args[1], 0)\n"),
        writes_a_row, XY, "functionalization.aten.select.int",
    ),
    "write in the graph": Case(
        text(CAPTURE, "apply_in_graph_mutations", "    if not input_info.mutates_data:", "    if True:"),
        writes_its_input, XY, "functionalization.apply_in_graph_mutations", no_grad=True,
    ),
    "what is said of a view": Case(
        text(METADATA, "run_functionalized_fw_and_collect_metadata", "        curr_storage = None\n        for o in",
             "        inp_storage_refs = dict.fromkeys(inp_storage_refs, 0)\n"
             "        curr_storage = None\n        for o in"),
        lambda x, y: (x * y, y.view(-1)), (randn(4, 6, grad=True), (randn(4, 6) * 2).requires_grad_()),
        "functionalization.run_functionalized_fw_and_collect_metadata",
    ),
    "write-back": Case(
        text(RUNTIME, "_create_runtime_wrapper", "    else: {oi}.copy_({ui})", "    else: {oi}.copy_({ui} * 2)"),
        writes_its_input, (XY[0], XY_GRAD[1]), "runtime_wrappers.RuntimeWrapper/_apply_input_mutations",
    ),
    "base of a view": Case(
        text(RUNTIME, "AliasOfIntermediateHandler.__init__", "self.base_idx = info.base_idx + num_user_outputs",
             "self.base_idx = 0"),
        views_of_a_product, (XY_GRAD[0], XY[1]), "runtime_wrappers.RuntimeWrapper/_replay_output_aliases",
    ),
    "order of gradients": Case(
        text(RUNTIME, "_codegen_backward_epilogue", '("    out = tuple(out)")', '("    out = tuple(reversed(out))")'),
        lambda x, y: (x * y).sin() * y, XY_GRAD, "runtime_wrappers.AOTDispatchAutograd",
    ),
    "printed index": Case(
        text("torch.utils._sympy.printers", "CppPrinter._print_ModularIndexing", "        if div != 1:",
             "        if div != 1 and not (div.is_Integer and mod.is_Integer and div % mod == 0):"),
        lambda x: x.permute(2, 1, 0).reshape(-1) + 1, (randn(4, 4, 4),), "codegen.CppPrinter",
    ),
    "numbers made tensors": Case(
        text("torch.fx.passes._tensorify_python_scalars", "_tensorify_impl", " and not node.is_impure()", ""),
        writes_its_input, XY, "aot.tensorify_python_scalars", no_grad=True,
    ),
    "offset of a view in the wrapper": Case(
        text(WRAPPER, "PythonWrapperCodegen.codegen_reinterpret_view", "self.codegen_sizevar(tgt_offset)",
             "self.codegen_sizevar(0 * tgt_offset)"),
        lambda x, w: (x * 2)[2:] @ w, SQUARE, "codegen.PythonWrapperCodegen/codegen_reinterpret_view", no_grad=True,
    ),
    "strides of a new buffer": Case(
        text(WRAPPER, "PythonWrapperCodegen.make_allocation", "self.codegen_python_shape_tuple(stride)",
             "self.codegen_python_shape_tuple(stride[::-1])"),
        lambda x: (x * 2).sin(), SQUARE[:1], "codegen.PythonWrapperCodegen/make_allocation", no_grad=True,
    ),
    "dead node that writes": Case(
        text(SCHEDULER, "Scheduler.dead_node_elimination", "            if can_eliminate:",
             "            if can_eliminate or (node.has_aliasing_or_mutation() and len(self.nodes) > 1):"),
        lambda x, y: (x.copy_(y.sum(0)), (y + 1).sum(1))[1], (randn(6), randn(6, 6)),
        "scheduler.dead_node_elimination", no_grad=True,
    ),
    "digits of a constant": Case(
        text("torch._inductor.codegen.cpp_utils", "value_to_cpp", '({repr(value)})"', '({value:.2g})"'),
        lambda x: torch.sin(x * 1.2345), SQUARE[:1], "codegen.CppOverrides.constant", no_grad=True,
    ),
    "scalar code beside right vectors": Case(
        text(CPP, "CppOverrides.round", 'return f"std::nearbyint({x})"', 'return f"std::round({x})"'),
        lambda x: torch.round(x.sum() / 4), (torch.arange(5.0),), "codegen.CppOverrides.round", no_grad=True,
    ),
}  # fmt: skip


AOT = "torch._functorch._aot_autograd"
ROWS = randn(6, 6)
OVERLAPPING = (ROWS[:4], ROWS[1:5], XY[1])
#: Of what is told about a program, and of what is made of it.
CASES |= {
    "views that require gradients": Case(
        text(f"{AOT}.functional_utils", "gen_alias_from_base",
             "        if aliased_base_tensor.requires_grad and not target_requires_grad:\n",
             "        if aliased_base_tensor.requires_grad and target_requires_grad:\n"),
        lambda x: (x * 2, x[1:]), XY_GRAD[:1], "functionalization.gen_alias_from_base",
    ),
    "a result cut off from another": Case(
        text(METADATA, "run_functionalized_fw_and_collect_metadata",
             "len(outs_with_identical_metadata_that_require_grad) > 0\n",
             "len(outs_with_identical_metadata_that_require_grad) > 1\n"),
        lambda x: (lambda y: (y, y.detach()))(x.sin() * 2), XY_GRAD[:1],
        "functionalization.run_functionalized_fw_and_collect_metadata",
    ),
    "writes with gradients": Case(
        text(f"{AOT}.functional_utils", "are_all_mutations_hidden_from_autograd",
             "        return torch._functionalize_are_all_mutations_hidden_from_autograd(t.elem)\n",
             "        return True\n"),
        lambda x, y: (x.copy_(y * 2), (x * y).sum())[1], (XY[0].clone(), XY_GRAD[1]),
        "functionalization.run_functionalized_fw_and_collect_metadata",
    ),
    "place of a view's input": Case(
        text(f"{AOT}.input_output_analysis", "create_synthetic_base_metadata",
             "                synthetic_base_info_for_output\n                if isinstance",
             "                o.base_idx\n                if isinstance"),
        lambda a, b, c: (a.mul_(2), b + 1, c[1:])[1:], OVERLAPPING,
        "functionalization.create_synthetic_base_metadata", no_grad=True,
    ),
    "order behind common bases": Case(
        text(RUNTIME, "AOTSyntheticBaseWrapper.pre_compile", "other_arg_entries.sort()",
             "other_arg_entries.sort(reverse=True)"),
        lambda a, b, c, d: (a.mul_(2), b + 1, c - d * 3)[1:], (*OVERLAPPING, XY[0]),
        "runtime_wrappers.AOTSyntheticBaseWrapper", no_grad=True,
    ),
}  # fmt: skip


def projected_then_set(state: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> Any:
    a = u.cos() * 2
    p = state @ w
    state.copy_(u + 1)
    return a, p


def mirrored_then_damped(x: torch.Tensor, b: torch.Tensor) -> Any:
    y = x.flip(0) * b + x
    s = x + b
    x.mul_(0.25)
    return y.cos(), s


def shifted_by_a_row(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    y = (x * b).sin() * 2
    p = y @ w
    z = F.pad(y[1:], (0, 0, 0, 1)) - x
    return p, z.cos(), y


def two_layers(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor, c: torch.Tensor) -> Any:
    p = F.linear(x, w, b)
    q = F.linear(x.sin(), v, c)
    return p.tanh() * 2, (p + q).exp()


def scaled_to_range(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = x * b
    high, low = y.amax(1, keepdim=True), y.amin(1, keepdim=True)
    return (y - low) / (high - low + 0.1)


DEPENDENCIES = "torch._inductor.dependencies"
#: Of order and memory that the scheduler loses, of what several nodes are made into, of what is forgotten in a kernel.
CASES |= {
    "order of a group": Case(
        text(SCHEDULER, "refresh_group_node_dependencies", "if dep.name not in group_snode.get_buffer_names()",
             "if dep.name not in group_snode.get_buffer_names() and not isinstance(dep, WeakDep)"),
        projected_then_set, (randn(8, 16), randn(16, 12), randn(8, 16)), "scheduler.refresh_group_node_dependencies",
    ),
    "pruned order": Case(
        text(SCHEDULER, "_prune_redundant_deps", " > 0 and node.scheduler.fusable_weak_dep(\n"
             "                dep, name_to_fused_node[op_name], node\n            )", " > 0"),
        mirrored_then_damped, (randn(96), randn(96)), "scheduler.prune_redundant_deps", no_grad=True,
    ),
    "order of a write behind a product": Case(
        text(SCHEDULER, "Scheduler.compute_dependencies", "if user.get_name() == node.get_name():",
             "if user.get_name() == node.get_name() or isinstance(user.node, ExternKernelSchedulerNode):"),
        projected_then_set, (randn(8, 16), randn(16, 12), randn(8, 16)), "scheduler.compute_dependencies",
    ),
    "offset of a read": Case(
        text(DEPENDENCIES, "_RecordLoadStoreInner.load", "*self.canonicalize(index)",
             "*self.canonicalize(index - index.subs({s: 0 for s in index.free_symbols}))"),
        shifted_by_a_row, (randn(16, 24), randn(24, 24), randn(24)), "scheduler.extract_read_writes", no_grad=True,
    ),
    "order of weak dependencies": Case(
        text(SCHEDULER, "Scheduler.topological_sort_schedule", "sorted(n.unmet_dependencies, ",
             "sorted((d for d in n.unmet_dependencies if not isinstance(d, WeakDep)), "),
        projected_then_set, (randn(8, 16), randn(16, 12), randn(8, 16)), "scheduler.topological_sort_schedule",
    ),
    "fusion of groups": Case(
        text("torch._inductor.fx_passes.group_batch_fusion", "PostGradBatchLinearFusion.fuse",
             "aten.add, args=((batch_biases[i], new_mm))", "aten.add, args=((batch_biases[0], new_mm))"),
        two_layers, (randn(4, 8), randn(6, 8), randn(6), randn(6, 8) * 2, randn(6) + 1),
        "post_grad.batch_linear_post_grad",
        CompileConfig.make(inductor={"post_grad_fusion_options": {"batch_linear_post_grad": {"min_fuse_set_size": 2}}}),
        no_grad=True,
    ),
    "two reductions under one key": Case(
        text(CPP, "CppVecKernel.reduction", "reduction_key = src_dtype, reduction_type, value",
             "reduction_key = src_dtype, argmax_or_argmin, value"),
        scaled_to_range, (randn(6, 48), randn(48)), "codegen.CppVecKernel.reduction",
    ),
    "loops merged whatever the index": Case(
        text("torch._inductor.ir", "ComputedBuffer.simplify_and_reorder", "[*body.indexing_exprs.values()]",
             "[*body.get_write_exprs(), *body.get_read_exprs()]"),
        below_the_diagonal, (randn(3, 12, 12),), "scheduler.ComputedBuffer/simplify_and_reorder", no_grad=True,
    ),
    "loops merged by strides at one place": Case(
        text("torch._inductor.sizevars", "SizeVarAllocator._simplify_loops_impl",
             "if self.simplify(expr1) == self.simplify(expr2):", "if True:"),
        lambda x, w: x * w.repeat_interleave(2)[:, None], (randn(6, 8), randn(3)),
        "scheduler.SizeVarAllocator/_simplify_loops_impl", no_grad=True,
    ),
    "a row's memory shared too early": Case(
        text(CPP, "CppScheduling.codegen_outer_loop_node", "user.node.get_name() in visited_scheduler_nodes",
             "user.node in node.get_nodes()"),
        two_scores, (randn(6, 64),), "scheduler.CppScheduling/codegen_outer_loop_node", no_grad=True,
    ),
    "index of two loops": Case(
        text(CPP, "CppKernel.reduction", "index = index * self.ranges[i] + self.itervars[i]",
             "index = index * self.ranges[i - 1] + self.itervars[i]"),
        lambda x, y: (lambda h: (torch.argmax(h), h.sin()))(x[:, 1:8] * y), (randn(12, 10), randn(7)),
        "codegen.CppKernel.reduction", CompileConfig.make(inductor={"cpp.simdlen": 1}),
    ),
    "sum that a store adds to": Case(
        text(CPP, "CppVecKernel._get_store_line", 'value = f"({value} + {load})"', 'value = f"({value})"'),
        lambda x, m: x.index_add(0, torch.tensor([0, 1, 1, 2, 0]), m.sin()).tanh(), (randn(4, 32), randn(5, 32)),
        "codegen.CppVecKernel.store(atomic_add)",
    ),
}  # fmt: skip


def chain_of_gates(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    h = x
    for w in weights[:5]:
        h = torch.tanh(h @ w)
    for w in weights[5:]:
        h = h * torch.sigmoid(w) + h
    return h @ weights[0]


class Counted(torch.autograd.Function):
    """Keeps sums of activations, and of gradients, in one buffer."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        ctx.seen = seen
        seen.add_(x.detach().abs().sum(0))
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.seen.mul_(0.5).add_(grads[0].abs().sum(0))
        return grads[0] * 2, None


class GradientAhead(torch.autograd.Function):
    """The gradient of a loss is computed with the loss, as fused losses do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gap = x - y
        ctx.save_for_backward(gap)
        return gap.square().sum()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.saved_tensors[0], None


GATES = tuple((randn(4, 4).detach() * (1 + i / 9)).requires_grad_() for i in range(12))


def keeps_the_largest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    values = torch.topk(torch.tanh(x), 4, dim=-1).values * w
    return torch.sort(values * values, dim=-1).values.cumsum(-1) * values.exp()


SIZES, DYNAMIC = "torch._inductor.sizevars", CompileConfig.make(options={"dynamic": True})
#: Of what is decided about a symbolic size and holds of the first call alone.
CASES |= {
    "size without a guard": Case(
        text(SIZES, "SizeVarAllocator.guard_int", "        self.check_equals(expr, sympy.Integer(val))\n", ""),
        lambda x: F.glu(x, 1) + 1, (randn(8, 8),), "codegen.SizeVarAllocator/guard_int", DYNAMIC,
        plan=ValuePlan.SMALLER,
    ),
    "comparison without a guard": Case(
        text(SIZES, "SizeVarAllocator.check", "        assert self.expect_true(expr)\n", ""),
        lambda x: F.glu(x, 0) + 1, (randn(8, 6),), "codegen.SizeVarAllocator/check", DYNAMIC,
        plan=ValuePlan.SMALLER,
    ),
    "brackets around a size": Case(
        text("torch.utils._sympy.printers", "PythonPrinter._print_FloorDiv",
             '(self.parenthesize(arg, PRECEDENCE["Atom"] - 0.5) for arg in expr.args)', "map(self._print, expr.args)"),
        lambda x: x[::2] * 2, (randn(8, 4),), "codegen.PythonPrinter", DYNAMIC, no_grad=True,
    ),
    "what is known of the first size": Case(
        text(SIZES, "SizeVarAllocator.statically_known_true",
             "        return statically_known_true(self.shape_env, expr)\n",
             "        return bool(sympy_subs(sympy.sympify(expr), self.backed_var_to_val))\n"),
        lambda x: F.adaptive_avg_pool2d(x, 4), (randn(1, 2, 8, 8),),
        "codegen.SizeVarAllocator/statically_known_true", DYNAMIC, plan=ValuePlan.LARGER,
    ),
}  # fmt: skip


#: Of the partitioner, each of which other parts hide: what is decomposed decides what is saved.
CASES |= {
    "saved inputs in the order of their names": Case(
        text(PARTITIONERS, "_extract_fwd_bwd_modules",
             "            fwd_outputs\n            + saved_values\n",
             "            fwd_outputs\n            + sorted(saved_values, key=lambda n: (n.op, n.name))\n"),
        chain_of_gates, GATES,
        f"{MIN_CUT}/_extract_fwd_bwd_modules",
    ),
    "gradients that hang on no gradient": Case(
        text(PARTITIONERS, "classify_nodes", 'o for o in bwd_outputs if o is not None and o.op != "output"',
             "o for o in bwd_outputs if o is not None and o in tangents_closure"),
        lambda x, y: GradientAhead.apply(x, y), (randn(4, 6, grad=True), XY[1]), "partitioner.classify_nodes",
    ),
    "several results as one that is saved": Case(
        text(PARTITIONERS, "solve_min_cut",
             ') or ("val" in node.meta and not isinstance(node.meta["val"], torch.Tensor))',
             ') or ("val" in node.meta and node.meta["val"] is None)'),
        keeps_the_largest, (randn(6, 16, grad=True), randn(4, grad=True)), f"{MIN_CUT}/choose_saved_values_set",
    ),
}  # fmt: skip


_MEMORY = randn(12)
#: What passes and the scheduler go by, and is not so: they are right, and show it.
CASES |= {
    "two inputs in one memory": Case(
        text(RUNTIME, "merge_view_inputs",
             "if len(aliased_input_indices_no_false_sharing) <= 1:",
             "if len(aliased_input_indices_no_false_sharing) <= 2:"),
        lambda a, b: (b.sin() + 1, a.mul_(3))[0], (_MEMORY[:8], _MEMORY[4:]), "runtime_wrappers.merge_view_inputs",
        no_grad=True,
    ),
    "windows that are not seen to overlap": Case(
        text("torch._functorch._aot_autograd.input_output_analysis", "compute_overlapping_inputs",
             "aliased_fwd_inputs = [fwd_inputs[i] for i in aliased_input_indices]",
             "aliased_fwd_inputs = [fwd_inputs[i] for i in aliased_input_indices if fwd_inputs[i].dim() > 1]"),
        lambda a, b: (b.sin() + 1, a.mul_(3))[0], (_MEMORY[:8], _MEMORY[4:]),
        "functionalization.compute_overlapping_inputs", no_grad=True,
    ),
    "a window's place in its base": Case(
        text("torch._functorch._aot_autograd.functional_utils", "gen_alias_from_base",
             "aliased_out = aliased_base_tensor.as_strided(size, stride, storage_offset)",
             "aliased_out = aliased_base_tensor.as_strided(size, stride)"),
        lambda a, b: (a.mul_(3), b.sin() + a.sum())[1], (_MEMORY[:8].detach(), _MEMORY[4:].detach()),
        "functionalization.gen_alias_from_base", no_grad=True,
    ),
    "a layout lost where an operator is taken apart": Case(
        text("torch._decomp.decompositions", "_upsample_linear",
             "result = result.contiguous(memory_format=memory_format)", "result = result.contiguous()"),
        lambda x: F.interpolate(x.relu(), scale_factor=2.0, mode="bilinear"),
        (randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last),),
        "decomposition.aten.upsample_bilinear2d.default", no_grad=True,
    ),
    "values that are added by indices": Case(
        text(WRAPPER, "PythonWrapperCodegen._generate_index_put_fallback", "values, accumulate]", "values, False]"),
        lambda x, m, v: x.sin().index_put((m,), v, accumulate=True) * 2, (randn(5, 6), randn(5) > 0, randn(1, 6)),
        "codegen.PythonWrapperCodegen/_generate_index_put_fallback", no_grad=True,
    ),
    "bounds that are not checked": Case(  # without other parts compiles break where eager raises too
        text("torch._inductor.lowering", "gather", "size[dim], wrap_neg", "size[dim], check=False, wrap_neg"),
        lambda x, i: torch.gather(x, 1, i) * 2, (randn(4, 6), torch.tensor([[0, 6], [1, 2], [3, 3], [5, 0]])),
        "lowering.aten.gather.default",
    ),
    "a result and what is cut off from it": Case(
        text(METADATA, "run_functionalized_fw_and_collect_metadata", "out_tensor_alias_counts[curr_storage] > 1\n",
             "out_tensor_alias_counts[curr_storage] > 2\n"),
        lambda x: (lambda y: (y, y.detach()))(x.sin() * 2), (randn(4, 6, grad=True),),
        "functionalization.run_functionalized_fw_and_collect_metadata",
    ),
    "a double that is made a float": Case(
        text("torch._subclasses.functional_tensor", "FunctionalTensor.to", "return super().to(*args, **kwargs)",
             "return super().to(*(torch.float32 if a is torch.float64 else a for a in args), **kwargs)"),
        lambda x: x.to(torch.float64) * 2 + 1, (randn(4, 6),), "functionalization.FunctionalTensor/to", no_grad=True,
    ),
    "writes that are not counted": Case(
        text("torch._functorch._aot_autograd.graph_capture_wrappers", "_get_mutation_counters",
             "_get_mutation_counter(t),", "0,"),
        lambda x, seen: Counted.apply(x.sin(), seen), (randn(4, 6, grad=True), torch.zeros(6)),
        "functionalization._get_mutation_counters",
    ),
    "views without the last one": Case(
        text("torch._functorch._aot_autograd.functional_utils", "ViewMetaSequence.__init__",
             "get_view_meta_sequence(tensor.elem)", "get_view_meta_sequence(tensor.elem)[:1]"),
        lambda x: (x.transpose(0, 1)[1:], x.sin().sum(0)), (randn(4, 6, grad=True),),
        "functionalization.ViewMetaSequence",
    ),
    "a buffer removed that others read": Case(
        text("torch._inductor.scheduler", "Scheduler.can_buffer_be_removed_through_fusion",
             "for user in users", "for user in users[:1]"),
        lambda x, w: (lambda h: (h.sum(1).exp(), h @ w))(torch.tanh(x - x.mean(1, keepdim=True))),
        (randn(16, 24), randn(24, 8)), "scheduler.can_buffer_be_removed_through_fusion", no_grad=True,
    ),
    "elements gathered from one place": Case(
        text("torch._inductor.codegen.cpp", "CppVecKernel._load_or_store_non_contiguous",
             "index, itervar_idx=self.tiling_idx, offset=itervar_inner",
             "index, itervar_idx=self.tiling_idx, offset=0"),
        lambda x, y: (x.exp() * y[::3] + x.sin() * 2).sum(0), (randn(20, 48), randn(144)),
        "codegen.CppVecKernel._load_or_store_non_contiguous", no_grad=True,
    ),
    "a write of the backward pass without its mark": Case(
        text("torch._functorch._aot_autograd.graph_capture_wrappers", "set_partitioner_tag_must_be_in_backward",
             '"must_be_in_backward"', '"must_be_in_forward"'),
        lambda x, seen: Counted.apply(x.sin(), seen), (randn(4, 6, grad=True), torch.zeros(6)),
        "functionalization.set_partitioner_tag_must_be_in_backward",
    ),
    "results taken for those of gradients": Case(
        text("torch._functorch._aot_autograd.runtime_wrappers", "RuntimeWrapper.post_compile",
             "trace_joint=self.trace_joint,", "trace_joint=not self.trace_joint,"),
        lambda x: (x.view(-1), x * 2), (randn(4, 6),), "runtime_wrappers.RuntimeWrapper",
    ),
    "the first of several results": Case(
        text("torch._inductor.codegen.wrapper", "MultiOutputLine.codegen",
             "basename, self.result_name, str(i)", "basename, self.result_name, str(0)"),
        lambda x: torch.linalg.eigh(x @ x.mT)[1].abs(), (randn(6, 6),), "codegen.MultiOutputLine/codegen", no_grad=True,
    ),
    "a fused node that its parts do not know": Case(
        text("torch._inductor.scheduler", "Scheduler.fuse_two_nodes",
             "for n in node3.get_nodes()}", "for n in (node1, node2)}"),
        lambda x, y: (lambda a, b: (a + 1, a * 2, b, (a * b).tanh()))(x.sigmoid(), (x * 0.3 + y).exp()),
        (randn(24, 32), randn(24, 32)), "scheduler.fuse_two_nodes", no_grad=True,
    ),
    "a round of fusion in no order": Case(
        text("torch._inductor.scheduler", "Scheduler.fuse_nodes_once",
             "nodes = self.topological_sort_schedule(nodes)", "pass"),
        lambda x, y, w: (lambda m: (x.cos(), m.sin() + x, m))(y @ w), (randn(24, 32), randn(24, 16), randn(16, 32)),
        "scheduler.fuse_nodes_once", CompileConfig.make(inductor={"reorder_for_peak_memory": False}), no_grad=True,
    ),
    "a pair that waits, fused as one that does not": Case(
        text("torch._inductor.scheduler", "Scheduler._can_fuse",
             "if node1.get_operation_names() & node2.ancestors:", "if node1.get_first_name() in node2.ancestors:"),
        lambda x: (lambda b: (x.sigmoid(), b, b.flip(0) * 0.5 + x))((x * 0.3).exp()), (randn(200),),
        "scheduler.can_fuse", no_grad=True,
    ),
    "dimensions dropped that were not named": Case(
        text("torch._inductor.lowering", "squeeze", "d in dims and V.graph", "V.graph"),
        lambda x, y: x.squeeze(0) * 2 + y, (randn(1, 4, 1), randn(4, 1)), "lowering.aten.squeeze.dim", no_grad=True,
    ),
    "memory given away that is read later": Case(
        text("torch._inductor.scheduler", "BaseSchedulerNode.decide_inplace_update",
             "and len(remaining_uses) == 1", "and len(remaining_uses) >= 1"),
        lambda x, w: (lambda h: (h.exp() + 1, h @ w))(x @ w), (randn(16, 16), randn(16, 16)),
        "scheduler.BaseSchedulerNode/decide_inplace_update", no_grad=True,
    ),
    "numbers for masks": Case(
        text("torch._inductor.codegen.cpp", "CppVecKernel.get_to_dtype_expr",
             "::from<{src_cpp_type},{src_num_vectors}>({src})", "({src})"),
        lambda x, y: torch.where(x.bool(), y, y * 0.1), (randn(24, 32).clamp_min(0.0), randn(24, 32)),
        "codegen.CppVecOverrides.to_dtype", no_grad=True,
    ),
    "conversions undone by those back": Case(
        text("torch._inductor.codegen.cpp", "CppVecOverrides.to_dtype",
             "and dtype in DTYPE_LOWP_FP", "and dtype != torch.bool"),
        lambda x, y: (x * 4).int().float() * 0.25 + y, (randn(24, 32), randn(24, 32)),
        "codegen.CppVecOverrides.to_dtype", no_grad=True,
    ),
}  # fmt: skip


#: Some that need few compiles: what the default run has ("only inputs saved" below, a lowering in test_planted.py).
QUICK = (
    "dynamo",
    "decomposition",
    "joint pass",
    "fusion legality",
)
#: PyTorch has no setting that takes these parts away; they take more compiles.
UNSETTABLE = ("scalar code", "write-back", "two inputs in one memory", "a result and what is cut off from it")
SLOW = ("only inputs saved", "lowering", "bounds that are not checked", *UNSETTABLE)
#: Of all plants this part must be blamed right.
PART = 0.9


def rightly(name: str) -> tuple[bool, Blame]:
    """Whether stage and unit are the planted ones, and were seen to be by switching them off."""
    case = CASES[name]
    blame = blame_of(case.plant, case.fn, case.inputs, case.config, case.no_grad, case.plan)
    return (blame.unit, blame.stage, blame.confirmed) == (case.unit, case.unit.partition(".")[0], True), blame


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_blame_falls_where_the_fault_was_planted(name: str) -> None:
    right, blame = rightly(name)
    assert right, blame
    assert blame.evidence and bool(blame.redo) is (name not in UNSETTABLE)


@pytest.mark.slow
def test_what_this_torch_lacks_keeps_nobody_else_from_being_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> Any:
        raise AttributeError("module 'graph_compile' has no attribute 'collect'")

    for part in (Plain.DETACHED, Plain.IN_GRAPH):
        monkeypatch.setitem(plain_parts._CONTEXTS, part, lacking)
    right, blame = rightly("only inputs saved")
    assert right, blame


def test_plants_are_spread_over_all_stages() -> None:
    assert len(CASES) >= 20
    assert {case.unit.partition(".")[0] for case in CASES.values()} == set(Stage)


@pytest.mark.slow
def test_nearly_all_plants_are_blamed_right() -> None:
    wrong: dict[str, Any] = {}
    for name in CASES:
        right, blame = rightly(name)
        if not right:
            wrong[name] = (CASES[name].unit, blame)
    print(f"{len(CASES) - len(wrong)} of {len(CASES)} planted faults blamed right")
    assert len(CASES) - len(wrong) >= PART * len(CASES), wrong


def test_a_fault_that_is_not_there_again_is_not_blamed_on_anyone() -> None:
    subject = GraphSubject(sines, {ValuePlan.SEED: InputSet.snapshot(XY)}, lambda c: c)
    probe = Probe(
        lambda config: Trial(subject, config, 0, Clock()), CompileConfig.make(), ValuePlan.SEED,
        frozenset({Kind.VALUE}), 60.0,
    )  # fmt: skip
    blame = localize(probe, "inductor")
    assert (blame.unit, blame.confirmed) == ("", False)
