"""Gradients of attention: its fused backward, which makes the weights again, stays inside the envelope."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from fxmorph.judge.numeric import envelope
from fxmorph.judge.reference.reference_run import ReferenceRun

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
#: (heads, queries, keys, dimension), largest logits about, scale, whole numbers.
SHAPES = [
    ((8, 32, 32, 8), 4.0, 0.353553, False),
    ((8, 32, 32, 8), 64.0, 0.353553, False),
    ((8, 32, 32, 8), 1.0, 0.353553, True),
    ((8, 64, 5, 16), 1.0, 0.3, True),
    ((8, 64, 64, 16), 1.0, 1.0, False),
    ((4, 7, 40, 32), 16.0, 0.3, False),
]


def operands(shape: tuple[int, int, int, int], size: float, whole: bool, seed: int = 1) -> list[torch.Tensor]:
    heads, queries, keys, dim = shape
    g = torch.Generator().manual_seed(seed)

    def made(n: int, scale: float) -> torch.Tensor:
        if whole:
            return torch.randint(-4, 5, (1, heads, n, dim), generator=g).float()
        return torch.randn(1, heads, n, dim, generator=g) * scale

    return [made(queries, math.sqrt(size)), made(keys, math.sqrt(size)), made(keys, 1.0)]


def with_gradients(fn: Program, values: list[torch.Tensor], run: ReferenceRun | None = None) -> list[torch.Tensor]:
    """The output and the gradients of the inputs."""
    inputs = [v.clone().requires_grad_() for v in values]
    weights = torch.randint(-3, 4, inputs[0].shape, generator=torch.Generator().manual_seed(2)).float()
    out = fn(inputs[0], inputs[1], inputs[2])
    out.backward(weights)
    return [out.detach(), *(t.grad for t in inputs if t.grad is not None)]


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    return (q @ k.mT).mul(scale).softmax(-1) @ v


def by_no_kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """As eager has it where no kernel takes the operands (of a GPU: heads that share keys)."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)


def largest_share(scale: float, other: Program, values: list[torch.Tensor], unscaled: Any = by_hand) -> float:
    """The largest error of ``other`` against unfused attention, as a share of what is allowed."""
    unfused = functools.partial(unscaled, scale=scale)
    eager, seen = with_gradients(unfused, values), with_gradients(other, values)
    run = ReferenceRun(differentiated=True)
    with run:
        reference = with_gradients(unfused, values)
    largest = 0.0
    for e, s, r in zip(eager, seen, reference, strict=True):
        env = envelope(e, s, run.keep(r).lanes)
        share = torch.where(env.ill | (e == s), 0.0, env.outside / env.allowed)
        largest = max(largest, float(share.max()))
    return largest


@pytest.mark.parametrize("unfused", [by_hand, by_no_kernel])
@pytest.mark.parametrize("shape,size,scale,whole", SHAPES)
def test_fused_attention_is_inside(
    shape: tuple[int, int, int, int], size: float, scale: float, whole: bool, unfused: Any
) -> None:
    values = operands(shape, size, whole)
    fused = functools.partial(F.scaled_dot_product_attention, scale=scale)
    assert largest_share(scale, fused, values, unfused) < 1


@pytest.mark.parametrize("shape,size,scale,whole", SHAPES)
def test_another_scale_is_outside(shape: tuple[int, int, int, int], size: float, scale: float, whole: bool) -> None:
    values = operands(shape, size, whole)
    wrong = scale * (1 + 1e-4)
    assert largest_share(scale, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=wrong), values) > 1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size,whole", [(10.0, False), (200.0, False), (1.0, True)])
def test_no_draw_of_the_lanes_cancels_an_error(seed: int, size: float, whole: bool) -> None:
    """Few terms are most of each sum there: lanes that move them one by one are all off by nothing now and then."""
    values = operands((8, 32, 32, 16), size, whole, seed)
    fused = largest_share(0.353553, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.353553), values)
    assert fused < 0.7
