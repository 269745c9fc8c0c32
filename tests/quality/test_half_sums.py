"""Sums and products of matrices of 16-bit types are judged as float32 accumulates them; small results of formulas that
lose them are no findings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
HALVES = {torch.bfloat16: 1.03, torch.float16: 1.005}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


SUMS: dict[str, Program] = {
    "mm": lambda a, b: a @ b,
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "linear": lambda a, b: F.linear(a, b.mT.contiguous(), b[0]),
    "mv": lambda a, b: a @ b[:, 0],
    "convolution": lambda a, b: F.conv1d(a.mT.contiguous()[None], b.mT.contiguous()[..., None]),
    "sum": lambda a, b: a.sum(1),
    "mean": lambda a, b: b.mean(0),
    "cumsum": lambda a, b: a.abs().cumsum(1),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SUMS)
def test_a_wrong_sum_is_found_and_a_rounded_one_is_not(name: str, dtype: torch.dtype, judged: Any) -> None:
    program = SUMS[name]
    inputs = [normal(8, 64, dtype=dtype), normal(64, 16, seed=1, dtype=dtype)]
    right = program(*inputs)
    place = int(right.abs().flatten().argmax())

    def wrong(*given: torch.Tensor) -> torch.Tensor:
        out = program(*given).clone()
        out.view(-1)[place] *= HALVES[dtype]
        return out

    assert any(v.status is Status.FINDING for v in judged(program, wrong, inputs))
    for finer in (torch.float32, torch.float64):
        found = judged(program, lambda *g, finer=finer: program(*(t.to(finer) for t in g)).to(dtype), inputs)
        assert not [v for v in found if v.status is not Status.CLEAN], found


@pytest.mark.parametrize("dtype", HALVES)
def test_terms_may_be_rounded_one_by_one(dtype: torch.dtype, judged: Any) -> None:
    a, b = normal(1, 256, dtype=dtype), normal(256, 16, seed=1, dtype=dtype)
    found = judged(torch.mm, lambda a, b: (a.mT * b).float().sum(0, keepdim=True).to(dtype), [a, b])
    assert not [v for v in found if v.status is Status.FINDING], found


@pytest.mark.parametrize("dtype", HALVES)
def test_a_bias_may_be_added_to_a_rounded_product(dtype: torch.dtype, judged: Any) -> None:
    a, b, c = normal(8, 64, dtype=dtype), normal(64, 16, seed=1, dtype=dtype), normal(16, seed=2, dtype=dtype)
    found = judged(torch.addmm, lambda c, a, b: a @ b + c, [c, a, b])
    assert not [v for v in found if v.status is Status.FINDING], found


LEAST = torch.finfo(torch.float32).tiny
SMALL = torch.cat([torch.tensor([-LEAST, LEAST, -2 * LEAST, -1e-30, -1e-10, -0.5, 3e-39, -3e-39]), normal(24)])


def by_exp(x: torch.Tensor, alpha: float = 1.0, inner: float = 1.0) -> torch.Tensor:
    return torch.where(x > 0, x, alpha * (torch.exp(x / inner) - 1))


FORMULAS: dict[str, tuple[Program, Program]] = {
    "celu": (F.celu, by_exp),
    "celu of a half": (lambda x: F.celu(x, alpha=0.5), lambda x: by_exp(x, 0.5, 0.5)),
    "elu times 300": (lambda x: F.elu(x, alpha=300.0), lambda x: by_exp(x, 300.0)),
    "elu": (F.elu, by_exp),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_an_exponential_less_one_may_lose_small_results(name: str, judged: Any) -> None:
    eager, compiled = FORMULAS[name]
    found = judged(eager, compiled, [SMALL])
    assert not [v for v in found if v.status is Status.FINDING], found
    for wrong in (lambda x: compiled(x) * (1 + 1e-5), lambda x: compiled(x) * torch.where(x > -1, 1, 1.001)):
        assert any(v.status is Status.FINDING for v in judged(eager, wrong, [SMALL]))


class _BySigmoid(torch.autograd.Function):
    """The gradient of soft margin loss as Inductor spells it, times ``factor``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, how: str, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        ctx.part = factor / (x.numel() if how == "mean" else 1)
        return F.soft_margin_loss(x, y, reduction=how)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return y * grad * (torch.sigmoid(y * x) - 1) * ctx.part, None, None, None


@pytest.mark.parametrize("how", ["mean", "sum", "none"])
def test_the_gradient_of_soft_margin_loss_may_be_a_difference(how: str, judged: Any) -> None:
    inputs = [(normal(64) * 8).requires_grad_(), normal(64, seed=1).sign()]

    def given(factor: float) -> list[Any]:
        return judged(
            lambda x, y: F.soft_margin_loss(x, y, reduction=how),
            lambda x, y: _BySigmoid.apply(x, y, how, factor),
            inputs,
        )

    assert not [v for v in given(1.0) if v.status is Status.FINDING]
    for factor in (1.0001, 0.9999):
        assert any(v.status is Status.FINDING for v in given(factor))
