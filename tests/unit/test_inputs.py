"""Input sets: frozen, rebuilt, and given other values."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from fxmorph.inputs import (
    InputSet,
    NotApplicable,
    Unsupported,
    apply_plan,
    flat_storage,
    mask_like,
    relaid,
    relocate,
    spec_of,
    storage_key,
)
from fxmorph.judge.shadow import ReferenceRun
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.observe import observe

pytestmark = pytest.mark.usefixtures("torch_quiet")


def rebuilt(*values: Any) -> list[Any]:
    return InputSet.snapshot(values).rebuild()


def bits(t: torch.Tensor) -> list[int]:
    return flat_storage(t.detach()).view(torch.uint8).tolist()


def test_strides_and_offsets_are_kept() -> None:
    x = torch.arange(30.0).as_strided((3, 2), (2, 7), 4)
    (y,) = rebuilt(x)
    assert (y.shape, y.stride(), y.storage_offset()) == (x.shape, x.stride(), 4)
    assert bits(y) == bits(x)


def test_expanded_and_channels_last_inputs_stay_so() -> None:
    expanded = torch.ones(3, 1).expand(3, 4)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    a, b = rebuilt(expanded, image)
    assert a.stride() == (1, 0)
    assert b.is_contiguous(memory_format=torch.channels_last)


def test_shared_memory_is_shared_again_and_with_nothing_else() -> None:
    memory = torch.zeros(6)
    a, b, c = rebuilt(memory[:4], memory[2:], torch.zeros(6))
    a[2] = 7
    assert b[0] == 7
    assert storage_key(a) == storage_key(b) != storage_key(c)
    assert memory.tolist() == [0] * 6


def test_two_dtypes_may_share_memory() -> None:
    memory = torch.zeros(4)
    a, b = rebuilt(memory, memory.view(torch.int32))
    a[0] = 1.0
    assert b[0] == 0x3F800000


def test_rebuilding_twice_gives_separate_memory() -> None:
    frozen = InputSet.snapshot([torch.zeros(2)])
    frozen.rebuild()[0].fill_(5)
    assert frozen.rebuild()[0].tolist() == [0, 0]


def test_what_requires_grad_is_a_leaf_again() -> None:
    x = torch.ones(2, requires_grad=True)
    a, b = rebuilt(x * 2, torch.nn.Parameter(torch.ones(2)))
    assert a.requires_grad and a.is_leaf
    assert b.requires_grad and b.is_leaf


def test_conjugate_and_negative_bits_are_kept() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    a, b = rebuilt(z.conj(), z.conj().imag)
    assert a.is_conj() and a.tolist() == [1 - 2j, 3 + 1j]
    assert b.is_neg() and b.tolist() == [-2, 1]


def test_odd_values_keep_their_bits() -> None:
    x = torch.tensor([0.0, -0.0, float("nan"), float("-inf"), 1e-45])
    assert bits(rebuilt(x)[0]) == bits(x)


def test_plain_values_are_copied() -> None:
    options = {"k": [1, 2]}
    (again,) = rebuilt(options)
    again["k"].append(3)
    assert options == {"k": [1, 2]}


def test_what_cannot_be_rebuilt_is_refused() -> None:
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for value in (torch.eye(2).to_sparse(), [torch.ones(1)], quantised):
        with pytest.raises(Unsupported):
            InputSet.snapshot([value])


def test_empty_and_scalar_tensors_survive() -> None:
    a, b = rebuilt(torch.zeros(0, 3), torch.tensor(2.5))
    assert (a.shape, b.shape, float(b)) == ((0, 3), (), 2.5)


def test_specs_give_the_range_of_integers_only() -> None:
    whole, real = spec_of(torch.tensor([3, -1, 7])), spec_of(torch.tensor([3.0]))
    assert (whole.low, whole.high) == (-1, 7)
    assert (real.low, real.high) == (None, None)


# -- plans ---------------------------------------------------------------------


def planned(plan: ValuePlan, *values: torch.Tensor, seed: int = 0) -> list[torch.Tensor]:
    out = rebuilt(*values)
    apply_plan(plan, out, seed)
    return out


@pytest.mark.parametrize("plan", [ValuePlan.EXACT, ValuePlan.MASK, ValuePlan.SPECIAL])
def test_a_plan_is_a_function_of_its_seed(plan: ValuePlan) -> None:
    torch.manual_seed(0)
    values = [torch.randn(100), (torch.rand(50) > 0.5).float()]
    a, b = planned(plan, *values, seed=3), planned(plan, *values, seed=3)
    torch.manual_seed(99)
    c, other = planned(plan, *values, seed=3), planned(plan, *values, seed=4)
    assert [bits(t) for t in a] == [bits(t) for t in b] == [bits(t) for t in c]
    assert [bits(t) for t in a] != [bits(t) for t in other]


def test_seed_plan_changes_nothing() -> None:
    x = torch.randn(5)
    assert bits(planned(ValuePlan.SEED, x)[0]) == bits(x)


def test_exact_values_are_small_integers_of_the_seeds_sign() -> None:
    signed, positive = planned(ValuePlan.EXACT, torch.randn(200), torch.rand(200) + 0.1)
    assert bool((signed == signed.round()).all()) and bool((signed.abs() <= 4).all()) and bool((signed < 0).any())
    assert bool((positive >= 1).all())


def test_exact_values_of_small_tensors_are_distinct() -> None:
    (x,) = planned(ValuePlan.EXACT, torch.randn(6, 7))
    assert len(set(x.flatten().tolist())) == 42


def test_exact_leaves_indices_alone_and_keeps_masks_masks() -> None:
    index, mask = torch.tensor([0, 3, 1]), torch.tensor([0.0, 1.0, 1.0, 0.0])
    got = planned(ValuePlan.EXACT, torch.randn(4), index, mask)
    assert got[1].tolist() == [0, 3, 1]
    assert set(got[2].tolist()) <= {0.0, 1.0}


def test_exact_writes_shared_memory_consistently() -> None:
    memory = torch.randn(8)
    a, b = planned(ValuePlan.EXACT, memory[:6], memory[3:])
    assert a[3:].tolist() == b[:3].tolist()


def test_mask_changes_masks_only() -> None:
    data, index, mask = torch.randn(20), torch.arange(20), (torch.arange(20) % 2).long()
    got = planned(ValuePlan.MASK, data, index, mask)
    assert bits(got[0]) == bits(data)
    assert bits(got[1]) == bits(index)
    assert bits(got[2]) != bits(mask)
    assert set(got[2].tolist()) - {0, 1}


def test_mask_masks_one_row_fully_and_bool_stays_bool() -> None:
    (mask,) = planned(ValuePlan.MASK, torch.rand(4, 30) > 0.5)
    assert mask.dtype == torch.bool
    assert not bool(mask[0].any())


@pytest.mark.parametrize(
    ("plan", "value"),
    [
        (ValuePlan.MASK, torch.randn(5)),
        (ValuePlan.EXACT, torch.arange(5)),
        (ValuePlan.SPECIAL, torch.arange(5)),
        (ValuePlan.MASK, torch.zeros(5)),
    ],
)
def test_a_plan_with_nothing_to_change_says_so(plan: ValuePlan, value: torch.Tensor) -> None:
    with pytest.raises(NotApplicable):
        planned(plan, value)


def test_special_values_hold_the_edges_of_the_dtype() -> None:
    (x,) = planned(ValuePlan.SPECIAL, torch.ones(2000, dtype=torch.float16))
    assert bool(x.isnan().any()) and bool(x.isinf().any()) and bool((x == torch.finfo(torch.float16).max).any())
    assert bool(((x == 0) & x.signbit()).any())


def test_masks_are_told_from_data() -> None:
    assert mask_like(torch.tensor([0, 1, 1]))
    assert mask_like(torch.tensor([True, True]))
    for t in (torch.tensor([0, 1, 2]), torch.zeros(3), torch.ones(3), torch.tensor([1.0]), torch.tensor([0.5, 1.0])):
        assert not mask_like(t)


# -- exact plan in the reference run -------------------------------------------


def gates_of(fn: Any, *values: torch.Tensor) -> Any:
    run = ReferenceRun()
    args = list(values)
    observe(Invocation(fn, args, lambda g: g(*args)), lambda f: f, mode=run, keep=run.keep, no_grad=True)
    return run.gates


def linear_graph(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a @ b).sum(0) - (2 * a).sum()


def test_exact_inputs_make_a_matmul_and_sum_exact() -> None:
    values = torch.randn(8, 16), torch.randn(16, 4)
    assert gates_of(linear_graph, *planned(ValuePlan.EXACT, *values)).exact
    assert not gates_of(linear_graph, *values).exact


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: (a / 3).sum(),
        lambda a: a.exp(),
        lambda a: a.mean(0),
        lambda a: torch.softmax(a, 0),
        lambda a: (a * 2**21).sum(),
        lambda a: a * 0.1,
    ],
)
def test_exact_inputs_do_not_make_every_graph_exact(fn: Any) -> None:
    gates = gates_of(fn, *planned(ValuePlan.EXACT, torch.randn(200)))
    assert not gates.exact
    assert gates.inexact_because


def test_a_sum_that_is_exact_in_eagers_order_alone_is_not_exact() -> None:
    # (2^24 + 1) - 2^24 is 0 in float32 and 1 in any wider or reordered sum.
    x = torch.tensor([2.0**24, 1.0, -(2.0**24)])
    assert not gates_of(lambda x: x.sum(), x).exact


def test_other_layouts_hold_the_same_values() -> None:
    x, leaf, base = torch.arange(24.0).reshape(2, 3, 4), torch.ones(3, 5, requires_grad=True), torch.arange(6)
    given = [x, leaf, base, base[2:], torch.ones(1, 3).expand(2, 3), 7, torch.tensor(3.0)]
    changed = 0
    for k in range(8):
        made = relaid(given, random.Random(k))
        assert all(torch.equal(a, b) for a, b in zip(made, given, strict=True) if isinstance(a, torch.Tensor))
        assert made[2] is base and made[4] is given[4] and made[5] == 7
        assert made[1].requires_grad and made[1].is_leaf
        changed += made[0].stride() != x.stride()
    assert changed >= 4


def test_dtype_conversion_keeps_layout_sharing_and_integers() -> None:
    base = torch.arange(12.0)
    x, y, n = relocate([base.as_strided((3, 2), (1, 6), 2), base[4:], torch.arange(3)], "cpu", torch.float16)
    assert (x.dtype, x.stride(), x.storage_offset(), n.dtype) == (torch.float16, (1, 6), 2, torch.int64)
    y[0] = 100
    assert x[2, 0] == 100
