"""Programs to graphs at both levels, with their inputs as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import CompileConfig, GraphLevel, ValuePlan
from fxmorph.programs.capture import (
    Captured,
    CaptureFailed,
    Recording,
    capture_aten,
    capture_torch,
    inputs_under,
    lift_constants,
)
from fxmorph.programs.graph import Unprintable, calls, function_of, graph_hash
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import Invocation

pytestmark = pytest.mark.usefixtures("torch_quiet")
CONFIG = CompileConfig.make()


def invocation(fn: Callable[..., Any], *args: Any) -> Invocation:
    state = dict(fn.named_parameters()) if isinstance(fn, torch.nn.Module) else {}
    return Invocation(fn, list(args), lambda g: g(*args), state)


def at_torch_level(fn: Callable[..., Any], *args: Any, no_grad: bool = False) -> list[Captured]:
    return capture_torch(invocation(fn, *args), CONFIG, no_grad)


def at_aten_level(fn: Callable[..., Any], *args: Any, no_grad: bool = False) -> dict[str, Captured]:
    return {g.part: g for g in capture_aten(invocation(fn, *args), CONFIG, no_grad)}


def operations(captured: Captured) -> list[str]:
    return [str(getattr(n.target, "__name__", n.target)) for n in calls(captured.graph)]


def test_torch_level_shows_the_program_as_written() -> None:
    (found,) = at_torch_level(lambda x: torch.nn.functional.softmax(x, -1) + 1, torch.ones(2, 3))
    assert (found.level, found.part) == (GraphLevel.TORCH, "torch")
    assert operations(found) == ["softmax", "add"]


def test_aten_level_shows_decomposed_operators() -> None:
    found = at_aten_level(lambda x: torch.nn.functional.softmax(x, -1), torch.ones(2, 3))
    assert set(found) == {"inference"}
    assert found["inference"].level is GraphLevel.ATEN
    assert all("aten" in str(n.target) for n in calls(found["inference"].graph))
    assert "softmax" not in operations(found["inference"])


def test_inputs_that_require_grad_give_forward_joint_and_backward() -> None:
    found = at_aten_level(lambda x: (x.sin() * x).sum(), torch.ones(3, requires_grad=True))
    assert {"joint", "forward"} <= set(found)
    assert len(calls(found["joint"].graph)) > len(calls(found["forward"].graph))


def run_of(found: Captured) -> Any:
    return function_of(found.text)(*found.inputs.rebuild())


def test_aten_graphs_have_the_inputs_of_the_program() -> None:
    memory = torch.arange(24.0)
    a, b = memory.as_strided((2, 3), (1, 4), 5), memory[10:13]
    index = torch.tensor([2, 0])
    found = at_aten_level(lambda a, b, i: (a + b)[:, i], a, b, index)["inference"]
    first, second, third = (s for s in found.specs() if s is not None)
    assert (first.shape, first.stride, first.offset) == ((2, 3), (1, 4), 5)
    assert first.storage == second.storage != third.storage
    assert (third.low, third.high) == (0, 2)
    (out,) = run_of(found)
    assert torch.equal(out, (a + b)[:, index])


def test_aten_graphs_have_the_parameters_and_buffers_of_the_program() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).eval()
    x = torch.randn(5, 3)
    (out,) = run_of(at_aten_level(net, x, no_grad=True)["inference"])
    assert torch.allclose(out, net(x), equal_nan=False)


def test_inputs_of_aten_graphs_are_as_before_the_call() -> None:
    found = at_aten_level(lambda x: x.add_(1), torch.zeros(3))["inference"]
    assert found.inputs.rebuild()[0].tolist() == [0, 0, 0]


def test_constants_of_aten_graphs_are_inputs() -> None:
    found = at_aten_level(lambda x: x * torch.tensor([1.0, 2.0]), torch.ones(2))["inference"]
    assert run_of(found)[0].tolist() == [1.0, 2.0]


def test_joint_and_backward_graphs_are_given_what_flows_through_the_program() -> None:
    x, w = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([5.0, 7.0])
    found = at_aten_level(lambda x, w: x * x * w, x, w)
    assert run_of(found["forward"])[0].tolist() == [20.0, 63.0]
    assert [s.requires_grad for s in found["forward"].specs() if s is not None] == [True, False]
    for part in ("joint", "backward"):
        assert not any(s.requires_grad for s in found[part].specs() if s is not None)
        gradients = [t.tolist() for t in run_of(found[part]) if isinstance(t, torch.Tensor)]
        assert [20.0, 42.0] in gradients, part  # 2 * x * w, of a unit gradient


@torch.library.custom_op("fxmorph_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return doubled(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


def test_inputs_require_grad_where_eager_takes_gradients_through_the_forward_graph() -> None:
    x = torch.ones(2, requires_grad=True)
    found = at_aten_level(lambda x: Doubled.apply(x).sin(), x)
    assert "doubled" in str(found["forward"].graph)
    assert not any(s.requires_grad for s in found["forward"].specs() if s is not None)
    assert "backward" in found


def test_a_program_whose_backward_raises_still_gives_its_forward_graph() -> None:
    def refuse(_: torch.Tensor) -> None:
        raise ValueError("no gradient wanted")

    x = torch.ones(2, requires_grad=True) * 2
    x.register_hook(refuse)
    assert {"joint", "forward"} <= set(at_aten_level(lambda x: x.sin(), x))


def test_the_backward_graph_is_recorded_when_it_is_compiled() -> None:
    x = torch.ones(3, requires_grad=True)

    def drive(g: Callable[..., Any]) -> None:
        g(x).sum().backward()

    found = capture_aten(Invocation(lambda x: x.sin() * x, [x], drive), CONFIG, False)
    assert {g.part for g in found} == {"joint", "forward", "backward"}


def test_no_grad_gives_the_inference_graph() -> None:
    found = at_aten_level(lambda x: x.sin(), torch.ones(3, requires_grad=True), no_grad=True)
    assert set(found) == {"inference"}


def test_specs_keep_strides_offsets_and_shared_memory() -> None:
    memory = torch.arange(24.0)
    a = memory.as_strided((2, 3), (1, 4), 5)
    b = memory[10:13]
    other = torch.zeros(3, dtype=torch.int32)
    (found,) = at_torch_level(lambda a, b, c: a + b + c, a, b, other)
    specs = {(*s.shape, s.dtype): s for s in found.specs() if s is not None}
    first, second, third = specs[(2, 3, "float32")], specs[(3, "float32")], specs[(3, "int32")]
    assert (first.stride, first.offset, first.storage_size) == ((1, 4), 5, 24)
    assert (second.stride, second.offset) == ((1,), 10)
    assert first.storage == second.storage != third.storage


def test_specs_say_which_inputs_require_grad() -> None:
    (found,) = at_torch_level(lambda a, b: a * b, torch.ones(2, requires_grad=True), torch.ones(2))
    assert [s.requires_grad for s in found.specs() if s is not None] == [True, False]


def test_inputs_are_kept_as_they_were_before_the_call() -> None:
    (found,) = at_torch_level(lambda x: x.add_(1), torch.zeros(3))
    assert found.inputs.rebuild()[0].tolist() == [0, 0, 0]


def test_parameters_and_buffers_become_inputs() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("scale", torch.tensor([2.0, 3.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * self.scale

    (found,) = at_torch_level(Net(), torch.ones(1, 3))
    shapes = sorted(s.shape for s in found.specs() if s is not None)
    assert shapes == [(1, 3), (2,), (2,), (2, 3)]
    assert {n.op for n in found.graph.nodes} == {"placeholder", "call_function", "output"}


def test_the_graph_computes_what_the_program_does() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))
    x = torch.randn(2, 3)
    (found,) = at_torch_level(net, x)
    (out,) = function_of(found.text)(*found.inputs.rebuild())
    assert torch.equal(out, net(x))


def test_a_graph_break_gives_two_graphs_in_order() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    found = at_torch_level(fn, torch.ones(2))
    assert [operations(g) for g in found] == [["sin"], ["cos"]]


def test_tensor_constants_become_inputs_after_the_others() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (x, graph.get_attr("c"))),))
    module = torch.nn.Module()
    module.c = torch.tensor([1.0, 2.0])
    lifted, constants = lift_constants(torch.fx.GraphModule(module, graph))
    assert [n.name for n in lifted.nodes if n.op == "placeholder"] == ["x", "c_constant"]
    assert [c.tolist() for c in constants] == [[1.0, 2.0]]


def test_control_flow_is_refused_with_its_name() -> None:
    graph = torch.fx.Graph()
    graph.output((graph.call_module("branch", (graph.placeholder("x"),)),))
    module = torch.nn.Module()
    module.branch = torch.nn.Identity()
    with pytest.raises(Unprintable, match="branch"):
        lift_constants(torch.fx.GraphModule(module, graph))


def test_a_program_without_tensor_work_is_refused() -> None:
    with pytest.raises(CaptureFailed, match="nothing to compile"):
        at_torch_level(lambda x: x, torch.ones(2))


def test_a_program_that_raises_is_refused_in_one_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(7, 7)

    with pytest.raises(CaptureFailed) as error:
        at_torch_level(fn, torch.ones(2))
    assert "\n" not in str(error.value)


def test_the_recording_backend_keeps_the_first_inputs_of_each_graph() -> None:
    recording = Recording()
    compiled = torch.compile(lambda x: x * 2, backend=recording)
    torch._dynamo.reset()
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert compiled(torch.full((2,), 5.0)).tolist() == [10, 10]
    (found,) = recording.graphs
    assert found.inputs.rebuild()[0].tolist() == [1, 1]


def test_equal_programs_have_equal_hashes() -> None:
    (a,) = at_torch_level(lambda x: x.sin() + 1, torch.ones(2))
    (b,) = at_torch_level(lambda y: y.sin() + 1, torch.zeros(5))
    assert a.hash == b.hash == graph_hash(a.graph)


def test_reseeding_a_graph_is_not_applicable() -> None:
    (found,) = at_torch_level(lambda x: x.sin(), torch.ones(2))
    with pytest.raises(NotApplicable):
        inputs_under(ValuePlan.RESEED, found.inputs, 0)


def test_a_plan_changes_a_copy() -> None:
    (found,) = at_torch_level(lambda x: x.sin(), torch.full((3,), 0.25))
    changed = inputs_under(ValuePlan.EXACT, found.inputs, 0)
    assert changed.rebuild()[0].tolist() != found.inputs.rebuild()[0].tolist() == [0.25] * 3
