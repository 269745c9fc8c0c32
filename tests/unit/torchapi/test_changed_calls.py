"""Calls near a given one, with arguments changed on purpose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from fxmorph.torchapi.changed_calls import changed_calls
from fxmorph.torchapi.varied_calls import passes_shape_check

aten = torch.ops.aten
MANY = 60


def near(overload: OpOverload, *args: Any, key: str = "a", count: int = MANY, **kwargs: Any) -> list[tuple[Any, Any]]:
    return list(changed_calls(overload, args, kwargs, key, count))


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def tensors_in(calls: list[tuple[Any, Any]]) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(calls)
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def test_numbers_leave_their_defaults() -> None:
    named = [kwargs for _, kwargs in near(aten.addmm.default, ones(8), ones(4, 12), ones(12, 8))]
    assert {k.get("alpha") for k in named} >= {0.5, 2, -1} and any({"alpha", "beta"} <= k.keys() for k in named)
    assert {k.get("correction") for _, k in near(aten.var.correction, ones(4, 9), [1])} >= {0, 2, 3}
    flags = [k for _, k in near(aten.avg_pool2d.default, ones(1, 2, 8, 8), [3, 3])]
    assert any(k.get("ceil_mode") for k in flags) and any(k.get("count_include_pad") is False for k in flags)


def test_words_become_others() -> None:
    sides = near(aten.searchsorted.Tensor, torch.arange(5.0), ones(3))
    assert {k.get("side") for _, k in sides} >= {None, "left", "right"}
    assert {k["rounding_mode"] for _, k in near(aten.div.Tensor_mode, ones(3), ones(3), rounding_mode="floor")} == {
        "floor", "trunc",
    }  # fmt: skip
    index = torch.zeros(2, dtype=torch.int64)
    reduced = near(aten.scatter_reduce.two, ones(4), 0, index, ones(2), "sum")
    assert {args[4] for args, _ in reduced} == {"sum", "prod", "mean", "amax", "amin"}


def test_dimensions_become_others_together() -> None:
    dims = {(k.get("dim1", 0), k.get("dim2", 1)) for _, k in near(aten.diagonal.default, ones(4, 5, 6))}
    assert any(a % 3 > b % 3 for a, b in dims) and any(a < 0 or b < 0 for a, b in dims)
    orders = {tuple(args[1]) for args, _ in near(aten.permute.default, ones(2, 3, 4), [0, 2, 1])}
    assert len({tuple(d % 3 for d in order) for order in orders}) >= 4


def test_sizes_become_one_and_nothing_in_all_that_have_them() -> None:
    calls = near(aten.mm.default, ones(4, 12), ones(12, 8))
    shapes = {tuple(map(tuple, (a.shape, b.shape))) for (a, b), _ in calls}
    assert ((1, 12), (12, 8)) in shapes and ((0, 12), (12, 8)) in shapes
    assert all(a[1] == b[0] for a, b in shapes)
    added = {(tuple(a.shape), tuple(b.shape)) for (a, b), _ in near(aten.add.Tensor, ones(4, 5), ones(4, 5))}
    assert ((4, 1), (4, 5)) in added or ((1, 5), (4, 5)) in added  # of pointwise operators one alone, too


def test_each_axis_of_a_product_is_one_beside_other_numbers() -> None:
    """Products of one row, of one column and of one term are taken apart each in its own way."""
    calls = near(aten.addmm.default, ones(8), ones(4, 12), ones(12, 8), count=24)
    ones_at = {(a.shape[0] == 1, a.shape[1] == 1, b.shape[1] == 1) for (_, a, b), _ in calls}
    assert {(True, False, False), (False, True, False), (False, False, True)} <= ones_at
    assert any(a.shape[0] == 1 and kwargs for (_, a, _), kwargs in calls)


def test_a_tensor_has_a_dimension_more() -> None:
    shapes = {tuple(args[0].shape) for args, _ in near(aten.sum.dim_IntList, ones(4, 5), [1])}
    assert {len(shape) for shape in shapes} >= {2, 3}
    assert {2, 1} <= {n for shape in shapes if len(shape) == 3 for n in shape}


def test_weights_of_channels_keep_their_size() -> None:
    """Batch norm's kernel does not look at how many there are."""
    two = [ones(2) for _ in range(4)]
    for args, _ in near(aten.native_batch_norm.default, ones(3, 2, 5), *two, True, 0.1, 1e-5):
        assert {t.numel() for t in args[1:5] if t is not None} == {args[0].shape[1]}
        assert None not in args[3:5]  # nor whether there are any


