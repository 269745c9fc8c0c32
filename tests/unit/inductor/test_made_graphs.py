"""Graphs that are made from a pass: what it names, what makes it fire, near misses; and the graphs of stages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn

from fxmorph.core.seeds import find_seeds
from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.small_program import In, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.firing.spoiled import near_misses
from fxmorph.inductor.firing.vocabulary import vocabulary
from fxmorph.inductor.own.graph_source import GraphSource, seed_graphs
from fxmorph.inductor.own.pass_stage import PassStage
from fxmorph.inductor.own.stub_operators import is_stub, stub_namespaces
from fxmorph.model import Status
from fxmorph.programs.load import load_seed
from fxmorph.testing import check_pass, judge_pair

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
NAMED = {aten.relu.default: "relu"}


def helper(node: fx.Node) -> bool:
    return node.target in NAMED and node.args[0].target == torch.ops.aten.mm.default


def reads(graph: fx.Graph) -> None:
    for node in list(graph.nodes):
        if helper(node) or node.target in ("contiguous", torch.tanh) or isinstance(node.target, nn.Linear):
            node.meta["asked"] = node.meta["val"].dtype == torch.float16 and node.args[0] == 7


def test_a_pass_names_what_its_code_and_that_of_its_helpers_names() -> None:
    words = vocabulary((reads,))
    assert set(words.operators) >= {aten.relu.default, aten.mm.default}
    assert torch.tanh in words.functions and "contiguous" in words.methods and nn.Linear in words.modules
    assert 7 in words.numbers and torch.float16 in words.dtypes


def composed(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.tanh.default(x)


@dataclass
class Choices:
    careful: bool = True


def compares(graph: fx.Graph, choices: Choices) -> None:
    for node in graph.nodes:
        node.meta["asked"] = choices.careful and node.target in (composed, aten.exp.default)


def test_neither_targets_nor_what_others_wrote_are_code_of_a_pass() -> None:
    assert list(vocabulary((compares,)).operators) == [aten.exp.default]


PERMUTED = SmallProgram(
    (tensor_spec((2, 3, 4)),),
    (
        Step("call_function", aten.permute.default, (In(0), [1, 2, 0])),
        Step("call_function", aten.add.Tensor, (Out(0), Out(0))),
    ),
    (Out(1),),
    "permute > add",
)


def test_a_program_is_a_graph_with_notes_and_inputs() -> None:
    built = build(PERMUTED)
    (value,) = built.inputs().rebuild()
    assert torch.equal(built.gm(value)[0], value.permute(1, 2, 0) * 2)
    assert all("val" in n.meta for n in built.gm.graph.nodes if n.op != "output")
    view = SmallProgram((tensor_spec((2, 3)),), (Step("call_function", aten.t.default, (In(0),)),), (Out(0),))
    assert [n.target for n in build(view).gm.graph.nodes][-2] == aten.neg.default  # no results that are views


def test_near_misses_differ_in_one_thing() -> None:
    said = [p.made for p in near_misses(PERMUTED, Words(), True)]
    sorts = "[2, 0, 1]|alpha=2|float16|int32|inputs is 1|inputs is 0|laid out in reverse|a result too|at the end"
    for words in f"{sorts}|is small|halves|all sizes".split("|"):
        assert any(words in each for each in said), words
    assert len(set(said)) > 30


def deep(graph: fx.Graph) -> None:
    """Four calls in a row, found though no seed has them: right."""
    for node in list(graph.nodes):
        if node.target is aten.sigmoid.default and node.args[0].target is aten.neg.default:
            inner = node.args[0].args[0]
            if inner.target is aten.mul.Tensor and inner.args[1] == 3.25 and inner.args[0].target is aten.exp.default:
                node.meta["seen"] = True
                with graph.inserting_after(node):
                    made = graph.call_function(aten.alias.default, (node,))
                node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)


def test_what_makes_a_pass_read_on_is_grown() -> None:
    assert check_pass(deep, (), graphs=600) > 0


def test_a_pass_that_never_fires_says_what_was_never_so() -> None:
    def asks(graph: fx.Graph) -> None:
        for node in graph.nodes:
            seen = node.target is aten.sigmoid.default
            if seen and node.meta.get("no such note"):
                graph.erase_node(node)

    with pytest.raises(
        AssertionError, match=r"of sigmoid.default; never met: \w+\.py:\d+: if seen and node.meta.get\('no such note'\)"
    ):
        check_pass(asks, (), graphs=100)


@pytest.mark.parametrize("stage", [s for s in PassStage if s is not PassStage.ANY])
@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        ("layout_window_partition", False),
        ("layout_axis_cycle", True),
        pytest.param("layout_window_partition", True, marks=pytest.mark.slow),  # its sizes divide one another
    ],
)
def test_each_stage_has_graphs(stage: PassStage, name: str, dynamic: bool) -> None:
    corpus = Path(__file__).parents[3] / "corpus" / "seeds" / f"{name}.py"
    (seed,), _ = find_seeds([str(corpus)])
    graphs = seed_graphs(load_seed(seed), GraphSource(stage, dynamic), False)
    assert graphs and all(len(g.gm.graph.nodes) > 2 for g in graphs)


SCHEMAS = """
BUILD = '''
TORCH_LIBRARY(lib) { ops.def("rotate(Tensor! result, Tensor x, float angle) -> ()"); }
'''
ROTATE = torch.ops.fxmorphstubs.rotate.default
SHIFT = torch.ops.fxmorphstubs.shift
def f(x): return torch.ops.fxmorphstubs.shift.default(x, 2, eps=0.5)
def g(x, y): return auto_functionalized(SCALE, result=y, x=x, axis=1)
SCALE = torch.ops.fxmorphstubs.scale.default
"""


def test_missing_operators_get_stand_ins(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(SCHEMAS)
    made = stub_namespaces(["fxmorphstubs"], tmp_path / "engine.py")
    assert sorted(made) == ["fxmorphstubs::rotate", "fxmorphstubs::scale", "fxmorphstubs::shift"]
    ops: Any = torch.ops.fxmorphstubs
    assert "result, Tensor x, float angle" in str(ops.rotate.default._schema)
    assert "float eps" in str(ops.shift.default._schema) and is_stub(ops.shift.default)
    x = torch.ones(3)
    ops.scale.default(result=x, x=torch.ones(3), axis=1)
    assert not torch.equal(x, torch.ones(3))


def test_a_pair_that_is_at_hand_is_judged_in_a_line() -> None:
    def before(x: torch.Tensor) -> torch.Tensor:
        for _ in range(9):
            x = torch.relu(x) + 1
        return x.sum(dtype=torch.float64)

    x = torch.randn(4, 6)
    assert judge_pair(before, before, [x]).outcome == "proved"
    started = time.process_time()
    assert judge_pair(before, before, [x]).ok
    assert time.process_time() - started < 1.0  # 0.05 where nothing else runs
    wrong = judge_pair(before, lambda x: before(x).float(), [x])
    assert not wrong.ok and wrong.status is Status.FINDING and "same dtypes" in wrong.broken
    near = judge_pair(lambda x: x * 1.0001, lambda x: x * 1.0002, [x], rtol=1e-3)
    assert near.ok and near.status is Status.EXPECTED


def test_code_that_was_changed_in_memory_names_what_runs() -> None:
    def looks(graph: fx.Graph) -> None:
        for node in graph.nodes:
            node.meta["seen"] = node.target is aten.relu.default

    def as_it_runs(graph: fx.Graph) -> None:
        for node in graph.nodes:
            node.meta["seen"] = node.target is aten.constant_pad_nd.default

    assert aten.constant_pad_nd not in vocabulary((looks,)).operators
    looks.__code__ = as_it_runs.__code__.replace(co_firstlineno=looks.__code__.co_firstlineno)
    assert aten.constant_pad_nd in vocabulary((looks,)).operators
