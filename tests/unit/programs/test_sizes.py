"""Changing one size throughout the inputs of a program."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.seeds import find_seeds
from fxmorph.model import RESHAPES, Case, CompileConfig, ValuePlan
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import Invocation, LoadedSeed, load_case
from fxmorph.programs.sizes import Reshaping, Sizes, candidates, reshapings, resize


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


# -- other shapes for a case ---------------------------------------------------


def test_deeper_tensors_keep_dtype_order_in_memory_and_gradients() -> None:
    turned = torch.arange(12, dtype=torch.int16).reshape(3, 4).t()
    leaf = torch.randn(2, 3).requires_grad_()
    wide = torch.arange(3.0).reshape(3, 1).expand(3, 5)
    a, b, c, d, k = Reshaping("deeper").of([turned, leaf, wide, torch.tensor(7), 5])
    assert (a.shape, a.stride(), a.dtype) == ((2, 4, 3), (12, 1, 4), torch.int16)
    assert torch.equal(a[0], turned) and torch.equal(a[1], turned.roll(1, 0))
    assert b.requires_grad and b.is_leaf and torch.equal(b[1], leaf.roll(1, 0))
    assert (c.shape, c.stride()[2]) == ((2, 3, 5), 0) and torch.equal(c[0], wide)
    assert (d.tolist(), k) == ([7, 7], 5)


def test_deeper_tensors_still_ascend_where_they_did() -> None:
    edges, row, mixed = Reshaping("deeper").of([torch.arange(4), torch.tensor([[0.0, 1, 5]]), torch.tensor([2, 0, 1])])
    assert edges.tolist() == [[0, 1, 2, 3]] * 2 and row.tolist() == [[[0.0, 1, 5]]] * 2
    assert mixed.tolist() == [[2, 0, 1], [1, 2, 0]]


def test_flatter_tensors_are_the_first_of_each_down_to_rank_0() -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    leaf = torch.ones(3, requires_grad=True)
    a, b, c = Reshaping("flatter", least=1).of([image, leaf, torch.tensor(2.0)])
    assert torch.equal(a, image[0]) and a.stride() == (1, 15, 3)
    assert b.shape == () and b.requires_grad and b.is_leaf
    assert c.shape == ()


def test_ranks_change_in_all_tensors_or_in_those_of_the_higher_ranks() -> None:
    values = [torch.ones(2, 3), [torch.ones(3)], torch.tensor(1.0)]
    tried = reshapings("flatter", values, random.Random(0))
    assert [[t.ndim for t in (x, y, z)] for x, (y,), z in (r.of(values) for r in tried)] == [[1, 0, 0], [1, 1, 0]]
    assert [r.least for r in reshapings("deeper", values, random.Random(0))] == [0, 1, 2]
    assert not reshapings("deeper", [3], random.Random(0)) and not reshapings("flatter", values[2:], random.Random(0))


@pytest.mark.parametrize("change", [Reshaping("empty", 4), Reshaping("deeper"), Reshaping("flatter", least=1)])
def test_what_is_not_plain_or_shares_memory_is_not_reshaped(change: Reshaping) -> None:
    x = torch.ones(4)
    quantised = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    for values in ([x, x[:2]], [torch.eye(4).to_sparse()], [quantised]):
        with pytest.raises(NotApplicable):
            change.of(values)


def loaded(folder: Path, text: str, reshaped: str, number: int = 1, **options: Any) -> LoadedSeed:
    (folder / "seed.py").write_text(f"import torch\n{text}\n")
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    return load_case(Case(seed, number, 0, (), CompileConfig.make("eager", options), reshaped=reshaped))


ANY = "def make_inputs(): return [torch.randn(5, 7)]\ndef fn(x): return x + 1"


def test_a_case_gets_inputs_of_other_shapes_and_says_which(tmp_path: Path) -> None:
    made = {kind: [loaded(tmp_path, ANY, kind, number) for number in range(8)] for kind in RESHAPES}
    shapes = {kind: {tuple(one.fresh().args[0].shape) for one in ones} for kind, ones in made.items()}
    assert shapes == {
        "one": {(1, 7), (5, 1)}, "empty": {(0, 7), (5, 0)}, "larger": {(13, 7), (5, 17)}, "deeper": {(2, 5, 7)},
        "flatter": {(7,)},
    }  # fmt: skip
    said = {str(one.reshaped) for one in made["empty"]}
    assert said == {"size 5 becomes 0", "size 7 becomes 0"}
    again = [loaded(tmp_path, ANY, "empty", number).reshaped for number in range(8)]
    assert again == [one.reshaped for one in made["empty"]]


@pytest.mark.parametrize("kind", RESHAPES)
def test_what_eager_refuses_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    fixed = "def make_inputs(): return [torch.randn(5, 7)]\ndef fn(x): return x.view(5, 7)"
    one = loaded(tmp_path, fixed, kind)
    # flatter and deeper tensors have other numbers of elements
    assert one.reshaped is None and one.fresh().args[0].shape == (5, 7)


def test_where_shapes_are_dynamic_sizes_are_left_to_the_plans(tmp_path: Path) -> None:
    assert loaded(tmp_path, ANY, "empty", dynamic=True).reshaped is None


def test_a_module_and_a_driver_see_the_other_shapes(tmp_path: Path) -> None:
    text = """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(7))
    def forward(self, x): return x * self.w
def make_inputs(): return [torch.randn(5, 7)]
def make_fn(): return Scaled()
def drive(g, x): return g(x), g(x[:2])
"""
    made = loaded(tmp_path, text, "empty").fresh()
    assert [out.shape for out in made.drive(made.fn)] == [(0, 7), (0, 7)]
