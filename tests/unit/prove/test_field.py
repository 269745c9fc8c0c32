# ruff: noqa: E501  (tables of programs)
"""Finite-field execution shows true identities at full size and no false one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.prove.field.constants import meaning
from fxmorph.prove.field.field_domain import Field
from fxmorph.prove.field.identity_testing import prove_field
from fxmorph.prove.field.primes import P, Q, inverse, roots, signs

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("torch_quiet")

#: Shapes by the names of arguments; programs take those that they name.
SHAPES: dict[str, tuple[int, ...]] = {
    "x": (6, 8), "y": (6, 8), "a": (6, 8), "b": (8, 4), "c": (4, 5), "s": (5, 5), "t": (5, 5), "w": (8,), "v": (8,),
    "u": (6, 4), "r": (7,), "q": (2, 3, 6, 8), "k": (2, 3, 6, 8), "e": (2, 3, 6, 8), "i": (2, 4, 9, 9), "f": (6, 4, 3, 3),
    "g": (6,), "h": (4,), "lin": (4, 8), "row": (1, 8),
}  # fmt: skip


def given(*functions: Callable[..., Any]) -> dict[str, torch.Tensor]:
    names = [n for f in functions for n in f.__code__.co_varnames[: f.__code__.co_argcount]]
    generator = torch.Generator().manual_seed(1)
    return {n: torch.rand(SHAPES[n], generator=generator) + 0.5 for n in dict.fromkeys(names)}


def normed(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt((c * c).mean(-1, keepdim=True) + eps)


def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.chunk(2, 0)


def in_place(x: torch.Tensor) -> torch.Tensor:
    x[1:3].mul_(2).add_(1)
    return x.sum(0)


def out_of_place(x: torch.Tensor) -> torch.Tensor:
    part = x[1:3] * 2 + 1
    x.copy_(torch.cat([x[:1], part, x[3:]]))
    return x.sum(0)


def attention(q: torch.Tensor, k: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return ((q @ k.mT) / math.sqrt(8)).softmax(-1) @ e


TRUE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum in two steps": (lambda x: x.sum(), lambda x: x.sum(1).sum(0)),
    "sum of parts": (lambda x: x.sum(0), lambda x: x[:2].sum(0) + x[2:].sum(0)),
    "sum of a sum": (lambda x, y: (x + y).sum(0), lambda x, y: x.sum(0) + y.sum(0)),
    "sum of multiples": (lambda x: (0.1 * x).sum(), lambda x: x.sum() / 10),
    "mean": (lambda x: x.mean(1), lambda x: x.sum(1) / 8),
    "mean of means": (lambda x: x.mean(0), lambda x: (halves(x)[0].mean(0) + halves(x)[1].mean(0)) / 2),
    "sum by matmul": (lambda x: x.sum(1), lambda x: (x @ x.new_ones(8, 1))[:, 0]),
    "sum by cumsum": (lambda x: x.sum(1), lambda x: x.cumsum(1)[:, -1]),
    "cumsum by matmul": (lambda x: x.cumsum(1), lambda x: x @ torch.ones(8, 8).triu()),
    "sum by index_add": (lambda x: x.sum(0), lambda x: x.new_zeros(1, 8).index_add(0, torch.zeros(6).long(), x)[0]),
    "sum by scatter_add": (
        lambda x: x.sum(1),
        lambda x: x.new_zeros(6, 1).scatter_add(1, torch.zeros(6, 8).long(), x)[:, 0],
    ),
    "variance": (lambda x: x.var(1, correction=0), lambda x: (x * x).mean(1) - x.mean(1) ** 2),
    "unbiased variance": (lambda x: x.var(1), lambda x: (x - x.mean(1, keepdim=True)).square().sum(1) / 7),
    "std": (lambda x: x.std(1), lambda x: x.var(1).sqrt()),
    "prod of parts": (lambda r: r.prod(), lambda r: r[:3].prod() * r[3:].prod()),
    "transposed product": (lambda a, b: (a @ b).t(), lambda a, b: b.t() @ a.t()),
    "product of three": (lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c)),
    "distributive": (lambda x, y, b: (x + y) @ b, lambda x, y, b: x @ b + y @ b),
    "split over k": (lambda a, b: a @ b, lambda a, b: a[:, :3] @ b[:3] + a[:, 3:] @ b[3:]),
    "split over n": (lambda a, b: a @ b, lambda a, b: torch.cat([a @ p for p in b.split(3, 1)], 1)),
    "addmm": (lambda u, a, b: torch.addmm(u, a, b, beta=2, alpha=3), lambda u, a, b: 2 * u + 3 * (a @ b)),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), lambda a, b: (a[:, :, None] * b[None]).sum(1)),
    "baddbmm": (lambda q, k: torch.baddbmm(q[0] @ k[0].mT, q[1], k[1].mT),
                lambda q, k: torch.einsum("bhid,bhjd->hij", q, k)),
    "linear": (lambda x, lin, h: F.linear(x, lin, h), lambda x, lin, h: x @ lin.t() + h),
    "padded k": (lambda a, b: a @ b, lambda a, b: F.pad(a, (0, 1)) @ F.pad(b, (0, 0, 0, 1))),
    "outer": (lambda w, g: torch.outer(g, w), lambda w, g: g[:, None] * w),
    "softmax": (lambda x: x.softmax(1), lambda x: x.exp() / x.exp().sum(1, keepdim=True)),
    "softmax shifted": (lambda x: x.softmax(1), lambda x: (x - x.amax(1, keepdim=True)).softmax(1)),
    "softmax permuted": (lambda x: x.softmax(1), lambda x: x.t().softmax(0).t()),
    "softmax by log": (lambda x: x.softmax(1), lambda x: x.log_softmax(1).exp()),
    "log_softmax": (lambda x: x.log_softmax(1), lambda x: x - x.logsumexp(1, keepdim=True)),
    "logsumexp shifted": (lambda x: x.logsumexp(1), lambda x: (x - 3).logsumexp(1) + 3),
    "exp of a sum": (lambda x, y: (x + y).exp(), lambda x, y: x.exp() * y.exp()),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 - torch.sigmoid(-x)),
    "tanh": (lambda x: x.tanh(), lambda x: 2 * torch.sigmoid(2 * x) - 1),
    "silu": (lambda x: F.silu(x), lambda x: x / (1 + torch.exp(-x))),
    "softplus": (lambda x: F.softplus(x), lambda x: torch.log1p(x.exp())),
    "gelu": (lambda x: F.gelu(x), lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "glu": (lambda x: F.glu(x, 1), lambda x: x[:, :4] * x[:, 4:].sigmoid()),
    "layer_norm": (lambda x, w, v: F.layer_norm(x, (8,), w, v), lambda x, w, v: normed(x) * w + v),
    "layer_norm by var": (
        lambda x: F.layer_norm(x, (8,)),
        lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt(),
    ),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w, 1e-6), lambda x, w: x / (x.pow(2).mean(1, True) + 1e-6).sqrt() * w),
    "group_norm": (lambda i: F.group_norm(i, 2), lambda i: normed(i.reshape(2, 2, -1)).reshape(i.shape)),
    "batch_norm": (
        lambda i, h: F.batch_norm(i, h, h * h, h, h),
        lambda i, h: (i - h.view(-1, 1, 1)) / (h * h + 1e-5).sqrt().view(-1, 1, 1) * h.view(-1, 1, 1) + h.view(-1, 1, 1),
    ),
    "attention": (lambda q, k, e: F.scaled_dot_product_attention(q, k, e), attention),
    "attention, scaled query": (attention, lambda q, k, e: ((q * 8**-0.5) @ k.mT).softmax(-1) @ e),
    "causal attention": (
        lambda q, k, e: F.scaled_dot_product_attention(q, k, e, is_causal=True),
        lambda q, k, e: (
            (q @ k.mT / 8**0.5).masked_fill(~torch.ones(6, 6).bool().tril(), -math.inf).softmax(-1) @ e
        ),
    ),
    "linear attention": (lambda q, k, e: (q @ k.mT) @ e, lambda q, k, e: q @ (k.mT @ e)),
    "conv by unfold": (
        lambda i, f: F.conv2d(i, f, padding=1),
        lambda i, f: (f.flatten(1) @ F.unfold(i, 3, padding=1)).view(2, 6, 9, 9),
    ),
    "conv of halves": (lambda i, f: F.conv2d(i, f), lambda i, f: F.conv2d(i[:, :2], f[:, :2]) + F.conv2d(i[:, 2:], f[:, 2:])),
    "conv with bias": (lambda i, f, g: F.conv2d(i, f, g), lambda i, f, g: F.conv2d(i, f) + g.view(-1, 1, 1)),
    "avg_pool as conv": (
        lambda i: F.avg_pool2d(i, 3), lambda i: F.conv2d(i, i.new_full((4, 1, 3, 3), 1 / 9), stride=3, groups=4),
    ),
    "max_pool of relu": (lambda i: F.max_pool2d(i.relu(), 3), lambda i: F.max_pool2d(i.clamp(min=0), 3)),
    "mse": (lambda x, y: F.mse_loss(x, y), lambda x, y: (x - y).square().sum() / 48),
    "cross entropy": (
        lambda x: F.cross_entropy(x, torch.tensor([0, 3, 7, 1, 1, 2])),
        lambda x: -x.log_softmax(1)[torch.arange(6), torch.tensor([0, 3, 7, 1, 1, 2])].mean(),
    ),
    "relu as clamp": (lambda x: x.relu(), lambda x: x.clamp(min=0)),
    "relu as where": (lambda x: x.relu(), lambda x: torch.where(x > 0, x, 0.0)),
    "relu as where, ties": (lambda x: x.relu(), lambda x: torch.where(x >= 0, x, 0.0)),
    "relu twice": (lambda x: x.relu(), lambda x: x.relu().relu()),
    "maximum": (lambda x, y: torch.maximum(x, y), lambda x, y: -torch.minimum(-x, -y)),
    "maximum by relu": (lambda x, y: torch.maximum(x, y), lambda x, y: y + (x - y).relu()),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.1), lambda x: torch.where(x > 0, x, x / 10)),
    "amax of three": (lambda r: r[:3].amax(), lambda r: torch.maximum(r[:1].amax(), r[1:3].amax())),
    "amax of negatives": (lambda x: x.amax(1), lambda x: -(-x).amin(1)),
    "amax by sort": (lambda x: x.amax(1), lambda x: x.sort(1).values[:, -1]),
    "abs": (lambda x: x.abs(), lambda x: torch.where(x < 0, -x, x)),
    "root of a product": (lambda x, y: (x * y).sqrt(), lambda x, y: x.sqrt() * y.sqrt()),
    "root squared": (lambda x: x.sqrt() ** 2, lambda x: x),
    "norm": (lambda x: x.norm(dim=1), lambda x: (x * x).sum(1).sqrt()),
    "casts": (lambda x: x.double().sum(1).float(), lambda x: x.sum(1)),
    "in place": (in_place, out_of_place),
    "views": (lambda x: x.view(3, 2, 8).transpose(0, 1).sum(1), lambda x: torch.stack([x[0::2].sum(0), x[1::2].sum(0)])),
}  # fmt: skip


def flipped_chunks(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat([a @ p for p in b.chunk(2, 1)][::-1], 1)


def forgets_write(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:1], x[1:3] * 2 + 1, x[3:]]).sum(0)


def late_read(x: torch.Tensor) -> torch.Tensor:
    total = x.sum(0)
    x[1:3].mul_(2).add_(1)
    return total


FALSE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean of unequal means": (lambda x: x.mean(0), lambda x: (x[:2].mean(0) + x[2:].mean(0)) / 2),
    "transposed product": (lambda s, t: s @ t, lambda s, t: (s.t() @ t.t()).t()),
    "product exchanged": (lambda s, t: s @ t, lambda s, t: t @ s),
    "chunks exchanged": (lambda a, b: a @ b, flipped_chunks),
    "softmax of another dim": (lambda s: s.softmax(1), lambda s: s.softmax(0)),
    "sum of another dim": (lambda s: s.sum(1), lambda s: s.sum(0)),
    "correction": (lambda x: x.var(1), lambda x: x.var(1, correction=0)),
    "std correction": (lambda x: x.std(1), lambda x: ((x - x.mean(1, keepdim=True)) ** 2).mean(1).sqrt()),
    "scale forgotten": (lambda q, k, e: F.scaled_dot_product_attention(q, k, e),
                        lambda q, k, e: (q @ k.mT).softmax(-1) @ e),
    "scale twice": (attention, lambda q, k, e: ((q @ k.mT) / 8).softmax(-1) @ e),
    "eps outside the root": (
        lambda x: F.layer_norm(x, (8,)),
        lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, correction=0, keepdim=True) + 1e-5),
    ),
    "other eps": (lambda x: F.layer_norm(x, (8,), eps=1e-5), lambda x: normed(x, 1e-6)),
    "product of sums": (lambda x, y: (x * y).sum(1), lambda x, y: x.sum(1) * y.sum(1)),
    "attention regrouped": (attention, lambda q, k, e: q.softmax(-1) @ (k.mT @ e)),
    "mask by zero": (
        lambda q, k, e: F.scaled_dot_product_attention(q, k, e, is_causal=True),
        lambda q, k, e: ((q @ k.mT / 8**0.5).masked_fill(~torch.ones(6, 6).bool().tril(), 0).softmax(-1) @ e),
    ),
    "conv of transposed": (lambda i, f: F.conv2d(i, f), lambda i, f: F.conv2d(i, f.transpose(2, 3))),
    "conv padding": (lambda i, f: F.conv2d(i, f, padding=1), lambda i, f: F.pad(F.conv2d(i, f), (1, 1, 1, 1))),
    "bias twice": (lambda i, f, g: F.conv2d(i, f, g), lambda i, f, g: F.conv2d(i, f, g) + g.view(-1, 1, 1)),
    "avg_pool padding": (
        lambda i: F.avg_pool2d(i, 3, padding=1), lambda i: F.avg_pool2d(i, 3, padding=1, count_include_pad=False),
    ),
    "addmm alpha": (lambda u, a, b: torch.addmm(u, a, b, alpha=2), lambda u, a, b: torch.addmm(u, a, b, beta=2)),
    "log of a sum": (lambda x, y: (x + y).log(), lambda x, y: x.log() + y.log()),
    "exp of a product": (lambda x, y: (x * y).exp(), lambda x, y: x.exp() * y.exp()),
    "gelu kinds": (lambda x: F.gelu(x), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (lambda x: F.silu(x), lambda x: x * torch.sigmoid(-x)),
    "softmax shifted by columns": (lambda x: x.softmax(1), lambda x, row: (x - row).softmax(1)),
    "log_softmax twice shifted": (lambda x: x.log_softmax(1), lambda x: x - (x - 1).logsumexp(1, keepdim=True)),
    "relu of negatives": (lambda x: x.relu(), lambda x: x - (-x).clamp(max=0)),
    "clamp": (lambda x: x.clamp(-1, 1), lambda x: x.clamp(max=1)),
    "where exchanged": (lambda x, y: torch.where(x > y, x, y), lambda x, y: torch.where(x > y, y, x)),
    "sign at zero": (lambda x: torch.sign(x), lambda x: torch.where(x > 0, 1.0, -1.0)),
    "ties": (lambda x, y: (x <= y).float(), lambda x, y: (x < y).float()),
    "zero": (lambda x: torch.where(x == 0, 5.0, x), lambda x: x),
    "step at one": (lambda x: torch.where(x > 1, x, 0.0), lambda x: torch.where(x >= 1, x, 0.0)),
    "amax of a part": (lambda x: x.amax(1), lambda x: x[:, 1:].amax(1)),
    "amax and amin": (lambda x: x.amax(1), lambda x: x.amin(1)),
    "abs": (lambda x: x.abs(), lambda x: x),
    "write forgotten": (in_place, forgets_write),
    "read too early": (in_place, late_read),
    "norm": (lambda x: x.norm(dim=1), lambda x: x.abs().sum(1)),
    "reciprocal": (lambda x, y: 1 / (x + y), lambda x, y: 1 / x + 1 / y),
    "nearly": (lambda x: x * 0.1, lambda x: x * 0.1000001),
    "cumsum exclusive": (lambda x: x.cumsum(1), lambda x: x.cumsum(1) - x),
    "target": (
        lambda x: F.cross_entropy(x, torch.tensor([0, 3, 7, 1, 1, 2])),
        lambda x: F.cross_entropy(x, torch.tensor([0, 3, 7, 1, 2, 2])),
    ),
    "group_norm groups": (lambda i: F.group_norm(i, 2), lambda i: F.group_norm(i, 4)),
    "another shape": (lambda x: x.sum(1), lambda x: x.sum(1, keepdim=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_true_identity_is_shown(name: str) -> None:
    before, after = TRUE[name]
    result = prove_field(before, after, given(before, after), {})
    assert result.equal, result.reason
    assert 0 < result.error <= 1e-6


@pytest.mark.parametrize("name", FALSE)
def test_false_identity_is_not(name: str) -> None:
    before, after = FALSE[name]
    assert not prove_field(before, after, given(before, after), {}).equal


@pytest.mark.parametrize(
    "name",
    """softmax/softmax permuted/layer_norm by var/layer_norm/attention/silu/gelu/gelu by tanh/relu as where/leaky relu/mse/variance/addmm/conv with bias/sigmoid/tanh/cross entropy/log_softmax/rms_norm/avg_pool as conv/group_norm/product of three""".split("/"),
)
def test_gradients_are_compared(name: str) -> None:
    before, after = TRUE[name.strip()]
    result = prove_field(before, after, given(before, after), {}, gradients=True)
    assert result.equal, result.reason


def test_gradients_that_differ_at_zero() -> None:
    tensors = given(*TRUE["relu as clamp"])
    assert prove_field(*TRUE["relu as clamp"], tensors, {}, gradients=True).equal is False


@pytest.mark.parametrize(
    "after", [lambda x: x.detach().softmax(1) + 0 * x, lambda x: 2 * x.softmax(1) - x.softmax(1).detach()]
)
def test_other_gradients_differ(after: Callable[..., Any]) -> None:
    tensors = given(after)
    assert prove_field(lambda x: x.softmax(1), after, tensors, {}).equal
    assert prove_field(lambda x: x.softmax(1), after, tensors, {}, gradients=True).equal is False


def test_full_size_is_fast() -> None:
    def block(x: Any, w: Any, u: Any) -> torch.Tensor:
        h = F.layer_norm(x, (256,))
        q, k, v = (h @ w).view(2, 64, 3, 4, 64).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 64, 256)
        return x + F.gelu(o @ u)

    def again(x: Any, w: Any, u: Any) -> torch.Tensor:
        h = normed(x)
        q, k, v = ((h @ p).view(2, 64, 4, 64).transpose(1, 2) for p in w.chunk(3, 1))
        o = ((q / 8) @ k.mT).softmax(-1) @ v
        o = sum(o[:, i] @ p for i, p in enumerate(u.chunk(4, 0)))
        return o * 0.5 * (1 + torch.erf(o * 0.5**0.5)) + x

    tensors = {"x": torch.rand(2, 64, 256), "w": torch.rand(256, 768), "u": torch.rand(256, 256)}
    result = prove_field(block, again, tensors, {})
    assert result.equal, result.reason
    assert result.seconds < 60


def test_same_seed_same_answer() -> None:
    tensors = given(lambda x: x)
    for before, after in (TRUE["relu twice"], FALSE["scale twice"]):
        tensors = given(before, after)
        one, two = (prove_field(before, after, tensors, {}, seed=5) for _ in range(2))
        assert (one.equal, one.trials, one.error, one.assumptions, one.reason) == (
            two.equal, two.trials, two.error, two.assumptions, two.reason,
        )  # fmt: skip


def test_assumptions_are_said() -> None:
    def found(name: str) -> set[str]:
        return set(prove_field(*TRUE[name], given(*TRUE[name]), {}).assumptions)

    assert "denom!=0" in found("softmax")
    assert "log-argument>0" in found("logsumexp shifted")
    assert "UF:erf" in found("gelu")
    assert "comparison-as-predicate" in found("relu as clamp")
    assert "ties-sampled" in found("relu as where")
    assert found("transposed product") == {"reduction-order-free"}


def test_integers() -> None:
    n = torch.tensor([3, 5, 7])
    result = prove_field(lambda n: (n + 1) * (n - 1), lambda n: n * n - 1, {"n": n}, {})
    assert result.equal and "no-overflow" in result.assumptions
    assert not prove_field(lambda n: n * 2, lambda n: n + n + n - 3, {"n": n}, {}).equal
    at = torch.tensor([0, 2, 1])
    result = prove_field(
        lambda x, at: x[at], lambda x, at: x.index_select(0, at), {"x": torch.rand(3, 2), "at": at}, {}
    )
    assert result.equal and "these-integers" in result.assumptions


@pytest.mark.parametrize(
    "program", [lambda x: x + torch.rand(6, 8), lambda x: x * x.sum().item(), lambda x: torch.linalg.inv(x[:, :6])]
)
def test_what_is_not_modelled(program: Callable[..., Any]) -> None:
    result = prove_field(program, program, given(program), {})
    assert result.equal is None and result.reason


def test_undefined_is_not_equal() -> None:
    x = {"x": torch.rand(6, 8)}

    def partly(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(6, 8)
        out[1:] = x[1:] * 2
        return out

    assert not prove_field(lambda x: x * 2, partly, x, {}).equal
    assert not prove_field(lambda x: torch.empty(6, 8), lambda x: torch.empty(6, 8), x, {}).equal
    result = prove_field(lambda x: x.max(1).indices, lambda x: x.min(1).indices, x, {})
    assert not result.equal


@pytest.mark.parametrize("n", [2, 3, 4, pytest.param(7, marks=pytest.mark.slow)])
def test_ties_of_small_tensors(n: int) -> None:
    x = {"x": torch.rand(n)}
    for seed in range(3):
        flipped = prove_field(lambda x: x.argmax(0), lambda x: n - 1 - x.flip(0).argmax(0), x, {}, seed=seed)
        assert not flipped.equal


def test_shared_memory() -> None:
    base = torch.rand(10)
    tensors = {"x": base[:8], "y": base[2:]}

    def before(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    def shifted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(x + 1)
        return y + y

    def ignorant(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = y * 2
        x.add_(1)
        return out

    assert prove_field(before, shifted, tensors, {}).equal
    assert not prove_field(before, ignorant, tensors, {}).equal


def test_constants() -> None:
    assert meaning(0.1, torch.float64).value * 10 == 1
    assert meaning(float(torch.tensor(1 / 3)), torch.float32).value * 3 == 1
    assert meaning(8**-0.5, torch.float64) == meaning(math.sqrt(1 / 8), torch.float64)
    assert meaning(8**-0.5, torch.float64).roots == 1
    assert meaning(math.pi, torch.float64).pi == 2
    assert meaning(math.e, torch.float64).roots == 0


def test_tables() -> None:
    for modulus in (P, Q):
        x = torch.arange(1, modulus)
        assert bool((x * inverse(modulus)[1:].long() % modulus == 1).all())
        square = roots(modulus).long() ** 2 % modulus
        assert bool(((square == torch.arange(modulus)) | (square == (-torch.arange(modulus)) % modulus)).all())
    assert bool((signs()[[2, 3, 5, 7, 11, 13]] == 1).all()) and signs()[P - 1] == -1


def test_inputs_are_field_elements() -> None:
    elements = Field(3).input("x", 1000, torch.float32)
    assert elements.real.max() < P and elements.imag.max() < Q and elements.real.min() >= 0
    assert torch.equal(elements, Field(3).input("x", 1000, torch.float32))
    assert not torch.equal(elements, Field(4).input("x", 1000, torch.float32))
