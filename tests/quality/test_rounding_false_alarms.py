"""Roundings that look like errors: what cancels, what is stored beside what is computed again, what is 0 by luck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fxmorph.judge.reference import rounding
from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def accused(verdicts: list[Any]) -> list[Any]:
    return [v for v in verdicts if v.status is Status.FINDING]


# -- gradients of a softmax: products that cancel ---------------------------------------


def softmax_and_back(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, 1)
    return torch.ops.aten._softmax_backward_data(grad, p, 1, x.dtype)


def other_roundings(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The same formula, the sum's reciprocal multiplied, and the terms of the sum added from the other end."""
    e = (x - x.amax(1, keepdim=True)).exp()
    p = e * (1 / e.flip(1).sum(1, keepdim=True))
    return grad * p - p * (grad * p).flip(1).sum(1, keepdim=True)


@pytest.mark.parametrize("seed", range(12))
def test_products_that_cancel_are_judged_as_they_round(seed: int, judged: Any) -> None:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(-4, 5, (8, 3, 130), generator=draw).float()
    grad = torch.randint(-16, 17, (8, 3, 130), generator=draw) / 8
    assert not accused(judged(softmax_and_back, other_roundings, [x, grad]))


def test_a_wrong_gradient_of_a_softmax_is_still_seen(judged: Any) -> None:
    x, grad = torch.randint(-4, 5, (8, 3, 130)).float(), torch.randint(-16, 17, (8, 3, 130)) / 8
    assert accused(judged(softmax_and_back, lambda *g: other_roundings(*g) * (1 + 3e-6), [x, grad]))


# -- 16-bit numbers that are selected and stored, beside the same computed again ---------

