"""The reference run: fp64 beside the native program, and the gates that it checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.judge.integers import IntegerWatch
from fxmorph.judge.numeric import compare
from fxmorph.judge.reference.gates import Gates, check_operands
from fxmorph.judge.reference.operator_call import operator_call
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.shadows import Shadows, differ_in_fp64
from fxmorph.judge.reference.uninitialised import FillEmpty
from fxmorph.judge.trial import _behind_gates
from fxmorph.judge.value_search import RangeWatch
from fxmorph.model import Kind, Status, ValuePlan, Verdict, VerdictCode
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation, observe

pytestmark = pytest.mark.usefixtures("torch_quiet")


def reference(fn: Callable[..., Any], *args: Any, no_grad: bool = True) -> tuple[Observation, Any]:
    run = ReferenceRun()
    made = Invocation(fn, list(args), lambda g: g(*args))
    seen = observe(made, lambda f: f, mode=run, keep=run.keep, no_grad=no_grad)
    assert not seen.raised, seen.raised
    return seen, run.gates


def lanes(fn: Callable[..., Any], *args: Any, slot: str = "out0") -> dict[str, torch.Tensor]:
    shadows = reference(fn, *args)[0].slots()[slot].value
    assert isinstance(shadows, Shadows)
    return shadows.lanes


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x: (x.sin() + 2) * x.exp(),
    "reduction": lambda x: x.softmax(1).sum(0),
    "views": lambda x: (x.mT[1:] * 3).reshape(-1)[::2],
    "write into a view": lambda x: (lambda y: (y[1].mul_(0.1), y)[1])(x.clone().mT.contiguous()),
    "chained writes": lambda x: x.clone().mul_(0.3).add_(x[0]),
    "out": lambda x: torch.mul(x, 0.1, out=torch.zeros_like(x)),
    "matmul": lambda x: x @ x.mT,
    "cat of views": lambda x: torch.cat([x[:1], x[1:]]) / 3,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_wide_lane_is_the_program_in_float64(name: str) -> None:
    x = normal(4, 4)
    wide = lanes(PROGRAMS[name], x)["wide"]
    expected = PROGRAMS[name](x.double())
    assert wide.dtype == torch.float64
    torch.testing.assert_close(wide, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_perturbed_lanes_spread_about_as_far_as_eager_errs(name: str) -> None:
    x = normal(4, 4)
    got = lanes(PROGRAMS[name], x)
    spread = torch.stack([(got[f"wide:{k}"] - got["wide"]).abs() for k in range(4)]).amax()
    assert 0 < float(spread) < 1e-4


def test_the_native_values_are_eagers_own() -> None:
    x = normal(5, 5)
    shadows = reference(lambda x: x.softmax(0), x)[0].slots()["out0"].value
    assert torch.equal(shadows.native, x.softmax(0))


def test_explicit_casts_round_in_the_cast_lane_alone() -> None:
    got = lanes(lambda x: (x * 1.1).bfloat16().float(), normal(100))
    x = normal(100).double() * 1.1
    torch.testing.assert_close(got["wide"], x, rtol=1e-6, atol=1e-7)
    assert float((got["cast"] - x).abs().max()) > 1e-3
    torch.testing.assert_close(got["cast"], x.bfloat16().double(), rtol=1e-2, atol=0)


def test_shadows_follow_writes_through_aliases() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        view = y.view(-1)[::2]
        view.mul_(1 / 3)
        return y + 0

    x = normal(4, 4)
    torch.testing.assert_close(lanes(fn, x)["wide"], fn(x.double()), rtol=1e-7, atol=1e-8)


def test_inputs_after_the_call_and_gradients_have_shadows() -> None:
    x, w = normal(4), normal(4).requires_grad_()

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.mul_(1 / 3)
        return (w.sin() * x).sum()

    slots = reference(fn, x, w, no_grad=False)[0].slots()
    torch.testing.assert_close(slots["after:input0"].value.lanes["wide"], normal(4).double() / 3, rtol=1e-7, atol=1e-8)
    gradient = slots["grad:input1"].value
    ratio = gradient.lanes["wide"] / (w.detach().double().cos() * normal(4).double() / 3)
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio[0])), rtol=1e-6, atol=0)


def test_zeros_that_autograd_makes_without_memory_have_shadows() -> None:
    x, y = normal(4, 6).requires_grad_(), normal(4, 6).requires_grad_()
    seen, _ = reference(lambda x, y: x.abs() * y.sgn(), x, y, no_grad=False)
    shadows = seen.slots()["grad:input1"].value
    assert isinstance(shadows, Shadows) and not any(bool(lane.any()) for lane in shadows.lanes.values())
    for mode in (RangeWatch(), IntegerWatch([]), FillEmpty(1)):
        made = Invocation(lambda x, y: x.abs() * y.sgn(), [x, y], lambda g: g(x, y))
        assert not observe(made, lambda f: f, mode=mode).raised


def test_ties_are_broken_both_ways() -> None:
    got = lanes(lambda x: x.kthvalue(3).indices, torch.tensor([1.0, 3.0, 3.0]))
    assert {int(got["tie:+"]), int(got["tie:-"])} == {1, 2}


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinities_and_nans_are_equal_for_sorts(value: float) -> None:
    got = lanes(lambda x: x.sort(0).indices, torch.tensor([value, 1.0, value, value, 2.0]))
    assert not torch.equal(got["tie:+"], got["tie:-"])
    ranks = torch.tensor([value, 1.0, value, value, 2.0])
    for lane in got.values():
        assert torch.equal(ranks[lane].nan_to_num(9.0), ranks.sort(0).values.nan_to_num(9.0))


def test_the_first_of_equals_is_promised() -> None:
    got = lanes(lambda x: x.argmax(0), torch.tensor([1.0, 3.0, 3.0]))
    assert {int(lane) for lane in got.values()} == {1}


def test_distinct_values_have_no_ties() -> None:
    got = lanes(lambda x: x.argmax(0), torch.tensor([1.0, 3.0, 2.0]))
    assert {int(lane) for lane in got.values()} == {1}


def overlapping(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.as_strided((3, 2), (1, 1)).copy_(torch.ones(3, 2))
    return y


def normalised_around_itself(x: torch.Tensor) -> torch.Tensor:
    """The kernel writes running statistics into memory that it also reads."""
    y = x.repeat(8).reshape(8, 4).clone()
    return torch.nn.functional.batch_norm(y, y[7], y[7].clone(), training=True)


LAST_DOWN = torch.tensor([[0.0, 1, 1, 2], [1, 0, 2, 3]])
GATES: dict[str, tuple[str, Any, Callable[[torch.Tensor], Any]]] = {
    "random numbers": ("random", True, lambda x: x + torch.rand(4)),
    "uninitialised memory": ("uninitialised", True, lambda x: torch.empty(4).copy_(x)),
    "max_unpool2d to one place": (
        "duplicate_indices", "max_unpool2d",
        lambda x: torch.ops.aten.max_unpool2d(x[:2].reshape(1, 1, 2), torch.tensor([[[3, 3]]]), [2, 4]),
    ),
    "scatter to one place": ("duplicate_indices", "scatter", lambda x: x.scatter(0, torch.tensor([1, 1]), x[:2])),
    "boundaries in no order": ("unordered_boundaries", "bucketize", lambda x: torch.bucketize(x, -x)),
    "the last row in no order": (
        "unordered_boundaries", "searchsorted", lambda x: torch.searchsorted(LAST_DOWN, LAST_DOWN + x[0])
    ),
    "overlapping write": ("overlapping_write", "copy_", overlapping),
    "write into another operand": ("overlapping_write", "native_batch_norm", normalised_around_itself),
    "overflow of half": ("overflow", True, lambda x: (x * 0 + 300).half() * (x * 0 + 300).half()),
    "half": ("low_precision", True, lambda x: x.half() + 1),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_noticed(name: str) -> None:
    gate, value, fn = GATES[name]
    x = torch.arange(4.0)
    assert getattr(reference(fn, x)[1], gate) == value
    assert not getattr(reference(lambda x: x * 2, torch.arange(4.0))[1], gate)


@pytest.mark.parametrize("kernel", ["flash", "efficient", "cudnn"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_how_much_attention_draws_is_its_kernels_matter(kernel: str, dropout: float) -> None:
    q, gates = torch.ones(1, 2, 4, 8), Gates()
    func = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention").default
    between = () if kernel == "flash" else (None, False)
    check_operands(gates, operator_call(func, (q, q, q, *between, dropout), {}))
    for kind in (Kind.RNG, Kind.VALUE):
        accused = Verdict(Status.FINDING, kind, "call", "")
        excused = _behind_gates(accused, ValuePlan.SEED, gates, lambda: True).code is VerdictCode.DRAWN_BY_KERNEL
        assert excused is (kind is Kind.RNG and dropout > 0)


def test_a_gate_lies_before_what_comes_of_it_alone() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        big = (x * 1e30).mul(1e30)
        y[:2] = big[:2]
        return big + 1, x * 2, y.sin()

    def branching(x: torch.Tensor) -> torch.Tensor:
        return x.abs() if bool((x * 1e30 * 1e30 > 0).any()) else x

    seen, gates = reference(program, torch.ones(4), torch.ones(4))
    kept = [slot.value.closed for slot in seen.outputs]
    assert gates.overflow and kept == [{"overflow"}, set(), {"overflow", "rounds_freely"}]
    assert not gates.around(kept[1]).overflow and gates.around(kept[2]).overflow
    seen, _ = reference(branching, torch.ones(4))
    assert seen.outputs[0].value.closed == {"overflow"}


def test_a_short_range_is_that_of_what_was_computed_in_it() -> None:
    seen, gates = reference(lambda x: (x.half().float() * 2, x.log()), torch.zeros(4))
    ranges = [gates.around(slot.value.closed).low_precision for slot in seen.outputs]
    assert gates.low_precision and ranges == [True, False]


DRAWN: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "of a size": (lambda x: torch.randn_like(x.sin()), False),
    "of numbers": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), False),
    "in the place of others": (lambda x: x.sin().exponential_(), False),
    "of chances": (lambda x: torch.bernoulli(x.sigmoid()), False),
    "of coarse chances": (lambda x: torch.bernoulli(x.sigmoid().bfloat16() * 0.9).float(), True),
    "of rounded numbers, by another generator": (lambda x: torch.normal(x.sin(), 1.0), True),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_hangs_on_values_that_are_read(name: str) -> None:
    fn, lost = DRAWN[name]
    torch.manual_seed(0)
    seen, gates = reference(lambda x: (fn(x) * 0.1, x.sin()), normal(5, 7))
    closed = [slot.value.closed for slot in seen.outputs]
    assert ("random_values" in closed[0]) == lost == gates.random_values and "random_values" not in closed[1]
    for lane in seen.outputs[0].value.lanes.values():
        torch.testing.assert_close(lane.float(), seen.outputs[0].value.native, rtol=1e-5, atol=1e-5)


AMONG_THREE = torch.arange(35).reshape(5, 7) % 3
EXTREMES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "amax": lambda x: x.amax(1),
    "amin of all": lambda x: x.amin(),
    "max of all": lambda x: x.max(),
    "aminmax": lambda x: torch.stack(x.aminmax(dim=0)),
    "both dimensions": lambda x: x.unsqueeze(2).amax((0, 1)),
    "norm": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1),
    "by an index": lambda x: x.new_zeros(5, 3).scatter_reduce(1, AMONG_THREE, x, "amax", include_self=False),
    "rows by an index": lambda x: x.new_full((3, 7), -9.0).index_reduce(0, AMONG_THREE[0, :5], x, "amax"),
    "in the program": lambda x: torch.where(x.amax(1, keepdim=True) <= x, x, 0.0),
}


# A norm of 16 bits is rounded once more than what it is compared with.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float32) for name in EXTREMES), *((n, torch.bfloat16) for n in EXTREMES if n != "norm")],
)
def test_some_element_is_the_extreme_however_it_is_rounded(name: str, dtype: torch.dtype) -> None:
    x = normal(5, 7, dtype=dtype).requires_grad_()
    shadows = reference(lambda x: EXTREMES[name](x.sin() * 1.1), x, no_grad=False)[0].slots()["grad:input0"].value
    wide = shadows.lanes["wide"]
    assert wide.count_nonzero() > 0
    for lane in shadows.lanes.values():
        if dtype is torch.float32:
            torch.testing.assert_close(lane, wide, rtol=1e-5, atol=1e-6)
        assert lane.isfinite().all()


def test_a_number_that_is_as_large_by_chance_is_no_extreme() -> None:
    x = torch.linspace(0.1, 1.0, 12)
    got = lanes(lambda x: (lambda y: y == y.amax())(x * 1.1), x)
    assert all(bool(lane.any()) for lane in got.values())
    got = lanes(lambda x: x * 1.1 == torch.tensor(float((x * 1.1).amax())), x)
    assert any(not lane.any() for lane in got.values())


def test_operands_of_any_shapes_are_compared_beside_their_shadows() -> None:
    x = normal(5).sin()
    for other in (x.amax(), x[None], x[:, None], x[:1], x.expand(3, 5), x[None, :, None]):
        assert torch.equal(lanes(lambda a, b: a == b, x, other)["wide"], x == other)


def test_logarithms_of_running_sums_are_rounded_by_what_they_are() -> None:
    x = normal(4, 30).requires_grad_()
    seen, _ = reference(lambda x: x.logcumsumexp(1), x, no_grad=False)
    for name in ("out0", "grad:input0"):
        shadows = seen.slots()[name].value
        for lane in shadows.lanes.values():
            torch.testing.assert_close(lane, shadows.lanes["wide"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["sum", "mean", "cumsum"])
def test_a_sum_with_an_infinite_term_is_infinite_in_any_order(name: str) -> None:
    x = torch.cat([normal(3, 20).sin(), torch.full((3, 1), -math.inf)], 1)
    got = lanes(lambda x: getattr(x * 1.1, name)(1)[..., -1:], x)
    assert all(bool((lane == -math.inf).any()) and not lane.isnan().any() for lane in got.values())


def test_what_is_as_large_but_for_rounding_may_be_the_extreme_too() -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 1.1
        pair = torch.stack([y, y * (1 + 2**-23)])
        return (pair == pair.amax(0)).float()

    shadows = reference(chosen, normal(3).abs() + 0.1)[0].slots()["out0"].value
    counts = [lane.sum(0) for lane in shadows.lanes.values()]
    assert all(bool((count >= 1).all()) for count in counts)
    assert any(bool((count == 2).any()) for count in counts) and any(bool((count == 1).any()) for count in counts)


def test_equal_writes_to_one_place_and_accumulation_are_defined() -> None:
    x = torch.arange(4.0)
    for fn in (
        lambda x: x.scatter(0, torch.tensor([1, 1]), torch.ones(2)),
        lambda x: x.index_put((torch.tensor([1, 1]),), x[:2], accumulate=True),
        lambda x: x.scatter_add(0, torch.tensor([1, 1]), x[:2]),
    ):
        assert reference(fn, x)[1].duplicate_indices == ""


def test_boundaries_in_an_order_are_defined() -> None:
    down, last = torch.tensor([3.0, 2.0, 2.0, -1.0]), torch.tensor([0.0, 1.0, float("nan")])
    for fn in (
        lambda x: torch.bucketize(x, down.flip(0)),
        lambda x: torch.searchsorted(down, x, sorter=down.argsort()),
        lambda x: torch.searchsorted(last, x, side="right"),
        lambda x: torch.bucketize(x, x[:0]),
        lambda x: torch.searchsorted(torch.stack([x, x + 1]), LAST_DOWN),
    ):
        assert reference(fn, torch.arange(4.0))[1].unordered_boundaries == ""


def test_writes_to_two_views_of_one_memory_are_defined() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:2].add_(1)
        y[2:].mul_(2)
        y[:2].add_(y[2:])
        return y.mul_(y).add_(y[:])

    assert reference(fn, torch.arange(4.0))[1].overlapping_write == ""
    half = 1 << 17
    assert reference(lambda x: x[:half].add_(x[half:]), torch.ones(2 * half))[1].overlapping_write == ""


def test_writes_to_memory_between_which_none_is_shared_are_defined() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.clone().as_strided((3, 2), (2, 3)).mul_(2)  # 0 3 2 5 4 7
        return x

    assert reference(fn, torch.arange(8.0))[1].overlapping_write == ""


def test_bits_of_what_nothing_rounded_are_exact() -> None:
    x = torch.arange(4, dtype=torch.float32)
    _, gates = reference(lambda x: x.view(torch.int32) + 1, x)
    assert gates.exact and not gates.bit_cast


def test_a_view_as_bits_and_back_loses_nothing() -> None:
    def through(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.1
        return y.view(torch.int32).view(torch.float32) * 3

    assert not reference(through, normal(50))[1].bit_cast
    found = lanes(through, normal(50))
    assert bool(((found["wide:0"] - found["wide"]).abs() > 0).any())


@pytest.mark.parametrize("how", ["computed", "returned", "written"])
def test_bits_that_are_used_are_told(how: str) -> None:
    def bits(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.1
        seen = y.view(torch.int32)
        if how == "returned":
            return seen
        if how == "written":
            seen.bitwise_and_(-2)
            return y
        return (seen ^ 1).view(torch.float32)

    assert reference(bits, normal(50))[1].bit_cast


@pytest.mark.parametrize("pick", ["max", "sort", "topk", "cummax", "median"])
def test_breaking_ties_moves_indices_and_no_values(pick: str) -> None:
    call = {"topk": lambda x: x.topk(2, 1)}.get(pick, lambda x: getattr(x, pick)(1))
    x = normal(6, 5, dtype=torch.float64)
    found = lanes(lambda x: call(x)[0], x)
    assert torch.equal(found["tie:+"], found["wide"])
    assert torch.equal(found["tie:-"], found["wide"])


def test_indices_with_ties_differ_between_the_tie_lanes() -> None:
    found = lanes(lambda x: x.kthvalue(2, 1)[1], torch.ones(3, 4))
    assert not torch.equal(found["tie:+"], found["tie:-"])


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "var"])
def test_kernels_in_float64_spread_as_float64_rounds(name: str) -> None:
    kernels: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "softmax": lambda x: x.softmax(1),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
        "var": lambda x: x.var(1),
    }
    found = lanes(kernels[name], normal(8, 9, dtype=torch.float64))
    spread = max(float((found[f"wide:{k}"] - found["wide"]).abs().max()) for k in range(4))
    assert 0 < spread < 1e-12


def test_memory_that_was_left_uninitialised_stays_reserved() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            torch.empty_like(x)  # dies at once: its address must not come to mean the next tensor
            x = (x * 1.1).sin()
        return x

    for _ in range(5):
        found = lanes(program, normal(64))
        assert float((found["wide"] - program(normal(64)).double()).abs().max()) < 1e-5


def test_looking_at_the_memory_around_an_input_leaves_its_shadows() -> None:
    base = normal(12)
    seen, gates = reference(lambda x: x.mul_(0.3).sum(), base[2:8])
    assert not gates.uninitialised
    for name in ("after:input0", "after:memory:input0"):
        found = seen.slots()[name].value
        assert not torch.equal(found.lanes["wide:0"], found.lanes["wide"])


def _in_fp64(*values: float) -> Shadows:
    wide = torch.tensor(values, dtype=torch.float64)
    return Shadows(wide.float(), {"wide": wide, "cast": wide, "tie:+": wide, "tie:-": wide})


def test_two_programs_are_compared_in_fp64_element_by_element_if_strict() -> None:
    mine = _in_fp64(-3.4e38, 1.0, 0.0, 64.0)
    assert differ_in_fp64(mine, _in_fp64(-3.4e38, 1.0 + 1e-9, 1e-14, 64.0), strict=True) is False
    assert differ_in_fp64(mine, _in_fp64(-3.4e38, 1.1, 0.0, 64.0), strict=True) is True
    assert differ_in_fp64(mine, _in_fp64(-3.4e38, 1.1, 0.0, 64.0)) is False  # small beside the mask
    assert differ_in_fp64(None, mine) is None


def two_values(n: int) -> torch.Tensor:
    """Every other one of two values, of one size in a column, the rest beside them near zero."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 64, generator=g) * 1e-3
    x[::2] = (torch.randint(0, 2, (n // 2, 64), generator=g) * 2 - 1) * (1 + torch.rand(64, generator=g))
    return x


def running_variance(x: torch.Tensor) -> torch.Tensor:
    """Around a running mean, down columns (Welford 1962), each operation rounded."""
    mean, squares = torch.zeros_like(x[0]), torch.zeros_like(x[0])
    for k, row in enumerate(x, 1):
        ahead = row - mean
        mean = mean + ahead * (1 / k)
        squares = squares + ahead * (row - mean)
    return squares / len(x)


def variance_one_by_one(x: torch.Tensor) -> torch.Tensor:
    """Of squares that are summed one after the other."""
    squares = torch.zeros_like(x[0])
    for ahead in x - x.mean(0):
        squares = squares + ahead * ahead
    return squares / len(x)


RAMP = torch.arange(3000.0).repeat_interleave(16).reshape(3000, 16)


@pytest.mark.parametrize("computed", [running_variance, variance_one_by_one])
@pytest.mark.parametrize(
    "x",
    [
        pytest.param(RAMP, id="ramp"),
        pytest.param(RAMP + 3e4, id="ramp far from zero"),
        pytest.param(RAMP / 7 + 0.1, id="ramp of sevenths"),
        pytest.param(two_values(6000), id="two values"),
    ],
)
def test_a_variance_may_be_summed_in_any_way(
    computed: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> None:
    def variance(x: torch.Tensor) -> torch.Tensor:
        return x.var(0, correction=0)

    seen, gates = reference(variance, x)
    shadows = seen.slots()["out0"].value
    assert compare(variance(x), computed(x), shadows, gates).status is Status.CLEAN
    assert compare(variance(x), 1.01 * computed(x), shadows, gates).status is Status.FINDING


@pytest.mark.parametrize(
    "sum_of", [lambda x: x.nansum(1), lambda x: x.sum(), lambda x: x.mean((0, 1)), lambda x: x[:0].sum(0)]
)
def test_sums_of_any_shape_are_perturbed(sum_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    found = lanes(sum_of, normal(6, 5))
    assert all(lane.shape == sum_of(normal(6, 5)).shape for lane in found.values())


@torch.library.custom_op("fxmorph_test::single", mutates_args=())
def single(x: torch.Tensor) -> torch.Tensor:
    """An operator that has no fp64 kernel."""
    if x.dtype != torch.float32:
        raise RuntimeError("only for float32")
    return x * 2


def test_what_moves_the_operands_of_an_opaque_operator_moves_its_result() -> None:
    def cancelling(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.1 + 1e5) - 1e5

    before, after = (lanes(fn, normal(50)) for fn in (cancelling, lambda x: single(cancelling(x))))
    spread = [float((found["wide:0"] - found["wide"]).abs().median()) for found in (before, after)]
    assert spread[1] > spread[0]


def test_an_opaque_operator_takes_rows_in_the_order_of_its_lane() -> None:
    def by_expert(x: torch.Tensor) -> torch.Tensor:
        order = (x[:, 0] > 0).long().argsort()  # ties, as among the tokens of one expert
        return single(x[order])[order.argsort()]

    found = lanes(by_expert, normal(12, 4))
    for tie in ("tie:+", "tie:-"):
        assert float((found[tie] - found["wide"]).abs().max()) < 1e-6


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings_have_a_reference(mode: str) -> None:
    """What the kernel keeps for its backward pass has another shape in float64."""
    table = torch.randn(9, 4, requires_grad=True)
    run = ReferenceRun()
    with run:
        out = torch.nn.functional.embedding_bag(torch.tensor([1, 2, 4, 8, 8]), table, torch.tensor([0, 3]), mode=mode)
        (grad,) = torch.autograd.grad(out.sum(), table)
        assert len(run.keep(grad).lanes) == 12
    assert not run.gates.undecided
