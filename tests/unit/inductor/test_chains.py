"""Calls in a row, in the order in which the text of a pass names them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx, nn

from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.chains import Place, chains
from fxmorph.inductor.firing.small_program import Misfit, SmallProgram, build
from fxmorph.inductor.firing.vocabulary import vocabulary
from fxmorph.testing import check_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
REPEATED = (aten.unsqueeze.default, aten.expand.default, aten.clone.default, aten.view.default)


def walks(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.target is aten.mul.Tensor and node.args[0].target in (aten.tanh.default, aten.erf.default):
            node.meta["seen"] = node.args[0].args[0].target is aten.exp.default


def test_the_text_says_what_comes_next() -> None:
    words = vocabulary((walks,))
    either = (aten.tanh.default, aten.erf.default)
    assert [named.targets for named in words.sequence] == [(aten.mul.Tensor,), either, (aten.exp.default,)]
    assert list(words.listed) == [either]


class Listed:
    pairs = ((nn.BatchNorm1d, nn.Linear), (nn.BatchNorm2d, nn.Conv2d))
    methods = ("unsqueeze", "expand")

    def __call__(self, graph: fx.Graph) -> None:
        for node in graph.nodes:
            node.meta["seen"] = (node.target, node.args[0].target) in self.pairs or node.target in ["exp", "neg"]


def test_what_objects_list_is_an_order_too() -> None:
    words = vocabulary((Listed(),))
    assert set(words.listed) >= {(nn.BatchNorm1d, nn.Linear), (nn.BatchNorm2d, nn.Conv2d), ("exp", "neg")}


def clamps(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.target is aten.add.Tensor and node.args[1] == 3:
            node.meta["seen"] = node.args[0].target is aten.clamp.default and node.args[0].args[1:] == (0, 6)


def test_numbers_belong_to_what_is_named_before_them() -> None:
    assert [named.numbers for named in vocabulary((clamps,)).sequence] == [[3], [0, 6]]
    found = list(chains([Place((aten.clamp.default,), (0, 6)), Place((aten.add.Tensor,), (3,))], (), Words()))
    assert [(0, 6), (3,)] in [[step.args[1:] for step in program.steps] for program in found]


def swaps(graph: fx.Graph) -> None:
    either = {aten.exp.default, aten.neg.default}
    for node in graph.nodes:
        node.meta["seen"] = node.target is aten.t.default and node.args[0].target in either


def test_names_of_the_functions_own_stand_for_what_they_hold() -> None:
    words = vocabulary((swaps,))
    assert {*words.sequence[-1].targets} == {aten.exp.default, aten.neg.default}
    found = [targets(p) for p in chains([Place(named.targets) for named in words.sequence], (), Words())]
    assert [aten.t.default, words.sequence[-1].targets[0], aten.t.default] in found


def made(*places: Any) -> list[SmallProgram]:
    return list(chains([Place((place,)) for place in places], (), Words()))


def targets(program: SmallProgram) -> list[Any]:
    return [step.target for step in program.steps]


def test_chains_go_both_ways() -> None:
    three = [aten.exp.default, aten.mul.Tensor, aten.tanh.default]
    found = [targets(program) for program in made(*three)]
    assert three in found and three[::-1] in found


def test_calls_that_fit_nowhere_are_left_out() -> None:
    found = [targets(p) for p in made(aten.relu.default, aten.convolution.default, aten.linear.default)]
    assert [aten.relu.default, aten.linear.default] in found


def test_a_size_among_the_calls_is_no_error() -> None:
    found = [targets(p) for p in made(aten.sym_size.int, aten.slice_scatter.default, aten.neg.default)]
    assert [aten.neg.default, aten.slice_scatter.default] in found


def test_an_axis_is_put_in_widened_and_merged() -> None:
    shapes = set()
    for program in made(*REPEATED):
        if targets(program) == list(REPEATED):
            shapes.add(tuple(tuple(v.shape) for v in build(program).values[-4:]))
    assert ((4, 1, 6), (4, 2, 6), (4, 2, 6), (8, 6)) in shapes


def test_calls_come_before_each_operand() -> None:
    found = [targets(p) for p in made(aten.exp.default, aten.neg.default, aten.mul.Tensor)]
    assert [*[aten.exp.default, aten.neg.default] * 2, aten.mul.Tensor] in found


def test_most_chains_run() -> None:
    programs = made(aten.mul.Tensor, aten.sum.dim_IntList, aten.view.default, aten.mm.default)
    misfits = 0
    for program in programs:
        try:
            build(program)
        except Misfit:
            misfits += 1
    assert programs and misfits < len(programs) / 4


class Unrolled:
    """A chain that one loop looks for, each step by the same instructions: right where ``same`` is."""

    chain = (aten.exp.default, aten.unsqueeze.default, aten.expand.default, aten.neg.default, aten.tanh.default)

    def __init__(self, same: bool) -> None:
        self.last = aten.tanh.default if same else aten.sigmoid.default

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            read = node
            for target in reversed(self.chain):
                if not isinstance(read, fx.Node) or read.target is not target:
                    break
                read = read.args[0]
            else:
                with graph.inserting_before(node):
                    made = graph.call_function(aten.alias.default, (graph.call_function(self.last, node.args),))
                node.replace_all_uses_with(made)
                graph.erase_node(node)


def test_a_loop_over_five_calls_fires() -> None:
    assert check_pass(Unrolled(True), (), graphs=200) > 0


def test_what_is_wrong_of_five_calls_is_found() -> None:
    with pytest.raises(AssertionError, match="WRONG"):
        check_pass(Unrolled(False), (), graphs=200)
