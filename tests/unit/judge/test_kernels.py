"""Kernels of several roundings, run step by step in the perturbed lanes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fxmorph.judge.reference.lanes import Lane
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.reference.signs import SIGNS, SPANS, SPREAD, Signs

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def kept(fn: Program, *inputs: torch.Tensor) -> tuple[list[Shadows], ReferenceRun]:
    """The shadows of what ``fn`` returns and of its gradients."""
    run = ReferenceRun()
    with run:
        out = fn(*inputs)
        outs = list(out) if isinstance(out, tuple) else [out]
        leaves = [t for t in inputs if t.requires_grad]
        if leaves:
            outs += torch.autograd.grad(sum((o.sin().sum() for o in outs), torch.zeros(())), leaves)
        return [run.keep(o) for o in outs], run


def deviation(shadows: Shadows, kinds: tuple[str, ...] = ("wide:", "cast:")) -> torch.Tensor:
    """Root mean square, in units of float32 of the largest element."""
    wide = shadows.lanes["wide"]
    far = torch.stack([v - wide for k, v in shadows.lanes.items() if k.startswith(kinds)])
    return far.square().mean(0).sqrt() / wide.abs().max() * 2**24


def rows(seed: int = 0) -> torch.Tensor:
    return normal(8, 64, seed=seed).requires_grad_()


def heads(count: int, seed: int) -> torch.Tensor:
    return normal(2, count, 16, 8, seed=seed).requires_grad_()


def attended(**options: Any) -> Program:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


MASK = normal(16, 16, seed=9)
PROGRAMS: dict[str, tuple[Program, list[torch.Tensor]]] = {
    "softmax": (lambda x: x.softmax(-1), [rows()]),
    "log_softmax": (lambda x: x.log_softmax(0), [rows()]),
    "logsumexp": (lambda x: x.logsumexp(1), [rows()]),
    "layer_norm": (lambda x, w: F.layer_norm(x, (64,), w, w), [rows(), normal(64).requires_grad_()]),
    "group_norm": (lambda x: F.group_norm(x.view(2, 8, 32), 4), [rows()]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [rows()]),
    "batch_norm in use": (lambda x: F.batch_norm(x, torch.zeros(64), torch.ones(64)), [rows()]),
    "rms_norm": (lambda x: F.rms_norm(x, (64,)), [rows()]),
    "var": (lambda x: x.var(1), [rows()]),
    "std of all": (lambda x: x.std(), [rows()]),
    "var_mean, kept": (lambda x: torch.var_mean(x, 0, keepdim=True, correction=0), [rows()]),
    "std_mean of all": (torch.std_mean, [rows()]),
    "var of complex": (lambda x: torch.complex(x, x.flip(0)).var(1), [normal(8, 64)]),
    "norm": (lambda x: (x.norm(dim=1), torch.linalg.vector_norm(x, 3, dim=0)), [rows()]),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(8)), [rows()]),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), [rows(), rows(1)]),
    "huber_loss": (lambda x, y: F.huber_loss(x, y), [rows(), rows(1)]),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y), [rows(), rows(1)]),
    "attention": (attended(), [heads(4, 0), heads(4, 1), heads(4, 2)]),
    "causal attention": (attended(is_causal=True), [heads(4, 0), heads(4, 1), heads(4, 2)]),
    "attention with a bias": (attended(attn_mask=MASK), [heads(4, 0), heads(4, 1), heads(4, 2)]),
    "attention with a mask": (attended(attn_mask=MASK > 0, scale=0.3), [heads(4, 0), heads(4, 1), heads(4, 2)]),
    "attention of groups": (attended(enable_gqa=True), [heads(4, 0), heads(2, 1), heads(2, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_compute_what_the_kernel_computes_with_small_errors(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    values, run = kept(fn, *inputs)
    assert not run.gates.opaque and not any(lane.broken for lane in run.lanes)
    for shadows in values:
        assert shadows.lanes["wide"].shape == shadows.native.shape
        assert 0 < float(deviation(shadows).max()) < 300


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_is_inside(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    for shadows in kept(fn, *inputs)[0]:
        wide = shadows.lanes["wide"]
        error = (shadows.native - wide).abs() / wide.abs().max() * 2**24
        assert bool((error <= 3 * deviation(shadows) + 2).all())


def test_running_statistics_are_written_once() -> None:
    mean, var = torch.zeros(6), torch.ones(6)
    x = normal(4, 6) + 3
    run = ReferenceRun()
    with run:
        F.batch_norm(x, mean, var, training=True, momentum=0.5)
        shadows = [run.keep(mean), run.keep(var)]
    for got, expected in zip(shadows, (0.5 * x.mean(0), 0.5 + 0.5 * x.var(0)), strict=True):
        for lane in got.lanes.values():
            torch.testing.assert_close(lane.float(), expected, rtol=1e-5, atol=1e-6)


def test_any_two_roundings_of_six_are_orthogonal() -> None:
    signs = torch.tensor(SIGNS)
    assert torch.equal(signs.T @ signs, torch.eye(6) * 2 * SPREAD)
    assert bool((signs[:SPREAD].sum(0) == 0).all()) and bool((signs[SPREAD:].sum(0) == 0).all())


def test_no_two_roundings_cancel_in_every_lane() -> None:
    """Six apart they would have the same signs, and half of them would."""
    lanes = [Lane(f"{row}", {}, perturb=Signs(5), row=row) for row in range(2 * SPREAD)]
    count = 6 * len(SPANS)
    draws = [torch.stack([lane.noise(torch.zeros(400)) for _ in range(count)]) for lane in lanes]
    signs = torch.stack(draws, -1)  # by rounding, element and lane
    for a, b in itertools.combinations(range(count), 2):
        agree = (signs[a] * signs[b]).sum(-1).abs()
        assert bool((agree <= SPREAD).all()), (a, b)
        assert a // 6 != b // 6 or bool((agree == 0).all())
    for kind in (signs[..., :SPREAD], signs[..., SPREAD:]):
        assert bool((kind.sum(-1).abs() < SPREAD).all())  # both signs, so that lanes do not lie to one side


def test_six_roundings_add_up_by_their_squares() -> None:
    x = normal(1000).abs() + 1
    for count, wanted in ((1, 1.0), (4, 2.0), (6, 6**0.5)):

        def chain(x: torch.Tensor, count: int = count) -> torch.Tensor:
            for _ in range(count):
                x = x * 1.1
            return x

        shadows = kept(chain, x)[0][0]
        wide = shadows.lanes["wide"]
        far = torch.stack([v / wide - 1 for k, v in shadows.lanes.items() if ":" in k and "tie" not in k])
        units = far.square().mean(0).sqrt() * 2**24
        torch.testing.assert_close(units, torch.full_like(units, wanted), rtol=1e-3, atol=0)


def test_a_sum_of_rounded_terms_is_not_one_draw_for_all_lanes() -> None:
    shadows = kept(lambda x: (x * 1.1).double().sum(1), normal(50, 600))[0][0]
    wide = shadows.lanes["wide"]
    far = torch.stack([v - wide for k, v in shadows.lanes.items() if ":" in k and "tie" not in k])
    assert float((far.abs().amin(0) / far.abs().amax(0)).median()) < 0.5


def test_equal_terms_and_powers_of_two_have_the_error_that_they_have() -> None:
    equal = deviation(kept(lambda x: x.sum(0), torch.full((4096, 3), 0.1))[0][0])
    other = deviation(kept(lambda x: x.sum(0), normal(4096, 3).abs())[0][0])
    assert float(equal.min()) > 3 * float(other.max())
    assert float(deviation(kept(lambda x: x * 0.25 / 8, normal(9))[0][0]).max()) == 0


def test_only_casts_that_narrow_make_two_references() -> None:
    def copies(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(9).copy_(x * 1.1) * 3

    for fn, equal in ((copies, True), (lambda x: (x * 1.1).bfloat16().float(), False)):
        shadows, run = kept(fn, normal(9))
        assert torch.equal(shadows[0].lanes["wide"], shadows[0].lanes["cast"]) is equal
        assert run.gates.narrowing_cast is not equal
