"""Every graph of a compile is kept, with inputs on which it computes what the program computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.snapshots import Snapshot, pairs, snapshots
from fxmorph.model import CompileConfig
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.planting import planted_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")
CONFIG = CompileConfig.make()


def program(x: torch.Tensor, y: torch.Tensor) -> Any:
    counted = torch.ones(4, dtype=torch.int64).cumsum(0)
    return torch.softmax(x @ y + 0, -1).sin().sum(0), counted


def values(grad: bool = False) -> InputSet:
    g = torch.Generator().manual_seed(0)
    return InputSet.snapshot([torch.randn(4, 8, generator=g).requires_grad_(grad), torch.randn(8, 8, generator=g)])


def run(snapshot: Snapshot) -> list[Any]:
    with torch.no_grad():
        return list(fx.Interpreter(snapshot.graph_module).run(*snapshot.inputs.rebuild()))


@pytest.fixture(scope="module")
def inference() -> list[Snapshot]:
    with torch.no_grad():
        return snapshots(program, values(), CONFIG)


def test_stages_come_in_order(inference: list[Snapshot]) -> None:
    stages = [s.stage for s in inference]
    assert stages[0] is Stage.PRE_GRAD
    assert [s for s in Stage if s in stages] == list(dict.fromkeys(stages))
    assert {Stage.PRE_GRAD, Stage.JOINT, Stage.POST_GRAD} <= set(stages)


def test_each_graph_gives_the_programs_values(inference: list[Snapshot]) -> None:
    wanted = program(*values().rebuild())
    for snapshot in inference:
        for got, want in zip(run(snapshot), wanted, strict=True):
            torch.testing.assert_close(got, want, msg=f"after {snapshot.stage} {snapshot.unit}")


def test_consecutive_graphs_differ_and_the_step_between_has_a_name(inference: list[Snapshot]) -> None:
    found = list(pairs(inference))
    assert "post_grad.pass_patterns[1]/pointless_cumsum_replacement" in [after.unit for _, after in found]
    for before, after in found:
        assert str(before.graph_module.graph) != str(after.graph_module.graph)


def test_training_has_the_joint_graph_and_both_parts() -> None:
    taken = snapshots(program, values(grad=True), CONFIG)
    holders = [{n.name for n in s.graph_module.graph.nodes if n.op == "placeholder"} for s in taken]
    assert any(any(n.startswith("tangents") for n in names) and "primals_2" in names for names in holders)
    lines = {s.line for s in taken if s.stage is Stage.POST_GRAD}
    assert len(lines) == 2, "forward and backward"
    for snapshot in taken:
        assert all(torch.isfinite(t).all() for t in run(snapshot) if isinstance(t, torch.Tensor))


def test_a_pass_that_is_wrong_shows_in_its_own_pair_and_not_before() -> None:
    def edit(graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default

    with planted_pass(edit, "constant_fold_uniform_value", "joint_graph"), torch.no_grad():
        taken = snapshots(program, values(), CONFIG)
    wanted = program(*values().rebuild())[0]
    wrong = [s.unit for s in taken if not torch.allclose(run(s)[0], wanted)]
    assert wrong[0] == "joint.constant_fold_uniform_value"


def test_later_edits_do_not_change_a_snapshot(inference: list[Snapshot]) -> None:
    first = next(s for s in inference if s.stage is Stage.JOINT)
    last = [s for s in inference if s.line == first.line][-1]
    assert any("cumsum" in str(n.target) for n in first.graph_module.graph.nodes)
    assert not any("cumsum" in str(n.target) for n in last.graph_module.graph.nodes)


def test_inputs_are_as_they_were_before_the_call() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1

    start = torch.arange(6.0)
    with torch.no_grad():
        taken = snapshots(writes, InputSet.snapshot([start]), CONFIG)
    for snapshot in taken:
        assert torch.equal(snapshot.inputs.rebuild()[0], start)
