"""Changing one size throughout the inputs of a program."""

from __future__ import annotations

import pytest
import torch

from fxmorph.inputs import NotApplicable
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.sizes import Sizes, candidates, resize


def test_every_dimension_of_that_size_changes_and_no_other() -> None:
    x, y, k = resize([torch.ones(3, 5), torch.ones(5, 3, 2), 5], 5, 8)
    assert (x.shape, y.shape, k) == ((3, 8), (8, 3, 2), 5)


def test_elements_repeat_or_are_dropped() -> None:
    assert resize([torch.arange(3)], 3, 5)[0].tolist() == [0, 1, 2, 0, 1]
    assert resize([torch.arange(4)], 4, 2)[0].tolist() == [0, 1]
    assert resize([torch.arange(4)], 4, 0)[0].shape == (0,)


def test_order_in_memory_expansion_and_gradients_stay() -> None:
    turned = torch.arange(12.0).reshape(3, 4).t().requires_grad_(False)
    leaf = torch.ones(4, requires_grad=True)
    wide = torch.ones(1, 4).expand(3, 4)
    a, b, c = resize([turned, leaf, wide], 4, 6)
    assert a.shape == (6, 3) and a.stride() == (1, 6)
    assert b.requires_grad and b.is_leaf
    assert c.shape == (3, 6) and c.stride() == (0, 1)


def test_inputs_that_share_memory_are_left_alone() -> None:
    x = torch.ones(4)
    with pytest.raises(NotApplicable, match="share memory"):
        resize([x, x[:2]], 4, 6)


def test_the_most_frequent_size_comes_first() -> None:
    assert candidates([torch.ones(3, 7), torch.ones(7, 1)]) == [7, 3]


def test_a_size_that_eager_refuses_is_not_chosen() -> None:
    weight = torch.ones(7, 2)

    def make(change):  # type: ignore[no-untyped-def]
        args = [torch.ones(3, 7), torch.ones(7)]
        args = args if change is None else change(args)
        return Invocation(lambda x, y: (x + y) @ weight, args, lambda g: g(*args))

    sizes = Sizes()
    assert [a.shape for a in sizes.changed(ValuePlan.LARGER, make).args] == [(9, 7), (7,)]
    assert [a.shape for a in sizes.changed(ValuePlan.EMPTY, make).args] == [(0, 7), (7,)]

    def fixed(change):  # type: ignore[no-untyped-def]
        args = [torch.ones(7)] if change is None else change([torch.ones(7)])
        return Invocation(lambda x: x @ weight, args, lambda g: g(*args))

    with pytest.raises(NotApplicable):
        sizes = Sizes()
        sizes.changed(ValuePlan.ONE, fixed)