SELECTIONS: dict[str, Program] = {
    "amin": lambda t: t.amin(0, keepdim=True),
    "amax": lambda t: t.amax(1, keepdim=True),
    "max": lambda t: t.max(0, keepdim=True).values,
    "sort": lambda t: t.sort(0).values[:1],
    "index": lambda t: t[torch.tensor([1, 0])][:1],
    "cat": lambda t: torch.cat([t, t])[-1:],
    "maximum": lambda t: torch.maximum(t, t.flip(0)),
    "where": lambda t: torch.where(t > 0, t, -t),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_selected_may_be_stored(name: str, dtype: torch.dtype, judged: Any) -> None:
    select = SELECTIONS[name]

    def program(x: torch.Tensor) -> torch.Tensor:
        t = torch.erf(x)
        return t - select(t)

    def fused(x: torch.Tensor, off: float = 0.0) -> torch.Tensor:
        t = torch.erf(x.float())
        return (t + off - select(t).to(dtype).float()).to(dtype)

    x = normal(6, 40).to(dtype)
    assert not accused(judged(program, fused, [x]))
    assert accused(judged(program, lambda x: fused(x, 0.1), [x]))


def test_what_no_rounding_reached_is_selected_exactly(judged: Any) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x - torch.nextafter(x.amin(0, keepdim=True), torch.tensor(9.0, dtype=x.dtype))

    x = normal(6, 40).to(torch.bfloat16)
    assert accused(judged(lambda x: x - x.amin(0, keepdim=True), wrong, [x]))


# -- logarithms of sums near 1 -------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_logarithm_of_a_sum_that_is_one_may_be_zero(dtype: torch.dtype, judged: Any) -> None:
    x = torch.tensor([-1.0, -1.0, -2.0, -0.5], dtype=dtype)
    y = torch.tensor([-1.0, -1.0000001, -0.4150374992788438, -1.7715533031636], dtype=dtype)

    def direct(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.log2(torch.exp2(x) + torch.exp2(y))

    assert not accused(judged(torch.logaddexp2, direct, [x, y]))
    assert accused(judged(torch.logaddexp2, lambda x, y: direct(x, y) + 1e-5, [x, y]))


# -- decimals ------------------------------------------------------------------------------


def test_rounding_to_decimals_may_be_off_in_the_last_place(judged: Any) -> None:
    x = torch.tensor([-1.5, 0.75, -0.75, 2.25, 0.125])

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x * 1000).round() * 0.001

    assert not accused(judged(lambda x: torch.round(x, decimals=3), scaled, [x]))
    assert accused(judged(lambda x: torch.round(x, decimals=1), lambda x: x.clone(), [x]))
    assert accused(judged(torch.round, lambda x: x.round() + 1e-7, [x]))


# -- sums of large terms that cancel ------------------------------------------------------


def large_that_cancel() -> torch.Tensor:
    x = normal(4, 32)
    x[1, 2], x[1, 3], x[0, 4] = 3e18, -3e18, torch.nan
    return x


SUMS: dict[str, Program] = {
    "nansum": lambda x: torch.nansum(x, 1),
    "nanmean": lambda x: torch.nanmean(x, 1),
    "avg_pool2d": lambda x: torch.nn.functional.avg_pool2d(x[1:].view(1, 1, 3, 32), (1, 16)),
    "trace": lambda x: torch.trace(x[1:2].nan_to_num().t() @ torch.ones(1, 32)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_large_terms_that_cancel_are_judged_by_their_terms(name: str, judged: Any) -> None:
    program = SUMS[name]

    def turned(x: torch.Tensor) -> torch.Tensor:
        """The same terms, added from the other end."""
        return program(x.flip(1)).flip(-1) if name == "avg_pool2d" else program(x.flip(1))

    undecided = (Status.FINDING, Status.INCONCLUSIVE)
    assert not [v for v in judged(program, turned, [large_that_cancel()]) if v.status in undecided]
    assert accused(judged(program, lambda x: program(x) * 1.001 + 1e16, [large_that_cancel()]))


# -- a spread of nothing, over nothing ----------------------------------------------------


def two_pass_variance(x: torch.Tensor, correction: int) -> torch.Tensor:
    """Around a mean that is rounded: the squares of what is all the same are not quite 0."""
    mean = x.sum(1, keepdim=True) * torch.tensor(1 / x.shape[1], dtype=x.dtype)
    return (x - mean).square().sum(1) / max(x.shape[1] - correction, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.7, 1e6 + 0.3, -3.1])
def test_the_spread_of_what_is_all_the_same_over_no_degrees_of_freedom(
    dtype: torch.dtype, value: float, judged: Any
) -> None:
    x = torch.full((4, 1), value, dtype=dtype).expand(4, 6) + torch.zeros(1, dtype=dtype)
    seen = judged(lambda x: x.var(1, correction=6), lambda x: two_pass_variance(x, 6), [x])
    assert not accused(seen)


def test_a_number_over_no_degrees_of_freedom_is_still_seen(judged: Any) -> None:
    x = torch.full((4, 6), 0.7)
    assert accused(judged(lambda x: x.var(1, correction=6), lambda x: two_pass_variance(x, 5) * 0, [x]))


def test_infinity_for_a_number_that_is_none_is_still_seen(judged: Any) -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 4.0]])
    assert accused(judged(lambda x: x.sqrt() - x, lambda x: x.sqrt() - x + (x == 4) * float("inf"), [x]))
    nothing = torch.tensor([0.0, 1.0])
    assert accused(judged(lambda x: x / x, lambda x: (x + 1) / x, [nothing]))  # Inf for 0 / 0, by no rounding


# -- functions whose kernels in torch are coarse ------------------------------------------


def bessel(n: int, x: torch.Tensor) -> torch.Tensor:
    """J_n by its integral, which is periodic, so that few points give all digits."""
    angle = torch.arange(256, dtype=torch.float64) * (torch.pi / 128)
    wide = x.double()
    return torch.cos(n * angle - wide[..., None] * torch.sin(angle)).mean(-1).to(x.dtype)


KERNELS = {0: torch.special.bessel_j0, 1: torch.special.bessel_j1}


