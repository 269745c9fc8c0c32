"""The steps of fxmorph's own compute what the kernels compute, and serve only where they do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from fxmorph.judge.reference import kernels
from fxmorph.judge.reference.kernels import VARIANCES, WRITTEN, same_over_the_reals
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.tables import KERNELS

pytestmark = pytest.mark.usefixtures("torch_quiet")

aten: Any = torch.ops.aten


def wide(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    return wide(*shape, seed=seed).sigmoid()


X, G, IMAGE = wide(4, 6), wide(4, 6, seed=1), wide(3, 4, 2, 5)
W, B, CHANNEL, OFFSET = wide(6, seed=2), wide(6, seed=3), wide(4, seed=4), wide(4, seed=5)
MEAN, VAR = wide(4, seed=6), positive(4, seed=7)
TARGET = torch.tensor([0, 5, -100, 2])
ALL, FIRST = [True, True, True], [True, False, False]
Q, K, V = (wide(2, 2, 5, 8, seed=s) for s in (8, 9, 10))
LAYER = (X.mean(1, keepdim=True), (X.var(1, correction=0, keepdim=True) + 1e-5).rsqrt())
GROUPS = IMAGE.reshape(3, 2, 20)
GROUP = (GROUPS.mean(2), (GROUPS.var(2, correction=0) + 1e-5).rsqrt())
BATCH = (IMAGE.mean((0, 2, 3)), (IMAGE.var((0, 2, 3), correction=0) + 1e-5).rsqrt())
SDPA = aten._scaled_dot_product_flash_attention_for_cpu

#: The overload, then its arguments.
CALLS: list[tuple[Any, ...]] = [
    *((op, X, dim, False) for op in (aten._softmax.default, aten._log_softmax.default) for dim in (0, -1)),
    (aten._softmax.default, wide(), 0, False),
    *((aten._safe_softmax.default, X.masked_fill(X.gt(least), float("-inf")), 1) for least in (9, 0.5, -9)),
    (aten._log_softmax.default, X.masked_fill(X > 0.5, float("-inf")), 1, False),
    (aten._softmax_backward_data.default, G, X.softmax(1), 1, torch.float64),
    (aten._log_softmax_backward_data.default, G, X.log_softmax(0), 0, torch.float64),
    (aten.logsumexp.default, X, [1]),
    (aten.logsumexp.default, X * 1000, [0, 1], True),
    (aten.logsumexp.default, X.masked_fill(X < 9, float("-inf")), [1]),
    *((aten.linalg_vector_norm.default, X, p, [1]) for p in (0, 1, 2, 3, -1, 0.5, float("inf"), float("-inf"))),
    (aten.linalg_vector_norm.default, X, 2, None, True),
    (aten.linalg_vector_norm.default, torch.complex(X, G), 2, [0]),
    (aten.norm.Scalar, X, 3),
    (aten.norm.ScalarOpt_dim, X, None, [1], True),
    (aten.native_layer_norm.default, X, [6], W, B, 1e-5),
    (aten.native_layer_norm.default, X, [4, 6], None, None, 0.1),
    (aten.native_layer_norm.default, IMAGE, [2, 5], IMAGE[0, 0], None, 0.1),
    (aten.native_layer_norm_backward.default, G, X, [6], *LAYER, W, B, ALL),
    (aten.native_layer_norm_backward.default, G, X, [6], *LAYER, None, None, FIRST),
    (aten.native_group_norm.default, IMAGE, CHANNEL, OFFSET, 3, 4, 10, 2, 1e-5),
    (aten.native_group_norm.default, IMAGE, CHANNEL, None, 3, 4, 10, 4, 0.1),
    (aten.native_group_norm.default, IMAGE, None, None, 3, 4, 10, 1, 1e-5),
    (aten.native_group_norm_backward.default, IMAGE.cos(), IMAGE, *GROUP, CHANNEL, 3, 4, 10, 2, ALL),
    (aten.native_group_norm_backward.default, IMAGE.cos(), IMAGE, *GROUP, None, 3, 4, 10, 2, FIRST),
    (aten.native_batch_norm.default, IMAGE, CHANNEL, OFFSET, MEAN, VAR, True, 0.1, 1e-5),
    (aten.native_batch_norm.default, X, None, None, None, None, True, 0.1, 0.01),
    (aten.native_batch_norm.default, IMAGE, None, OFFSET, MEAN, VAR, False, 0.1, 1e-5),
    (aten._native_batch_norm_legit.default, IMAGE, CHANNEL, None, MEAN, VAR, True, 0.3, 1e-5),
    (aten._native_batch_norm_legit.default, IMAGE, CHANNEL, None, MEAN, VAR, False, 0.3, 1e-5),
    (aten._native_batch_norm_legit.no_stats, IMAGE, CHANNEL, OFFSET, True, 0.1, 1e-5),
    (aten._native_batch_norm_legit_no_training.default, IMAGE, CHANNEL, OFFSET, MEAN, VAR, 0.1, 1e-5),
    (aten._batch_norm_with_update.default, IMAGE, CHANNEL, OFFSET, MEAN, VAR, 0.1, 1e-5),
    (aten.native_batch_norm_backward.default, IMAGE.cos(), IMAGE, CHANNEL, MEAN, VAR, *BATCH, True, 1e-5, ALL),
    (aten.native_batch_norm_backward.default, IMAGE.cos(), IMAGE, None, MEAN, VAR, None, None, False, 1e-5, FIRST),
    (
        aten.batch_norm_backward.default, IMAGE.cos(), IMAGE, CHANNEL, MEAN, VAR, *BATCH, True, 1e-5, ALL,
        torch.zeros(0, dtype=torch.uint8),
    ),
    (aten._fused_rms_norm.default, X, [6], W, 1e-5),
    (aten._fused_rms_norm.default, X, [4, 6], None, None),
    *((aten.nll_loss_forward.default, X, TARGET, weight, how, -100) for weight in (None, W) for how in (0, 1, 2)),
    (aten.nll_loss_forward.default, X[0], TARGET[1], W, 1, 0),
    *((aten.binary_cross_entropy.default, positive(4, 6), positive(4, 6), w, 1) for w in (None, W)),
    (aten.binary_cross_entropy.default, (X > 0).double(), positive(4, 6), None, 0),
    *((op.default, X, G, how) for op in (aten.mse_loss, aten.huber_loss, aten.smooth_l1_loss) for how in (0, 1, 2)),
    (aten.huber_loss.default, X, G, 1, 0.3),
    (aten.smooth_l1_loss.default, X, G, 2, 0.3),
    *((getattr(aten, name).correction, X, [1]) for name in sorted(VARIANCES)),
    (SDPA.default, Q, K, V),
    (SDPA.default, Q, K, V, 0.0, True),
    (aten._scaled_dot_product_flash_attention_for_cpu_backward.default, Q.cos(), Q, K, V, *SDPA(Q, K, V), 0.0, False),
]  # fmt: skip
#: Those of a GPU alone.
CALLS_OF_CUDA: list[tuple[Any, ...]] = [
    (aten.cudnn_batch_norm.default, IMAGE, CHANNEL, OFFSET, MEAN, VAR, True, 0.1, 1e-5),
    (aten.cudnn_batch_norm.default, IMAGE, CHANNEL, OFFSET, None, None, True, 0.1, 0.01),
    (aten.cudnn_batch_norm.default, IMAGE, CHANNEL, OFFSET, MEAN, VAR, False, 0.1, 1e-5),
    (
        aten.cudnn_batch_norm_backward.default, IMAGE, IMAGE.cos(), CHANNEL, MEAN, VAR, *BATCH, 1e-5,
        torch.zeros(0, dtype=torch.uint8),
    ),
]  # fmt: skip


def name_of(call: tuple[Any, ...]) -> str:
    return str(call[0]._schema.name.split("::")[1])


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{i} {name_of(c)}" for i, c in enumerate(CALLS)])
def test_steps_are_the_kernel_in_fp64(number: int) -> None:
    call = CALLS[number]
    assert same_over_the_reals(call[0], name_of(call), call[1:], {})


@pytest.mark.gpu
@pytest.mark.parametrize("number", range(len(CALLS_OF_CUDA)))
def test_steps_are_the_kernel_of_a_gpu_in_fp64(number: int) -> None:
    call = CALLS_OF_CUDA[number]
    given = tree_map(lambda t: t.cuda() if isinstance(t, torch.Tensor) else t, call[1:])
    assert same_over_the_reals(call[0], name_of(call), given, {})


def test_all_that_have_steps_are_tried() -> None:
    assert {name_of(call) for call in CALLS + CALLS_OF_CUDA} == WRITTEN.keys() | VARIANCES <= KERNELS


@pytest.mark.parametrize("part", [1.03, 1 + 1e-6])
def test_steps_that_are_not_the_kernel_do_not_serve(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = WRITTEN["_log_softmax"]
    x = X.float()

    def spread() -> float:
        run = ReferenceRun()
        with run:
            lanes = run.keep(x.log_softmax(1)).lanes
        return float((lanes["wide:0"] - lanes["wide"]).abs().max())

    before = spread()
    monkeypatch.setitem(kernels.WRITTEN, "_log_softmax", lambda *args: right(*args) * part)
    assert not same_over_the_reals(aten._log_softmax.default, "_log_softmax", (X, 1, False), {})
    assert before < 1e-6 and spread() < 1e-4


def test_steps_that_write_otherwise_do_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    right = WRITTEN["native_batch_norm"]

    def forgetful(x: torch.Tensor, weight: Any, bias: Any, mean: torch.Tensor, var: torch.Tensor, *rest: Any) -> Any:
        return right(x, weight, bias, mean.clone(), var, *rest)

    monkeypatch.setitem(kernels.WRITTEN, "native_batch_norm", forgetful)
    args = (IMAGE, CHANNEL, OFFSET, MEAN, VAR, True, 0.1, 1e-5)
    assert not same_over_the_reals(aten.native_batch_norm.default, "native_batch_norm", args, {})


def test_steps_that_raise_do_not_serve() -> None:
    assert not same_over_the_reals(
        aten._softmax.default, "_softmax", (torch.ones(2, 0, dtype=torch.float64), 1, False), {}
    )