def test_what_need_not_be_given_is_left_out_where_it_is_given() -> None:
    given = {"stride": [2, 2], "padding": [1, 1], "ceil_mode": True, "divisor_override": 2}
    calls = near(aten.avg_pool2d.default, ones(1, 2, 8, 8), [3, 3], count=2 * MANY, **given)
    left = [set(given) - keywords.keys() for _, keywords in calls]
    assert set().union(*left) == set(given) and any({"divisor_override", "stride"} <= one for one in left)
    weights = [args[2:4] for args, _ in near(aten.native_layer_norm.default, ones(2, 3), [3], ones(3), ones(3), 1e-5)]
    assert {(w is None, b is None) for w, b in weights} == {(a, b) for a in (True, False) for b in (True, False)}


def test_tensors_get_other_dtypes_and_strides() -> None:
    made = tensors_in(near(aten.mul.Tensor, ones(4, 5), ones(4, 5)))
    assert {t.dtype for t in made} >= {torch.float16, torch.float64, torch.int64}
    strides = {t.stride() for t in made if t.shape == (4, 5)}
    assert {(1, 4), (10, 2), (0, 1)} <= strides


def test_a_tensor_alone_gets_other_dtypes_too() -> None:
    made = tensors_in(near(aten.prod.default, ones(4, 5), count=2 * MANY))
    assert {t.dtype for t in made} >= {torch.bool, torch.int32, torch.uint8, torch.bfloat16}
    alike = [{t.dtype for t in tensors_in([call])} for call in near(aten.mul.Tensor, ones(4, 5), ones(4, 5))]
    assert any(dtypes.isdisjoint({torch.float32}) for dtypes in alike)


def test_lists_get_an_empty_tensor_and_other_orders() -> None:
    calls = near(aten.cat.default, [ones(2, 3), 2 * ones(2, 3)], 0)
    lists = [args[0] for args, _ in calls]
    assert any(t.shape == (0,) and t.dtype != torch.float32 for given in lists for t in given)
    assert any(len(given) == 2 and given[0].flatten()[:1].eq(2).all() and given[0].numel() for given in lists)


@pytest.mark.parametrize(
    ("overload", "args"),
    [
        (aten.roll.default, (ones(4, 5), [1], [0])),
        (aten.index_put.default, (ones(5, 4), [torch.tensor([0, 3])], ones(2, 4))),
        (aten.softplus.default, (ones(5, 6),)),
        (aten.constant_pad_nd.default, (ones(4, 8), [1, 1])),
    ],
    ids=lambda value: str(value) if isinstance(value, OpOverload) else "",
)
def test_all_of_them_are_taken_and_none_is_the_call_itself(overload: OpOverload, args: tuple[Any, ...]) -> None:
    calls = near(overload, *args, count=20)
    assert 10 <= len(calls) <= 20

    def said(call: Any) -> str:
        shown = lambda v: (v.dtype, v.shape, v.stride()) if isinstance(v, torch.Tensor) else v  # noqa: E731
        return str(torch.utils._pytree.tree_map(shown, call))

    assert len({said(call) for call in calls}) == len(calls) and said((args, {})) not in map(said, calls)
    for given, named in calls:
        assert passes_shape_check(overload, (given[0], [*given[1:]], named))
        overload(*given, **named)


def test_equal_keys_give_equal_calls() -> None:
    one, same, other = (
        [str(kwargs) for _, kwargs in near(aten.softplus.default, ones(3), key=key, count=8)] for key in "aab"
    )
    assert one == same != other


def test_what_is_a_promise_or_one_of_a_few_stays_so() -> None:
    target = torch.zeros(3, dtype=torch.int64)
    for _, named in near(aten.nll_loss.default, ones(3, 4), target):
        assert named.get("reduction", 1) in (0, 1, 2)
    for _, named in near(aten.repeat_interleave.Tensor, torch.tensor([1, 2])):
        assert "output_size" not in named
    assert near(aten.repeat_interleave.Tensor, torch.tensor([1, 2]), output_size=3) == []  # the promise would be broken
    assert not any("implicit" in named for _, named in near(aten.expand.default, ones(1, 3), [2, 3]))


def test_what_torch_alone_calls_is_left_as_it_is() -> None:
    assert near(aten._softmax.default, ones(2, 3), 1, False) == []
    assert near(aten.threshold_backward.default, ones(3), ones(3), 0) == []


def test_what_follows_its_arguments_wherever_they_lead_is_left_alone() -> None:
    lu, pivots = torch.linalg.lu_factor(torch.eye(3))
    assert not near(aten.lu_unpack.default, lu, pivots)


def test_a_number_that_is_told_is_among_indices() -> None:
    places = torch.tensor([5, 1, 6])
    calls = near(aten.embedding.default, ones(10, 4), places, count=3 * MANY)
    met = [(keywords.get("padding_idx", -1), args[1]) for args, keywords in calls if args[1].dtype == torch.int64]
    assert any(number >= 0 and bool((indices == number).any()) for number, indices in met)
    assert any(number == 0 and bool((indices == 0).any()) for number, indices in met)