@pytest.mark.parametrize("n", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_better_bessel_function_than_torchs_is_no_error(n: int, dtype: torch.dtype, judged: Any) -> None:
    zeros = [2.404825557695773, 5.520078110286311, 3.831705970207512, 7.015586669815619]
    x = torch.tensor([*zeros, -5.1, 0.0, *range(20)], dtype=dtype)
    assert not accused(judged(KERNELS[n], lambda x: bessel(n, x), [x]))
    assert not accused(judged(lambda x: KERNELS[n](x) * 100, lambda x: bessel(n, x) * 100, [x]))


@pytest.mark.parametrize(
    "wrong", [lambda x: bessel(0, x) * 1.0001, lambda x: bessel(0, x + 1e-4), lambda x: bessel(1, x)]
)
def test_a_wrong_bessel_function_is_still_seen(wrong: Program, judged: Any) -> None:
    assert accused(judged(torch.special.bessel_j0, wrong, [torch.linspace(0, 20, 60, dtype=torch.float64)]))


# -- numbers so small or so large that their squares are none ----------------------------


def stepped(t: torch.Tensor, steps: int) -> torch.Tensor:
    """Neighbours in their dtype, so many away from zero and towards it in turn."""
    ways = torch.where(torch.arange(t.numel()).view(t.shape) % 2 > 0, torch.inf, 0.0).to(t.dtype)
    for _ in range(steps):
        t = torch.nextafter(t, ways)
    return t


@pytest.mark.parametrize("low", [-745.0, -735.0, -710.0])
def test_the_last_place_of_subnormal_numbers_is_rounded_too(low: float, judged: Any) -> None:
    x = torch.linspace(low, low + 4, 40, dtype=torch.float64)
    scores = torch.cat([torch.zeros(1, dtype=torch.float64), x])
    for program in (torch.exp, lambda v: torch.softmax(v, 0)):
        assert not accused(judged(program, lambda v, p=program: stepped(p(v), 1), [scores]))


def test_wrong_subnormal_numbers_are_still_seen(judged: Any) -> None:
    x = torch.linspace(-735, -731, 40, dtype=torch.float64)
    assert accused(judged(torch.exp, lambda v: v.exp() * 1.1, [x]))


@pytest.mark.parametrize("scale", [1e-170, 1e-200, 1e140, 1e180])
def test_sums_are_judged_alike_at_every_scale(scale: float, judged: Any) -> None:
    x = normal(6, 4000, seed=3).double() * scale

    def halves(v: torch.Tensor) -> torch.Tensor:
        return v.flip(1).view(6, 2, -1).sum(2).sum(1)

    assert not accused(judged(lambda v: v.sum(1), halves, [x]))
    assert accused(judged(lambda v: v.sum(1), lambda v: v.sum(1) * (1 + 1e-9), [x]))


# -- what is exact of some operands alone -------------------------------------------------


def test_the_sign_and_size_of_complex_numbers_are_rounded(judged: Any) -> None:
    z = torch.complex(normal(600), normal(600, seed=1))

    def by_reciprocals(v: torch.Tensor) -> Any:
        size = (v.real.square() + v.imag.square()).sqrt()
        return torch.complex(v.real * (1 / size), v.imag * (1 / size)), size

    assert not accused(judged(lambda v: (v.sgn(), v.abs()), by_reciprocals, [z]))
    assert accused(judged(lambda v: (v.sgn(), v.abs()), lambda v: (v.sgn() * (1 + 4e-6), v.abs()), [z]))
    assert accused(judged(lambda v: (v.sgn(), v.abs()), lambda v: (v.sgn(), v.abs() * (1 + 4e-6)), [z]))


def test_a_power_of_two_with_a_fraction_is_rounded(judged: Any) -> None:
    x, exponents = normal(400), (torch.arange(400) % 7 - 3) / 2

    def with_logarithm(v: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        return v * torch.exp(e * 0.6931471805599453)

    assert not accused(judged(torch.ldexp, with_logarithm, [x, exponents]))
    assert accused(judged(torch.ldexp, lambda v, e: torch.ldexp(v, e) * (1 + 1e-5), [x, exponents]))


def test_a_power_of_two_is_exact(judged: Any) -> None:
    x, exponents = normal(400), torch.arange(400) % 7 - 3
    assert accused(judged(torch.ldexp, lambda v, e: stepped(torch.ldexp(v, e), 3), [x, exponents]))


# -- products and sums that leave their dtype in one order and not in another -------------

LARGE_AND_SMALL = torch.tensor([1e30, 1e-30] * 8)


def in_lanes(reduce: Program) -> Program:
    """Every second element first, as two lanes of a vector are."""
    return lambda x: torch.stack([reduce(x[..., ::2]), reduce(x[..., 1::2])], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_that_overflows_in_another_order_is_not_judged(dtype: torch.dtype, judged: Any) -> None:
    x = LARGE_AND_SMALL.to(dtype)
    both = in_lanes(lambda v: v.prod(-1))
    assert not accused(judged(lambda v: v.prod(), lambda v: both(v).prod(), [x]))
    rows = torch.stack([x, x.flip(0)])
    assert not accused(judged(lambda v: v.prod(1), lambda v: both(v).prod(1), [rows]))
    assert not accused(judged(lambda v: v.prod(1, keepdim=True), lambda v: both(v).prod(1, keepdim=True), [rows]))
    zeros = torch.tensor([1e30, 0.0, 1e30, 1.0])
    assert not accused(judged(lambda v: v.prod(), lambda v: both(v).prod(), [zeros]))


def test_a_product_that_vanishes_in_another_order_is_not_judged(judged: Any) -> None:
    x = torch.tensor([1e-30, 1e20, 1e-30, 1e20])
    both = in_lanes(lambda v: v.prod(-1))
    assert not accused(judged(lambda v: v.prod(), lambda v: both(v).prod(), [x]))


def test_a_running_product_is_judged_until_it_may_overflow(judged: Any) -> None:
    x = LARGE_AND_SMALL[:6]
    lost = torch.tensor([0.0, 0.0, 0.0, torch.nan, 0.0, torch.nan])
    assert not accused(judged(lambda v: v.cumprod(0), lambda v: v.cumprod(0) + lost, [x]))
    assert accused(judged(lambda v: v.cumprod(0), lambda v: v.cumprod(0) + lost.roll(-2), [x]))


def test_a_product_that_no_order_makes_overflow_is_judged(judged: Any) -> None:
    x = normal(3, 40)
    assert accused(judged(lambda v: v.prod(1), lambda v: v.prod(1) * torch.inf, [x]))
    assert accused(judged(lambda v: v.prod(1), lambda v: v.prod(1) * 1.001, [x]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sum_that_overflows_in_another_order_is_not_judged(dtype: torch.dtype, judged: Any) -> None:
    largest = torch.finfo(dtype).max
    x = torch.tensor([0.7, -0.7, 0.6, -0.65], dtype=dtype) * largest
    both = in_lanes(lambda v: v.sum(-1))
    for reduce in (torch.sum, torch.mean):
        assert not accused(judged(reduce, lambda v, r=reduce: both(v).sum() * (r(v) / v.sum()), [x]))
    assert accused(judged(lambda v: v.sum(), lambda v: v.sum() * torch.inf, [x / 4]))


# -- the same operators in place -----------------------------------------------------------

A, B = normal(6, 3000, seed=5), normal(3000, 6, seed=6)
PLACES = torch.arange(4000) % 5
#: Written in place, and the same sums from the other end.
IN_PLACE: dict[str, tuple[Program, Program, list[torch.Tensor]]] = {
    "addmm_": (
        lambda c, a, b: c.clone().addmm_(a, b), lambda c, a, b: c + a.flip(1) @ b.flip(0), [normal(6, 6), A, B],
    ),
    "addmv_": (
        lambda c, a, b: c.clone().addmv_(a, b), lambda c, a, b: c + (a * b).flip(1).sum(1), [normal(6), A, B[:, 0]],
    ),
    "cumsum_": (
        lambda c: c.clone().cumsum_(0), lambda c: c.double().cumsum(0).float() * (1 + 6e-8), [normal(4000)],
    ),
    "put_": (
        lambda c, v: c.clone().put_(PLACES, v, accumulate=True),
        lambda c, v: c.index_add(0, PLACES.flip(0), v.flip(0)), [normal(5), normal(4000, seed=2)],
    ),
    "scatter_": (
        lambda c, v: c.clone().scatter_(0, PLACES, v, reduce="add"),
        lambda c, v: c.index_add(0, PLACES.flip(0), v.flip(0)), [normal(5), normal(4000, seed=2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_sums_in_place_are_judged_as_sums(name: str, judged: Any) -> None:
    program, other, values = IN_PLACE[name]
    assert not accused(judged(program, other, values))
    assert accused(judged(program, lambda *v: program(*v) + 0.1, values))


@pytest.mark.parametrize("name", ["abs_", "neg_", "sign_"])
def test_what_is_exact_is_so_in_place(name: str, judged: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = getattr(x.clone(), name)()
        return made

    assert accused(judged(program, lambda x: stepped(program(x), 3), [normal(300)]))


# -- casts of which some are kept -----------------------------------------------------------


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_a_chain_of_casts_may_keep_those_to_float32_alone(narrow: torch.dtype, judged: Any) -> None:
    x = normal(800).double() * 100

    def program(v: torch.Tensor) -> torch.Tensor:
        return v.float().to(narrow).double()

    for kept in (lambda v: v.float().double(), torch.clone):
        assert not accused(judged(program, kept, [x]))
    assert accused(judged(program, lambda v: program(v) * 1.05, [x]))
    assert accused(judged(program, lambda v: v.float().double() * (1 + 1e-5), [x]))


# -- the same rounding, or its opposite, in every lane -----------------------------------


@pytest.mark.parametrize("before", [0, 11, 14, 17, 60])
def test_products_that_are_taken_away_again_may_be_contracted(before: int, judged: Any) -> None:
    """``a * b - a * b``: a fused multiply-add rounds one of them alone, however many roundings came before."""

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(before):
            a = a * 1.01
        p, c = a * b, a
        for _ in range(4):
            c = c * 1.01
        return a * b - p

    def contracted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(before):
            a = a * 1.01
        return (a.double() * b.double() - (a * b).double()).float()

    assert not accused(judged(program, contracted, [normal(60, 50), normal(60, 50, seed=1)]))


def test_what_products_leave_is_still_judged(judged: Any) -> None:
    a, b = normal(60, 50), normal(60, 50, seed=1)
    assert accused(judged(lambda a, b: a * b - a * b, lambda a, b: (a * b - a * b) + 3e-6 * a.abs(), [a, b]))


# -- distances by products that cancel ----------------------------------------------------


def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")


def by_products(x: torch.Tensor, y: torch.Tensor, off: float = 0.0) -> torch.Tensor:
    squares = x.square().sum(1, keepdim=True) + (y.square().sum(1) - 2 * (x @ y.T))
    return squares.clamp(min=0).sqrt() + off


@pytest.mark.parametrize("n", [3, 40, 300])
@pytest.mark.parametrize("gradient", [False, True])
def test_distances_by_products_are_judged_by_what_cancels(n: int, gradient: bool, judged: Any) -> None:
    x = (normal(20, n) + 2).requires_grad_(gradient)
    assert not accused(judged(lambda x: distances(x, x.flip(0)), lambda x: by_products(x, x.flip(0)), [x]))
    assert not accused(judged(lambda x: distances(x, x * 1), lambda x: by_products(x, x * 1), [x]))


def test_a_wrong_distance_by_products_is_still_seen(judged: Any) -> None:
    x, y = normal(20, 5), normal(30, 5, seed=1)
    assert accused(judged(distances, lambda x, y: by_products(x, y, 1e-4), [x, y]))


# -- what a GPU does otherwise, on the CPU -------------------------------------------------


def test_what_a_gpu_flushes_inside_a_quotient_is_not_judged(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    least = torch.finfo(torch.float32).smallest_normal
    x = torch.tensor([least, -2 * least, 1.0, 0.0, 1e-30])
    flushing = lambda x: torch.where(x.abs() < 4 * least, 0.0, torch.sinc(x))  # noqa: E731
    assert accused(judged(torch.sinc, flushing, [x]))
    monkeypatch.setattr(rounding, "flushed", lambda t: least)
    assert not accused(judged(torch.sinc, flushing, [x]))
    assert accused(judged(torch.sinc, lambda x: torch.where(x.abs() < 1e-20, 0.0, torch.sinc(x)), [x]))


def test_what_a_gpu_flushes_before_a_product_is_allowed_as_much(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    least = torch.finfo(torch.float32).smallest_normal
    x = torch.tensor([-88.0, -20.0, 1.0, -float("inf")])
    flushing = lambda x: torch.where(x == -88.0, -0.0, F.mish(x))  # noqa: E731
    assert accused(judged(F.mish, flushing, [x]))
    monkeypatch.setattr(rounding, "flushed", lambda t: least)
    assert not accused(judged(F.mish, flushing, [x]))
    assert accused(judged(F.mish, lambda x: torch.where(x == -20.0, 0.0, F.mish(x)), [x]))


def test_numpy_on_a_gpu_is_no_test(judged: Any) -> None:
    def refusing(x: torch.Tensor) -> torch.Tensor:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor.")

    (verdict,) = judged(refusing, torch.sin, [normal(3)])
    assert verdict.status is Status.UNSUPPORTED


# -- functions that are numbers where eager's kernels leave the range on the way ------------

MARGINS = torch.tensor([-1e6, -1.0, 0.0, 1.0, 1e6])


def soft_margin(x: torch.Tensor) -> torch.Tensor:
    return F.soft_margin_loss(x, torch.ones_like(x), reduction="none")


class SoftMargin(torch.autograd.Function):
    """Its gradient is one of ``sigmoid``, as compiled code has it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return soft_margin(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return -torch.sigmoid(-x) * grad


def test_a_gradient_that_does_not_overflow_on_the_way_is_no_error(judged: Any) -> None:
    x = MARGINS.clone().requires_grad_()
    assert not accused(judged(soft_margin, lambda x: SoftMargin.apply(x), [x]))


def test_a_wrong_margin_is_still_seen(judged: Any) -> None:
    x = MARGINS[1:4].clone().requires_grad_()
    assert accused(judged(soft_margin, lambda x: soft_margin(x) * (1 + 1e-5), [x]))


# -- numbers that rounding may bring to a pole ----------------------------------------------

NEARLY_EQUAL = 1000 + normal(16, 200) * 0.1


def deviation(x: torch.Tensor, squares: Program = torch.Tensor.mean) -> torch.Tensor:
    variance = squares(x * x, 1) - x.mean(1).square()
    return variance.clamp(min=0).add(1e-6).rsqrt()


@pytest.mark.parametrize("gradient", [False, True])
def test_what_cancels_below_a_root_may_be_anything(gradient: bool, judged: Any) -> None:
    x = NEARLY_EQUAL.clone().requires_grad_(gradient)
    other = lambda x, dim: (x[:, ::2].sum(dim) + x[:, 1::2].sum(dim)) / 200  # noqa: E731
    assert not accused(judged(deviation, lambda x: deviation(x, other), [x]))


@pytest.mark.parametrize("off", [1e-5, -1e-5])
def test_what_does_not_cancel_below_a_root_is_judged(off: float, judged: Any) -> None:
    x = (NEARLY_EQUAL - 1000).requires_grad_()
    assert accused(judged(deviation, lambda x: deviation(x) * (1 + off), [x]))


@pytest.mark.parametrize("fn", [torch.reciprocal, torch.rsqrt, torch.log, lambda x: 1 / x, lambda x: x**-2])
def test_poles_that_rounding_does_not_reach_are_judged(fn: Program, judged: Any) -> None:
    x = torch.tensor([1e-30, 1e-6, 0.1, 1.0, 3.0])
    assert accused(judged(lambda x: fn(x * 1.1), lambda x: fn(x * 1.1) * (1 + 3e-6), [x]))
    assert accused(judged(fn, lambda x: fn(x).nan_to_num(posinf=7.0), [torch.tensor([0.0, 2.0])]))


def test_a_deviation_that_leaves_the_range_inside_is_seen(judged: Any) -> None:
    """Eager's kernel does not; compiled code squares in float32 (pytorch 197089)."""

    def squared(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean()).square().sum().div(63).sqrt()

    x = normal(64) * 1e25
    assert accused(judged(torch.std, squared, [x]))
    assert not accused(judged(torch.std, lambda x: squared(x.double()).float(), [x]))


# -- what a kernel adds up inside, and what a factory computes ---------------------------


def one_by_one(terms: torch.Tensor) -> torch.Tensor:
    """Their sum along the first dimension, each added to those before it."""
    out = torch.zeros_like(terms[0])
    for term in terms:
        out = out + term
    return out


def variance_one_by_one(x: torch.Tensor) -> torch.Tensor:
    return one_by_one((x - x.mean(0)).square()) / (len(x) - 1)


#: Numbers whose squares, around the mean or as they are, have much the same below the last place of their sum.
ON_A_GRID: dict[str, tuple[Program, Program, torch.Tensor]] = {
    "variance of whole numbers": (
        lambda x: x.var(0), variance_one_by_one, (normal(512, 64) * 17 + 30).round()
    ),
    "variance of halves": (
        lambda x: x.var(0), variance_one_by_one, ((normal(512, 64) * 20 + 30) * 2).round() / 2
    ),
    "sum of thirds": (
        lambda x: x.sum(0), one_by_one, (normal(512, 64) * 999).round().abs() + 3000 + 1 / 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_A_GRID)
def test_what_terms_have_below_the_last_place_may_add_up(name: str, judged: Any) -> None:
    eager, compiled, x = ON_A_GRID[name]
    assert not accused(judged(eager, compiled, [x.float()]))
    assert accused(judged(eager, lambda x: compiled(x) * (1 + 5e-5), [x.float()]))


def test_what_terms_have_below_the_last_place_is_noise_elsewhere(judged: Any) -> None:
    x = normal(512, 64) * 20 + 30
    assert not accused(judged(lambda x: x.var(0), variance_one_by_one, [x]))
    assert accused(judged(lambda x: x.var(0), lambda x: variance_one_by_one(x) * (1 + 6e-6), [x]))


def by_elements(theta: torch.Tensor, off: float = 0.0) -> torch.Tensor:
    """``affine_grid`` of 16 x 17 places, its terms added from the other end."""
    y, x = (((2 * torch.arange(n, dtype=theta.dtype) + 1) / n - 1) for n in (16, 17))
    a, b, c = theta[:, None, None].unbind(-1)
    return (c + off) + (b * y[:, None, None] + a * x[:, None])


def grid(theta: torch.Tensor) -> torch.Tensor:
    return F.affine_grid(theta, [len(theta), 1, 16, 17], align_corners=False)


@pytest.mark.parametrize("seed", range(8))
def test_coordinates_of_a_grid_are_judged_by_their_terms(seed: int, judged: Any) -> None:
    theta = torch.eye(2, 3) + 0.3 * normal(64, 2, 3, seed=seed)
    assert not judged(grid, by_elements, [theta])
    assert accused(judged(grid, lambda t: by_elements(t, 1e-5), [theta]))


WINDOWS: dict[str, tuple[Program, tuple[float, ...]]] = {
    "hann": (torch.hann_window, (0.5, 0.5)),
    "hamming": (torch.hamming_window, (0.54, 0.46)),
    "blackman": (torch.blackman_window, (0.42, 0.5, 0.08)),
}


def by_cosines(length: int, terms: tuple[float, ...], last: float = 1.0) -> torch.Tensor:
    """A window of :data:`WINDOWS` that is not periodic, another way to round."""
    angle = torch.arange(length, dtype=torch.float32) * (2 * torch.pi / (length - 1))
    signed = [(-1) ** k * a * (torch.cos(k * angle) * (1 - 2.0**-24) if k else 1.0) for k, a in enumerate(terms)]
    return sum(signed[1:], torch.as_tensor(signed[0])) * last


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_computed(name: str, judged: Any) -> None:
    window, terms = WINDOWS[name]

    def eager(x: torch.Tensor) -> torch.Tensor:
        return x * window(32, periodic=False)

    assert not accused(judged(eager, lambda x: x * by_cosines(32, terms), [normal(6, 32)]))
    assert accused(judged(eager, lambda x: x * by_cosines(32, terms, 1.0001), [normal(6, 32)]))


def of_squares(x: torch.Tensor, y: torch.Tensor, steep: float = 1e-4) -> torch.Tensor:
    """Of points that lie close together, far from zero: what is left of their squares is all rounding."""
    return torch.exp(-((x * x).sum(1) - 2 * (x * y).sum(1) + (y * y).sum(1)) / steep)


@pytest.mark.parametrize("seed", range(8))
def test_an_exponential_of_what_cancels_may_overflow(seed: int, judged: Any) -> None:
    x = normal(400, 5, seed=seed) + 100
    y = x + 1e-4 * normal(400, 5, seed=seed + 1)
    kept = of_squares(x, y).isfinite()
    pair = [x[kept], y[kept]]
    most = float(of_squares(*pair).max())

    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = of_squares(x, y)
        return out.where(out < most, torch.inf)

    assert most > 1e10
    assert not accused(judged(of_squares, other, pair))


def test_an_infinity_where_nothing_cancels_is_still_seen(judged: Any) -> None:
    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = of_squares(x, y, 4.0)
        return out.where(out < out.max(), torch.inf)

    assert accused(judged(lambda x, y: of_squares(x, y, 4.0), other, [normal(400, 5), normal(400, 5, seed=1)]))
    assert accused(judged(lambda x: x * 1e20, lambda x: (x * 1e20).where(x < 3, torch.inf), [normal(400, 5)]))


def resized_along(x: torch.Tensor, dim: int, size: int, off: float) -> torch.Tensor:
    """Linear interpolation along ``dim``, at coordinates by a scale that is ``off`` by a part of itself."""
    old = x.shape[dim]
    at = ((torch.arange(size) + 0.5) * torch.tensor(old / size * (1 + off)) - 0.5).clamp(min=0)
    low = at.long().clamp(max=old - 1)
    part = (at - low).reshape(-1, *(1,) * (x.ndim - dim - 1))
    lower, upper = x.index_select(dim, low), x.index_select(dim, (low + 1).clamp(max=old - 1))
    return lower * (1 - part) + upper * part


def resized_to(size: tuple[int, ...], off: float) -> Program:
    def by_hand(x: torch.Tensor) -> torch.Tensor:
        for dim, n in enumerate(size, 2):
            x = resized_along(x, dim, n, off)
        return x

    return by_hand


RESIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "linear": ((1, 2, 3000), (4321,)),
    "bilinear": ((1, 1, 300, 400), (471, 233)),
    "trilinear": ((1, 1, 40, 50, 60), (31, 77, 90)),
}
#: The third dimension is interpolated as the second is.
MODES = ["linear", "bilinear", pytest.param("trilinear", marks=pytest.mark.slow)]


@pytest.mark.parametrize("mode", MODES)
def test_coordinates_of_a_resize_are_judged_as_they_round(mode: str, judged: Any) -> None:
    shape, size = RESIZES[mode]

    def eager(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=size, mode=mode)

    assert not judged(eager, resized_to(size, 2.0**-23), [normal(*shape)])
    assert accused(judged(eager, resized_to(size, 1e-4), [normal(*shape)]))


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_resize_are_judged_as_its_coordinates_round(mode: str, judged: Any) -> None:
    shape, size = RESIZES[mode]
    x = normal(*shape)

    def gradient(resize: Program) -> Program:
        def back(grad: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                leaf = x.clone().requires_grad_()
                return torch.autograd.grad(resize(leaf), leaf, grad)[0]

        return back

    eager = gradient(lambda x: F.interpolate(x, size=size, mode=mode))
    grad = normal(*shape[:2], *size, seed=1)
    assert not accused(judged(eager, gradient(resized_to(size, 2.0**-23)), [grad]))
    assert accused(judged(eager, gradient(resized_to(size, 1e-4)), [grad]))
