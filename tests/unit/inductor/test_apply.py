"""The graphs of the stages, and one unit alone on them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied, NotInEager, apply_unit, clone_module, module_structure, only_tidied
from fxmorph.inductor.inventory import listed
from fxmorph.inductor.stages import StageGraph, aten_graphs, stage_graphs, stages_of
from fxmorph.programs.capture import CaptureFailed

aten: Any = torch.ops.aten


def alone(name: str, graph: StageGraph) -> Applied:
    return apply_unit(listed(name).unit, graph.gm)


def run(gm: fx.GraphModule, graph: StageGraph) -> list[Any]:
    assert graph.inputs is not None
    with torch.no_grad():
        out = fx.Interpreter(gm).run(*graph.inputs.rebuild())
    return list(out) if isinstance(out, (tuple, list)) else [out]


def one(graphs: list[StageGraph], stage: Stage, part: str) -> StageGraph:
    (found,) = [g for g in graphs if g.stage is stage and g.part == part]
    return found


def targets(gm: fx.GraphModule) -> list[Any]:
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = torch.split(torch.nn.functional.gelu(x) @ y + 0, 4, 1)
    return torch.cat([a, b], 1).sin(), torch.softmax(x * 1.0, -1), (x.view(2, -1) + 1).view(-1)


@pytest.fixture(scope="module")
def inference() -> list[StageGraph]:
    torch.manual_seed(0)
    inputs = (torch.randn(4, 8), torch.randn(8, 8))
    return [*stage_graphs(program, inputs), *aten_graphs(program, inputs)]


def test_joint_graphs_can_be_had_undecomposed() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    (graph,) = aten_graphs(torch.nn.functional.gelu, (x,), training=True)
    assert (graph.stage, graph.part) == (Stage.DECOMPOSITION, "joint")
    assert aten.gelu_backward.default in targets(graph.gm)
    applied = alone("decomposition.aten.gelu_backward.default", graph)
    assert applied.matches == 1
    torch.testing.assert_close(run(applied.after, graph), run(graph.gm, graph))


@pytest.fixture(scope="module")
def training() -> list[StageGraph]:
    torch.manual_seed(0)
    inputs = (torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True))
    return stage_graphs(program, inputs, training=True)


def test_inference_has_a_graph_for_each_stage(inference: list[StageGraph]) -> None:
    assert [(g.stage, g.part) for g in inference] == [
        (Stage.PRE_GRAD, "torch"),
        (Stage.JOINT, "inference"),
        (Stage.AOT, "inference"),
        (Stage.POST_GRAD, "inference"),
        (Stage.PRE_GRAD, "torch (prepared)"),
        (Stage.POST_GRAD, "inference (prepared)"),
        (Stage.DECOMPOSITION, "inference"),
    ]
    assert aten.gelu.default in targets(one(inference, Stage.DECOMPOSITION, "inference").gm)
    assert aten.erf.default in targets(one(inference, Stage.JOINT, "inference").gm)


def test_each_graph_computes_the_program_on_its_inputs(inference: list[StageGraph]) -> None:
    assert inference[0].inputs is not None
    wanted = program(*inference[0].inputs.rebuild())
    for graph in inference:
        for got, want in zip(run(graph.gm, graph), wanted, strict=True):
            torch.testing.assert_close(got, want, msg=f"{graph.stage} {graph.part}")


def test_training_has_joint_forward_and_backward_with_real_inputs(training: list[StageGraph]) -> None:
    parts = {(g.stage, g.part) for g in training}
    assert {(Stage.JOINT, "joint"), (Stage.POST_GRAD, "forward"), (Stage.POST_GRAD, "backward")} <= parts
    joint = one(training, Stage.JOINT, "joint")
    assert joint.inputs is not None
    x, y, *tangents = joint.inputs.rebuild()
    leaves = [x.detach().requires_grad_(), y.detach().requires_grad_()]
    outputs = program(*leaves)
    wanted = [*outputs, *torch.autograd.grad(outputs, leaves, tangents)]
    for got, want in zip(run(joint.gm, joint), wanted, strict=True):
        torch.testing.assert_close(got, want)
    backward = run(one(training, Stage.POST_GRAD, "backward").gm, one(training, Stage.POST_GRAD, "backward"))
    for got, want in zip(backward, wanted[len(outputs) :], strict=True):
        torch.testing.assert_close(got, want)


def test_dynamic_graphs_take_sizes() -> None:
    graphs = stage_graphs(lambda x: x.sin().sum(0) + x.shape[0], (torch.randn(5, 3),), dynamic=True)
    joint = one(graphs, Stage.JOINT, "inference")
    assert joint.inputs is not None
    assert 5 in [v for v in joint.inputs.rebuild() if isinstance(v, int)]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()


def test_freezing_folds_the_batch_norm_into_the_convolution() -> None:
    torch.manual_seed(0)
    net = Net().eval()
    graphs = stage_graphs(net, (torch.randn(2, 3, 6, 6),), freezing=True)
    frozen = one(graphs, Stage.FREEZING, "frozen")
    assert frozen.inputs is not None
    assert len(frozen.inputs.rebuild()) == 1
    parameters = one(graphs, Stage.JOINT, "inference").inputs
    assert parameters is not None and len(parameters.rebuild()) > 1
    folded = alone("freezing.binary_folding_pass", one(graphs, Stage.FREEZING, "frozen (prepared)"))
    assert folded.fired and folded.matches > 0
    torch.testing.assert_close(run(folded.after, frozen), run(frozen.gm, frozen), rtol=1e-4, atol=1e-5)


def test_inputs_are_those_before_the_program_wrote_them() -> None:
    x = torch.ones(3)
    graphs = stage_graphs(lambda t: t.add_(1), (x,))
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert len(graphs) == 4
    for graph in graphs:
        assert graph.inputs is not None
        assert graph.inputs.rebuild()[0].tolist() == [1.0, 1.0, 1.0]
        values = graph.inputs.rebuild()
        fx.Interpreter(graph.gm).run(*values)
        assert values[0].tolist() == [2.0, 2.0, 2.0], (graph.stage, graph.part)


def test_a_program_that_does_not_compile_is_refused_with_its_reason() -> None:
    def bad(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not today")

    with pytest.raises(CaptureFailed, match="not today"):
        stage_graphs(bad, (torch.ones(1),))


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("joint.remove_noop_ops", Stage.JOINT),
        ("post_grad.remove_noop_ops", Stage.JOINT),
        ("joint.early_patterns", Stage.JOINT),
        ("post_grad.view_to_reshape", Stage.AOT),
        ("post_grad.normalization_aten_pass", Stage.POST_GRAD),
        ("post_grad.reinplace_inplaceable_ops", Stage.POST_GRAD),
        ("pre_grad.normalization_pass", Stage.PRE_GRAD),
        ("partitioner.fx_graph_cse", Stage.AOT),
        ("decomposition.aten.gelu.default", Stage.DECOMPOSITION),
        ("decomposition.aten._softmax.default", Stage.DECOMPOSITION),
    ],
)
def test_a_unit_alone_keeps_the_meaning_and_the_graph_it_was_given(
    name: str, stage: Stage, inference: list[StageGraph]
) -> None:
    graph = next(g for g in inference if g.stage is stage)
    before, text = module_structure(graph.gm), str(graph.gm.graph)
    applied = alone(name, graph)
    assert module_structure(graph.gm) == before and str(graph.gm.graph) == text
    assert applied.fired == (module_structure(applied.after) != before or applied.matches > 0)
    for got, want in zip(run(applied.after, graph), run(graph.gm, graph), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    ("name", "stage", "fires"),
    [
        ("post_grad.view_to_reshape", Stage.AOT, True),
        ("pre_grad.normalization_pass", Stage.PRE_GRAD, True),
        ("pre_grad.normalization_pass/normalize_cat_default", Stage.PRE_GRAD, True),
        ("pre_grad.normalization_pass/normalize_stack_default", Stage.PRE_GRAD, False),
        ("decomposition.aten.gelu.default", Stage.DECOMPOSITION, True),
        ("decomposition.aten.silu.default", Stage.DECOMPOSITION, False),
        ("joint.canonicalize_aten_ir_passes", Stage.JOINT, False),
    ],
)
def test_what_fires(name: str, stage: Stage, fires: bool, inference: list[StageGraph]) -> None:
    assert alone(name, next(g for g in inference if g.stage is stage)).fired is fires


def test_a_decomposition_leaves_every_other_call_alone(inference: list[StageGraph]) -> None:
    graph = one(inference, Stage.DECOMPOSITION, "inference")
    applied = alone("decomposition.aten.gelu.default", graph)
    kept = [t for t in targets(graph.gm) if t is not aten.gelu.default]
    assert applied.matches == 1
    after = targets(applied.after)
    assert aten.gelu.default not in after and aten.erf.default in after
    rest = iter(after)
    assert all(any(t is other for other in rest) for t in kept)  # a subsequence, in order
    assert all("val" in n.meta for n in applied.after.graph.nodes if n.op == "call_function")


def test_a_decomposition_with_several_results_is_read_by_getitem() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (8,))

    graph = one(aten_graphs(norm, (torch.randn(4, 8),)), Stage.DECOMPOSITION, "inference")
    applied = alone("decomposition.aten.native_layer_norm.default", graph)
    assert applied.fired and aten.native_layer_norm.default not in targets(applied.after)
    torch.testing.assert_close(run(applied.after, graph), run(graph.gm, graph))


def test_an_opt_in_fusion_runs_under_its_own_flag_alone() -> None:
    from torch._inductor import config

    def many(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.nn.functional.relu(t) for t in torch.split(x @ y, 4, 1)], 1)

    graphs = stage_graphs(many, (torch.randn(4, 8), torch.randn(8, 8)))
    graph = next(g for g in graphs if g.stage is Stage.PRE_GRAD)
    applied = alone("pre_grad.batch_relu", graph)
    assert applied.fired
    assert targets(graph.gm).count(torch.nn.functional.relu) == 2
    assert targets(applied.after).count(torch.nn.functional.relu) < 2
    torch.testing.assert_close(run(applied.after, graph), run(graph.gm, graph))
    assert not alone("pre_grad.batch_tanh", graph).fired
    assert config.pre_grad_fusion_options == {}


def test_one_rule_of_the_noop_pass_and_no_other() -> None:
    from torch._inductor.fx_passes.post_grad import noop_registry

    rules = dict(noop_registry)
    graph = one(stage_graphs(lambda x: x.repeat(1, 1).clone().sin(), (torch.randn(2, 2),)), Stage.JOINT, "inference")
    assert {aten.repeat.default, aten.clone.default} & set(targets(graph.gm))
    applied = alone("post_grad.remove_noop_ops/repeat_noop", graph)
    assert aten.repeat.default not in targets(applied.after)
    assert targets(applied.after).count(aten.clone.default) == targets(graph.gm).count(aten.clone.default)
    assert noop_registry == rules


def test_a_planted_fault_is_in_what_is_run(monkeypatch: pytest.MonkeyPatch, inference: list[StageGraph]) -> None:
    module = importlib.import_module("torch._inductor.fx_passes.joint_graph")
    original: Callable[..., Any] = module.constant_fold_uniform_value

    def wrong(gm: fx.GraphModule) -> None:
        original(gm)
        for node in gm.graph.find_nodes(op="call_function", target=aten.sin.default):
            node.target = aten.cos.default

    monkeypatch.setattr(module, "constant_fold_uniform_value", wrong)
    graph = one(inference, Stage.JOINT, "inference")
    applied = alone("joint.constant_fold_uniform_value", graph)
    assert applied.fired and aten.cos.default in targets(applied.after)
    assert not torch.allclose(run(applied.after, graph)[0], run(graph.gm, graph)[0])


@pytest.mark.skipif(not torch.__version__.startswith("2.13.0"), reason="fixed since by pytorch#189533")
def test_the_known_cumsum_entry_alone_is_wrong() -> None:
    def counts(x: torch.Tensor) -> torch.Tensor:
        return torch.full((4, 2), 3, dtype=torch.bool).cumsum(0) + x

    graph = one(stage_graphs(counts, (torch.zeros(4, 2),)), Stage.POST_GRAD, "inference")
    applied = alone("post_grad.pass_patterns[1]/pointless_cumsum_replacement", graph)
    assert applied.matches == 1
    assert run(applied.after, graph)[0].max() == 12 and run(graph.gm, graph)[0].max() == 4


@pytest.fixture(scope="module")
def accumulate() -> Any:
    @torch.library.custom_op("fxmorph_tests::accumulate", mutates_args=("x",))
    def accumulate(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)

    accumulate.register_fake(lambda x, y: None)
    return accumulate


@pytest.mark.parametrize(("reused", "fires"), [(False, True), (True, False)])
def test_what_reinplacing_decides_of_a_custom_operator_is_carried_out(
    accumulate: Any, reused: bool, fires: bool
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        z = x.sin()
        kept = z + 0 if not reused else z.clone()
        accumulate(z, x)
        return z * kept if reused else z * 2

    graph = one(stage_graphs(program, (torch.randn(3),)), Stage.POST_GRAD, "inference")
    applied = alone("post_grad.reinplace_inplaceable_ops", graph)
    assert any("accumulate" in str(t) for t in targets(applied.after))
    assert not any("auto_functionalized" in str(t) for t in targets(applied.after))
    torch.testing.assert_close(run(applied.after, graph), run(graph.gm, graph))
    assert applied.fired is fires
    assert any("clone" in str(t) for t in targets(applied.after)) is not fires


def test_lowerings_are_refused(inference: list[StageGraph]) -> None:
    for name in ("lowering.aten.sin.default", "post_grad.pass_patterns[1]/mm_plus_mm"):
        with pytest.raises(NotInEager, match="Inductor's IR"):
            alone(name, one(inference, Stage.POST_GRAD, "inference"))


def test_which_stage_a_unit_takes() -> None:
    assert stages_of(listed("post_grad.view_to_reshape").unit) is Stage.AOT
    assert stages_of(listed("post_grad.reinplace_inplaceable_ops").unit) is Stage.POST_GRAD


def test_cloning_shares_no_graph_with_the_original() -> None:
    inner = fx.symbolic_trace(lambda x: x + 1)
    graph = fx.Graph()
    graph.output((graph.placeholder("x"), graph.create_node("get_attr", "inner")))
    outer = fx.GraphModule({"inner": inner}, graph)
    copy = clone_module(outer)
    for node in copy.inner.graph.nodes:  # type: ignore[union-attr]
        if node.op == "call_function":
            node.args = (node.args[0], 2)
    assert module_structure(copy) != module_structure(outer)
    assert module_structure(outer) == module_structure(clone_module(outer))


def test_what_removes_dead_code_alone_is_only_tidied() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.cos, (x,))
    graph.output(graph.call_function(torch.sin, (x,)))
    before = fx.GraphModule({}, graph)
    after = clone_module(before)
    assert not only_tidied(before, after)
    after.graph.eliminate_dead_code()
    assert only_tidied(before, after)
    (kept,) = (node for node in after.graph.nodes if node.target is torch.sin)
    kept.target = torch.tan
    assert not only_tidied(before, after)
