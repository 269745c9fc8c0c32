"""Values of input sets under each plan, and which step of a plan a program is judged on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.steps import Steps
from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import InputSet, NotApplicable, flat_storage
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import observe
from fxmorph.programs.values import Grid, Limits, Range, apply_plan, mask_like

pytestmark = pytest.mark.usefixtures("torch_quiet")


def rebuilt(*values: Any) -> list[Any]:
    return InputSet.snapshot(values).rebuild()


def bits(t: torch.Tensor) -> list[int]:
    return flat_storage(t.detach()).view(torch.uint8).tolist()


def planned(plan: ValuePlan, *values: torch.Tensor, seed: int = 0, step: int = 0) -> list[torch.Tensor]:
    out = rebuilt(*values)
    apply_plan(plan, out, seed, step)
    return out


@pytest.mark.parametrize("plan", [ValuePlan.EXACT, ValuePlan.MASK, ValuePlan.NEAR, ValuePlan.LIMITS, ValuePlan.SPECIAL])
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


def test_near_values_are_equal_to_some_or_next_to_them() -> None:
    torch.manual_seed(0)
    given = torch.cat([torch.rand(100) + 1, torch.zeros(4)])
    (x,) = planned(ValuePlan.NEAR, given)
    own = x[torch.isin(x, given)]
    beside = x[~torch.isin(x, given)]
    next_ones = torch.cat([torch.nextafter(given, given + s) for s in (1, -1)])
    assert own.unique().numel() < own.numel() and beside.numel() > 20
    assert bool(torch.isin(beside, next_ones).all()) and float(x[x > 0].min()) >= 0.99  # zeros stay


def test_limits_are_finite_and_keep_the_sign_of_the_seed() -> None:
    signed, positive, mask = planned(
        ValuePlan.LIMITS, torch.randn(500).half(), torch.rand(500), torch.tensor([0.0, 1.0, 0.0])
    )
    assert bool(torch.isfinite(signed).all() & torch.isfinite(positive).all()) and bool((positive >= 0).all())
    tiny = torch.finfo(torch.float16).tiny
    assert bool(((signed != 0) & (signed.abs() < tiny)).any()) and bool(((signed == 0) & signed.signbit()).any())
    assert not bool(positive.signbit().any())
    assert mask.tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_reach_the_limits_of_their_dtype(dtype: torch.dtype) -> None:
    given = torch.arange(100).to(dtype)
    (x,) = planned(ValuePlan.LIMITS, given)
    info = torch.iinfo(dtype)
    assert {info.min, info.max, info.max - 1} <= set(x.tolist()) and int((x == given).sum()) > 50
    with pytest.raises(NotApplicable):
        planned(ValuePlan.LIMITS, given, step=Limits.FLOATS)


NUMBERS = torch.arange(1, 65)


@pytest.mark.parametrize(
    ("fn", "step"),
    [
        (lambda x, i: (i * 3 + 1).clamp(max=5).float() + x, Limits.ALL),
        (lambda x, i: torch.where(i > 7, i, -i).view(8, 8).t().sum(0), Limits.ALL),
        (lambda x, i: i.sort().values.add_(1), Limits.ALL),
        (lambda x, i: x[(i > 7).nonzero()], Limits.ALL),  # truth values choose what is in range
        (lambda x, i: x[i - 1], Limits.FLOATS),
        (lambda x, i: x[i.sort().indices], Limits.FLOATS),
        (lambda x, i: x[(i * 1.0).long() - 1], Limits.FLOATS),
        (lambda x, i: x.new_zeros(i.amin().item()), Limits.FLOATS),
        (lambda x, i: torch.repeat_interleave(x, i), Limits.FLOATS),
        (lambda x, i: 100 // i, Limits.FLOATS),
        (lambda x, i: torch.div(100, i, rounding_mode="floor"), Limits.FLOATS),
        (lambda x, i: torch.ones_like(i).copy_(i) << 1, Limits.FLOATS),
        (lambda x, i: 2**i, Limits.FLOATS),
    ],
)
def test_integers_reach_limits_where_they_are_numbers_alone(fn: Any, step: Limits) -> None:
    assert step_of(ValuePlan.LIMITS, fn, torch.randn(64), NUMBERS) == step


@pytest.mark.parametrize(
    ("fn", "takes"),
    [
        (lambda x, i: x[i], True),
        (lambda x, i: x.index_put((i,), x[: i.numel()]), True),
        (lambda x, i: torch.index_select(x, 0, i), False),
        (lambda x, i: torch.nn.functional.embedding(i, x), False),
        (lambda x, i: torch.gather(x, 0, i[:, None]), False),
    ],
)
def test_indices_become_negative_where_eager_takes_them(fn: Any, takes: bool) -> None:
    values = torch.randn(9, 2), torch.tensor([0, 4, 7, 7, 1, 2, 3])
    if not takes:
        with pytest.raises(NotApplicable):
            step_of(ValuePlan.NEGATIVE, fn, *values)
        return
    assert step_of(ValuePlan.NEGATIVE, fn, *values) == 0
    _, index = planned(ValuePlan.NEGATIVE, *values)
    assert 0 < int((index < 0).sum()) < 7 and int(index.min()) >= -8
    assert bool(((index == values[1]) | (index == values[1] - 8)).all())


# -- steps ---------------------------------------------------------------------


def step_of(plan: ValuePlan, fn: Any, *values: torch.Tensor) -> int:
    def make(step: int) -> Invocation:
        args = planned(plan, *values, step=step)
        return Invocation(fn, args, lambda g: g(*args))

    return Steps().of(plan, make, True)


def test_grids_keep_their_quantum_size_and_sign() -> None:
    values = torch.randn(200), torch.rand(200) + 0.1
    for grid, quantum, most in ((Grid.INTEGERS, 1, 4), (Grid.QUARTERS, 0.25, 1), (Grid.SIGNS, 1, 1)):
        signed, positive = planned(ValuePlan.EXACT, *values, step=grid)
        assert bool((signed.remainder(quantum) == 0).all()) and float(signed.abs().max()) == most
        assert float(positive.min()) >= quantum and bool((signed < 0).any())


@pytest.mark.parametrize(
    ("fn", "grid"),
    [
        (lambda a: (a * a).sum(), Grid.QUARTERS),
        (lambda a: (a * a * a * a).sum(), Grid.INTEGERS),  # a 256th is off the common quantum
        (lambda a: (a * a * a * 2.0**11).sum(), Grid.SIGNS),
        (lambda a: a.exp(), Grid.INTEGERS),  # on none
        (lambda a: a * 0.1, Grid.INTEGERS),
    ],
)
def test_the_finest_grid_on_which_all_is_exact_is_used(fn: Any, grid: Grid) -> None:
    values = torch.randn(200) * 5
    assert step_of(ValuePlan.EXACT, fn, values) == grid


def test_a_program_that_no_values_make_exact_is_run_once() -> None:
    runs = 0

    def counted(a: torch.Tensor) -> torch.Tensor:
        nonlocal runs
        runs += 1
        return a.exp()

    step_of(ValuePlan.EXACT, counted, torch.randn(5))
    assert runs == 1


@pytest.mark.parametrize(
    ("fn", "step"),
    [
        (lambda a: (a * 20).exp(), Range.SMALLER),
        (lambda a: a.log(), Range.POSITIVE),
        (lambda a: (a * 1000).exp(), Range.SMALL),
        (lambda a: a.atanh() + a.log(), Range.INSIDE),
        (lambda a: torch.where(a > 0, -torch.inf, a).log(), None),  # on no step
        (lambda a: a.masked_fill(a > 0, -torch.inf).exp(), None),  # nothing leaves: masks are made so
    ],
)
def test_values_are_changed_until_nothing_leaves_the_range_of_numbers(fn: Any, step: Range | None) -> None:
    values = torch.linspace(-5, 5, 50)
    if step is None:
        with pytest.raises(NotApplicable):
            step_of(ValuePlan.NORMAL, fn, values)
        return
    assert step_of(ValuePlan.NORMAL, fn, values) == step
    assert bool(torch.isfinite(fn(*planned(ValuePlan.NORMAL, values, step=step))).all())


def test_what_masks_hold_stays_when_values_are_brought_into_range() -> None:
    least = torch.finfo(torch.float32).min
    for step in Range:
        bias, mask = planned(
            ValuePlan.NORMAL, torch.tensor([1.0, least, -torch.inf]), torch.tensor([0.0, 1]), step=step
        )
        assert bias[1:].tolist() == [least, -torch.inf] and mask.tolist() == [0, 1]


def test_gradients_are_kept_in_range_too() -> None:
    root = torch.tensor([0.0, 1.0, 4.0, 9.0], requires_grad=True)

    def make(step: int) -> Invocation:
        args = planned(ValuePlan.NORMAL, root, step=step)
        return Invocation(torch.sqrt, args, lambda g: g(*args))

    assert Steps().of(ValuePlan.NORMAL, make, no_grad=False) == Range.POSITIVE
