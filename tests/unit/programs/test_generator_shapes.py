"""What the generator knows of shapes, strides and dtypes is what torch does."""

from __future__ import annotations

import itertools

import pytest
import torch

from fxmorph.programs.generator.dice import Dice
from fxmorph.programs.generator.promotion import ANY, can_hold, promote, result_dtype
from fxmorph.programs.generator.shapes import broadcast, draw_shape, partner, rearranged, strides_of
from fxmorph.programs.generator.spans import NoFit
from fxmorph.programs.generator.strided import (
    Layout,
    contiguous,
    diagonal,
    dropped,
    expanded,
    inserted,
    permuted,
    sliced,
    unfolded,
    viewed,
)  # fmt: skip


def named(dtype: str) -> torch.dtype:
    return getattr(torch, dtype)


def test_promotion_is_torchs() -> None:
    for a, b in itertools.product(ANY, ANY):
        assert named(promote(a, b)) is torch.promote_types(named(a), named(b)), (a, b)
        assert can_hold(a, b) == torch.can_cast(named(b), named(a)), (a, b)


@pytest.mark.parametrize("scalar", [True, 2, 0.5])
def test_results_have_torchs_dtype_beside_numbers_and_tensors_of_rank_0(scalar: bool | int | float) -> None:
    counted = {bool: "bool", int: "int64", float: "float32"}[type(scalar)]
    for a, b in itertools.product(ANY, ANY):
        wide, point = torch.ones(2, dtype=named(a)), torch.ones((), dtype=named(b))
        assert named(result_dtype([(a, 1), (b, 0)])) is torch.result_type(wide, point), (a, b)
        assert named(result_dtype([(a, 1), (counted, None)])) is torch.result_type(wide, scalar), (a, scalar)
        assert named(result_dtype([(b, 0), (counted, None)])) is torch.result_type(point, scalar), (b, scalar)


def same(layout: Layout, tensor: torch.Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.stride(), layout.strides or (), strict=True)
    lies = layout.shape == tuple(tensor.shape) and layout.offset == tensor.storage_offset()
    return lies and all(s == w for n, s, w in pairs if n > 1)


def test_views_lie_where_torchs_do() -> None:
    dice = Dice("views")
    for _ in range(300):
        shape = draw_shape(dice, dice.between(2, 4))
        t, a = torch.empty(shape), contiguous(shape)
        dims = dice.shuffled(range(len(shape)))
        t, a = t.permute(dims), permuted(a, dims)
        dim = dice.below(len(shape))
        start, step = dice.below(max(t.shape[dim], 1)), dice.between(1, 3)
        index = (*[slice(None)] * dim, slice(start, None, step))
        t, a = t[index], sliced(a, dim, start, max(t.shape[dim], start), step)
        assert same(a, t)
        assert same(inserted(a, dim), t.unsqueeze(dim))
        assert same(expanded(a, (2, *a.shape)), t.expand(2, *t.shape))
        if 0 not in t.shape:
            assert same(dropped(a, dim, t.shape[dim] - 1), t.select(dim, -1))
            assert same(unfolded(a, dim, 1, 2), t.unfold(dim, 1, 2))
            offset = dice.between(1 - t.shape[0], t.shape[1] - 1)
            assert same(diagonal(a, offset, 0, 1), t.diagonal(offset, 0, 1))


def test_a_view_is_refused_where_torch_refuses_it() -> None:
    dice = Dice("view")
    made = 0
    for _ in range(600):
        shape = draw_shape(dice, dice.between(1, 4))
        dims = dice.shuffled(range(len(shape))) if dice.chance(0.5) else list(range(len(shape)))
        t, a = torch.empty(shape).permute(dims), permuted(contiguous(shape), dims)
        wanted = rearranged(dice, t.numel())
        layout = viewed(a, wanted)
        try:
            view = t.view(wanted)
        except RuntimeError:
            assert layout is None
            continue
        assert layout is not None and same(layout, view)
        made += 1
    assert 100 < made < 600


def test_shapes_are_of_all_ranks_and_not_too_large() -> None:
    dice = Dice("shapes")
    shapes = [draw_shape(dice) for _ in range(2000)]
    assert {len(s) for s in shapes} == set(range(7))
    assert max(torch.Size(s).numel() for s in shapes) <= 8192
    assert {0, 1, 7, 17, 65} <= set(itertools.chain(*shapes))
    assert all(strides_of(s) == torch.empty(s).stride() for s in shapes if 0 not in s)


def test_partners_broadcast() -> None:
    dice = Dice("partners")
    for _ in range(500):
        shape = draw_shape(dice)
        other = partner(dice, shape)
        assert broadcast(shape, other) == tuple(torch.broadcast_shapes(shape, other))
    with pytest.raises(NoFit):
        broadcast((2, 3), (4, 3))


def test_dice_keep_their_promises() -> None:
    dice = Dice("dice", 1)
    assert sorted(dice.shuffled(range(9))) == list(range(9))
    assert {dice.between(-1, 1) for _ in range(60)} == {-1, 0, 1}
    assert dice.some_of("abcd", 4) == list("abcd")
    assert {dice.weighted("ab", (0, 1)) for _ in range(20)} == {"b"}
    first = Dice("x", 1)
    assert first.below(10**6) == Dice("x", 1).below(10**6) != Dice("x", 2).below(10**6)
