"""Of many calls the few that are most unlike each other."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fxmorph.torchapi.operator_samples import _drawn, operator_tests, recorded_calls
from fxmorph.torchapi.unlike_calls import most_unlike

aten = torch.ops.aten


def chosen(calls: list[Any], count: int) -> list[Any]:
    return most_unlike(calls, lambda call: call, count)


def test_the_first_that_is_on_something_comes_first_and_none_twice() -> None:
    nothing, some = torch.empty(0), torch.ones(3)
    calls = [[nothing, 1], [some, 1], [some, 2], [nothing, 2]]
    assert chosen(calls, 9) == [calls[1], calls[2], *(call for call in chosen(calls, 9)[2:])]
    assert len(chosen(calls, 9)) == 4 and chosen(calls, 1) == [calls[1]] and chosen([], 3) == []


def test_sparse_tensors_are_calls_too() -> None:
    calls = [[torch.eye(3)], [torch.eye(3).to_sparse_csr()], [torch.eye(3).to_sparse()]]
    assert len(chosen(calls, 3)) == 3


def test_every_value_of_an_argument_and_pairs_of_them_come_before_what_is_alike() -> None:
    calls = [{"size": size, "mode": mode} for mode in "abc" for size in (1, 2, 3)]
    few = chosen(calls, 3)
    assert {call["size"] for call in few} == {1, 2, 3} and {call["mode"] for call in few} == set("abc")
    others = torch.ones(3, 2).t(), torch.ones(2, 1), torch.ones(2).int()
    tensors = [[torch.ones(2, 3)] for _ in range(8)] + [[other] for other in others]
    assert {id(call) for call in chosen(tensors, 4)} == {id(call) for call in (tensors[0], *tensors[8:])}


@pytest.mark.parametrize(
    ("operator", "overload", "argument"),
    [
        ("nn.functional.nll_loss", aten.nll_loss_forward.default, 3),
        ("roll", aten.roll.default, 1),
        ("nn.functional.interpolate", aten.upsample_linear1d.default, 2),
    ],
)
def test_arguments_of_recorded_calls_differ(operator: str, overload: Any, argument: int) -> None:
    """Reductions, lists of dimensions and flags that torch's tests begin with are not all that there are."""
    said = set()
    for test in operator_tests():
        if test.name == operator:
            calls = recorded_calls(test, torch.float32, {overload})
            said |= {repr(call.args[argument]) for call in calls if call.args[0].numel()}
    assert len(said) > 1, said


def test_samples_before_one_that_cannot_be_drawn_are_there() -> None:
    def samples(*given: Any, **named: Any) -> Iterator[Any]:
        yield SimpleNamespace(input=torch.ones(2), args=(1,), kwargs={})
        raise RuntimeError("no such dtype")

    assert len(_drawn(SimpleNamespace(supports_autograd=False, sample_inputs=samples), torch.float32)) == 1


def test_overloads_that_the_dispatcher_takes_apart_are_noted_when_python_calls_them() -> None:
    overload = torch.ops.aten.upsample_bilinear2d.vec
    interpolate = (t for t in operator_tests() if t.name == "nn.functional.interpolate")
    test = next(t for t in interpolate if t.variant_test_name == "bilinear")
    calls = recorded_calls(test, torch.float32, {overload})
    assert {call.overload for call in calls} == {overload}
    assert any(call.args[1] is None and isinstance(call.args[3], list) for call in calls)  # scale factors
