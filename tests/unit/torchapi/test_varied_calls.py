"""Calls with one thing otherwise."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.torchapi.varied_calls import passes_shape_check, varied, with_other_numbers


def variations(call: Any) -> list[Any]:
    return [varied(call, f"key {i}") for i in range(200)]


def test_flags_numbers_and_sizes_change() -> None:
    made = variations((torch.ones(2, 3, 4), [3, (2, 1), True], {"dim": 1}))
    assert {first.shape for first, _, _ in made} > {(2, 3, 4), (2, 3, 5), (2, 4, 4), (3, 3, 4), (2, 3, 1)}
    assert {rest[2] for _, rest, _ in made} == {True, False}
    assert {rest[0] for _, rest, _ in made} == {2, 3, 4}
    assert {keywords["dim"] for _, _, keywords in made} == {0, 1, 2}


def test_tensors_that_go_together_stay_so() -> None:
    for first, rest, _ in variations((torch.ones(4, 6), [torch.ones(6), torch.ones(4, 6)], {})):
        assert torch.broadcast_shapes(first.shape, rest[0].shape, rest[1].shape) == first.shape


def test_a_size_that_another_tensor_has_elsewhere_stays() -> None:
    for first, _, _ in variations((torch.ones(4, 2, 5), [torch.ones(2)], {})):
        assert first.shape[1] == 2


def test_the_same_key_gives_the_same_and_nothing_is_written() -> None:
    first = torch.arange(6.0).reshape(2, 3).requires_grad_()
    one, other = (varied((first, [1], {}), "a") for _ in range(2))
    assert torch.equal(one[0], other[0]) and one[0].stride() == other[0].stride() and one[1] == other[1]
    assert torch.equal(first, torch.arange(6.0).reshape(2, 3)) and one[0].requires_grad
    assert varied(("word", [None], {}), "a") == ("word", [None], {})


def test_calls_that_eager_takes_without_a_look_are_told() -> None:
    empty = torch.zeros(0, 0, 0)
    assert torch.roll(empty, 0, 3).shape == empty.shape
    assert not passes_shape_check(torch.roll, (empty, [0, 3], {}))
    assert passes_shape_check(torch.roll, (empty, [0, 2], {}))
    assert passes_shape_check(torch.nonzero, (torch.ones(3), [], {}))  # its shape depends on values


def test_numbers_that_go_together_are_other_small_ones() -> None:
    made = [with_other_numbers((torch.ones(4, 9), [1, 4, 2], {}), f"key {i}") for i in range(60)]
    assert any(step > size for _, (_, size, step), _ in made)  # windows that lie apart
    assert all(sum(n in (1, 2, 3) for n in rest) >= 2 for _, rest, _ in made)
    assert with_other_numbers((torch.ones(4), [2], {"dim": True}), "a") is None
