"""How small programs grow: calls before each operand, other elements of a tuple, keywords, numpy's names."""

from __future__ import annotations

import operator
from itertools import islice
from typing import Any

import pytest
import torch

from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.growing import begun, crossed, prepended_to_each
from fxmorph.inductor.firing.numpy_names import programs_by_numpy_names
from fxmorph.inductor.firing.operator_calls import calls, further_keywords, takes_numbers
from fxmorph.inductor.firing.small_program import In, Misfit, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.firing.spoiled import near_misses

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
X = tensor_spec((4, 6))


def call(target: Any, *args: Any, **kwargs: Any) -> Step:
    return Step("call_function", target, args, tuple(kwargs.items()))


def targets(program: SmallProgram) -> list[Any]:
    return [n.target for n in build(program).gm.graph.nodes if n.op == "call_function"]


def test_a_call_is_put_before_each_of_several_operands() -> None:
    product = SmallProgram((X, X), (call(aten.mul.Tensor, In(0), In(1)),), (Out(0),), "mul")
    both = next(prepended_to_each(product, aten.cat.default, Words()))
    assert targets(both) == [aten.cat.default, aten.cat.default, aten.mul.Tensor]
    assert len(both.inputs) == 4 and both.made == "cat > each operand of mul"
    one = SmallProgram((X,), (call(aten.relu.default, In(0)),), (Out(0),), "relu")
    assert not list(prepended_to_each(one, aten.cat.default, Words()))


def test_another_element_of_a_tuple_takes_the_place_of_an_input() -> None:
    steps = (
        call(aten.split.Tensor, In(0), 2),
        call(operator.getitem, Out(0), 0),
        call(aten.mul.Tensor, Out(1), In(1)),
    )
    halves = SmallProgram((X, tensor_spec((2, 6))), steps, (Out(2),), "split > mul")
    graphs = [build(p).gm.graph for p in crossed(halves) if len(p.inputs) == 1 and len(p.steps) == 4]
    assert any(
        [n.args[1] for n in graph.nodes if n.target is operator.getitem] == [0, 1]
        and all(read.target is operator.getitem for read in list(graph.nodes)[-2].args)
        for graph in graphs
    )


def test_functions_of_torch_are_called_by_names_alone_too() -> None:
    made = [c for c in calls(torch.softmax, torch.empty(4, 6, device="meta"), Words()) if not c.args]
    assert made and {"input", "dim"} <= {name for name, _ in made[0].kwargs}


def test_one_call_of_each_overload_comes_first() -> None:
    first = [c.args[1] for c in islice(calls("view", torch.empty(4, 6, device="meta"), Words()), 4)]
    assert any(isinstance(given, torch.dtype) for given in first)


def test_values_of_each_shape_are_begun_with_in_turn() -> None:
    found = [p.inputs[0].shape for p in begun(aten.expand.default, Words(), 2)]
    assert found[: len(found) // 2] == found[len(found) // 2 :] and (1, 3, 4) in found


def test_what_is_called_in_many_ways_joins_nothing_too() -> None:
    assert any(0 in spec.shape for p in begun(aten.cat.default, Words(), 24) for spec in p.inputs)


def test_dims_are_given_as_lists_and_as_tuples() -> None:
    made = islice(calls("mean", torch.empty(2, 3, 4, 5, device="meta"), Words()), 60)
    given = [call.args[1] for call in made if call.args[1:]]
    assert [2, 3] in given and (2, 3) in given


def test_a_call_gets_a_keyword_more() -> None:
    assert {name for name, _ in further_keywords(torch.sum, 1, ["axis"], Words())} >= {"dtype", "keepdim"}
    assert not any(name == "dim" for name, _ in further_keywords(torch.sum, 1, ["axis"], Words()))
    summed = SmallProgram((X,), (call(torch.sum, In(0), axis=-1),), (Out(0),), "sum")
    said = [p.made for p in near_misses(summed, Words(), True)]
    assert "sum, call 0 with keepdim=True too" in said


def test_every_function_along_a_dimension_is_called_by_numpys_name() -> None:
    made = {p.made.split()[0]: p for p in programs_by_numpy_names()}
    assert made.keys() >= {"sum", "sort", "softmax", "cumsum", "argmax"}
    assert all(dict(step.kwargs)["axis"] == -1 for p in made.values() for step in p.steps)
    assert any(len(p.steps) > 2 for p in made.values())


def test_what_does_not_fit_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    unlike = SmallProgram((X, X), (call(aten.mm.default, In(0), In(1)),), (Out(0),), "mm")
    with pytest.raises(Misfit):
        build(unlike)
    assert capfd.readouterr().err == ""


def test_calls_that_are_alike_are_changed_together() -> None:
    steps = (
        call(aten.permute.default, In(0), [1, 2, 0]),
        call(aten.relu.default, Out(0)),
        call(aten.permute.default, Out(1), [1, 2, 0]),
    )
    there = SmallProgram((tensor_spec((2, 3, 4)),), steps, (Out(2),), "there and on")
    orders = [(p.steps[0].args[1], p.steps[2].args[1]) for p in near_misses(there, Words(), True) if len(p.steps) == 3]
    assert ([2, 0, 1], [2, 0, 1]) in orders and ([2, 0, 1], [1, 2, 0]) in orders


def test_lists_are_longer_than_a_number_that_is_named() -> None:
    joined = islice(calls(aten.cat.default, torch.empty(4, 6, device="meta"), Words((5,))), 8)
    assert 6 in [len(call.args[0]) for call in joined]


def test_numbers_go_where_numbers_may_be() -> None:
    assert takes_numbers(aten.clamp.default, (0, 6)) and takes_numbers(aten.add.Tensor, (3,))
    assert takes_numbers(aten.slice.Tensor, (0, 1)) and not takes_numbers(aten.slice.Tensor, (0.5,))
    assert not takes_numbers(aten.sum.dim_IntList, (0,)) and not takes_numbers(aten.mm.default, (2,))


@pytest.mark.parametrize("value", [4, 0.5, (4, 6)])
def test_calls_of_tensors_on_what_is_none_are_no_error(value: Any) -> None:
    operators = (aten.slice_scatter.default, aten.cat.default, aten.rsub.Tensor, aten.native_group_norm.default)
    made = [each for target in operators for each in islice(calls(target, value, Words((5,))), 20)]
    assert {each.target for each in made} <= set(operators)
