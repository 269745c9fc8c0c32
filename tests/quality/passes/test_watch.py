"""What ``watch`` notes of a compile: which steps changed graphs, the user's own by name, and which of them is wrong."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as config
from torch import fx

from fxmorph.model import Status
from fxmorph.testing import watch
from fxmorph.torchapi.planting import planted_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten


def cosines(graph: fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=aten.sin.default):
        node.target = aten.cos.default


def squares_as_powers(graph: fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        if node.args[0] is node.args[1]:
            with graph.inserting_before(node):
                power = graph.call_function(aten.pow.Tensor_Scalar, (node.args[0], 2))
            power.meta = dict(node.meta)
            node.replace_all_uses_with(power)
            graph.erase_node(node)


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x * x).sum(0)


def test_a_wrong_hook_is_told_from_a_right_one() -> None:
    with watch() as watched, config.patch(joint_custom_post_pass=squares_as_powers, post_grad_custom_pre_pass=cosines):
        x = torch.randn(4, 8, requires_grad=True)
        torch.compile(program)(x).sum().backward()
    names = [step for step in watched.steps if "(" in step]
    right, wrong = "joint.joint_custom_post_pass (squares_as_powers)", "post_grad.post_grad_custom_pre_pass (cosines)"
    assert set(names) == {right, wrong}
    found = {pair.unit: pair for pair in watched.judged(prove=True, hooks=True)}
    assert (found[right].status, found[right].outcome) == (Status.CLEAN, "proved")
    assert (found[wrong].status, found[wrong].outcome) == (Status.FINDING, "refuted")
    with pytest.raises(AssertionError, match=r"WRONG post_grad.post_grad_custom_pre_pass \(cosines\)"):
        watched.require(hooks=True)


def test_what_is_compiled_does_what_it_does_unwatched() -> None:
    x = torch.randn(4, 8)
    with watch() as watched, config.patch(post_grad_custom_post_pass=cosines):
        got = torch.compile(program)(x)
    torch.testing.assert_close(got, torch.cos(x * x).sum(0))
    assert watched.steps[-1] == "post_grad.post_grad_custom_post_pass (cosines)"


def test_graphs_whose_inputs_have_the_same_names_keep_their_own_values() -> None:
    """A table is looked up by one graph in 3 rows, by the other in 50: places of one are out of range in the other."""
    with watch() as watched, config.patch(post_grad_custom_pre_pass=cosines):
        for rows in (3, 50):
            table, places = torch.randn(rows, 4), torch.full((6,), rows - 1)
            torch.compile(lambda table, places: torch.sin(table[places]))(table, places)
    pairs = watched.judged(hooks=True)
    assert [pair.status for pair in pairs] == [Status.FINDING] * 2


def test_a_wrong_pass_of_inductors_own_is_found() -> None:
    with watch() as watched, planted_pass(cosines, "remove_noop_ops", "post_grad"), torch.no_grad():
        torch.compile(program)(torch.randn(4, 8))
    wrong = [pair.unit for pair in watched.judged() if pair.status is Status.FINDING]
    assert wrong == ["joint.remove_noop_ops"]  # called in the joint stage first, where nothing is left to do after it
    watched.require(hooks=True)  # none is the user's


def test_what_a_program_raises_comes_through() -> None:
    with pytest.raises(RuntimeError, match="mine"), watch() as watched:
        torch.compile(program)(torch.randn(4, 8))
        raise RuntimeError("mine")
    assert watched.judged() is not None
