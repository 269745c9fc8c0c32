"""A decomposition that is wrong is found, by whatever it is off, and never hidden by the reference.

PyTorch's table of decompositions is what is compiled: each is damaged there, where anything that read
the table would be as wrong as the compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._decomp import decomposition_table
from torch._inductor import decomposition

from fxmorph.core.clock import Clock
from fxmorph.judge.case import judge_subject, plan_inputs
from fxmorph.judge.trial import GraphSubject
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Seed, Status, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.compiling import cpp_compiler, reset

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
Damage = Callable[..., Any]

TARGET = torch.tensor([0, 2, 1, 3, 2, 0, 1, 4])
BATCH_NORMS = (
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
)  # fmt: skip


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def part(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed).sigmoid()


X, Y, IMAGE = normal(8, 16), normal(8, 16, seed=1), normal(8, 4, 5)
W, CHANNEL = normal(16, seed=2), normal(4, seed=3)
#: What is damaged, the program that it is compiled into, and its inputs.
FORWARD: dict[str, tuple[tuple[str, ...], Program, list[torch.Tensor]]] = {
    "softmax": (("_softmax",), lambda x: x.softmax(1), [X]),
    "log_softmax": (("_log_softmax",), lambda x: x.log_softmax(1), [X]),
    "logsumexp": (("logsumexp",), lambda x: x.logsumexp(1), [X]),
    "cross_entropy": (("_log_softmax",), lambda x: F.cross_entropy(x, TARGET), [X[:, :5]]),
    "nll_loss": (("nll_loss_forward",), lambda x: F.nll_loss(x, TARGET), [X[:, :5]]),
    "batch_norm in training": (BATCH_NORMS, lambda x: F.batch_norm(x, None, None, training=True), [IMAGE]),
    "batch_norm in use": (BATCH_NORMS, lambda x, m, v: F.batch_norm(x, m, v), [IMAGE, CHANNEL, part(4)]),
    "layer_norm": (("native_layer_norm",), lambda x, w: F.layer_norm(x, (16,), w), [X, W]),
    "group_norm": (("native_group_norm",), lambda x, w: F.group_norm(x, 2, w), [IMAGE, CHANNEL]),
    "norm": (("norm", "linalg_vector_norm"), lambda x: x.norm(dim=1), [X]),
    "std": (("std",), lambda x: x.std(1), [X]),
    "mse_loss": (("mse_loss",), F.mse_loss, [X, Y]),
    "huber_loss": (("huber_loss",), F.huber_loss, [X, Y]),
    "smooth_l1_loss": (("smooth_l1_loss",), F.smooth_l1_loss, [X, Y]),
    "binary_cross_entropy": (("binary_cross_entropy",), F.binary_cross_entropy, [part(8, 16), part(8, 16, seed=1)]),
    "gelu": (("gelu",), F.gelu, [X]),
    "softplus": (("softplus",), F.softplus, [X]),
    "logsigmoid": (("log_sigmoid_forward",), F.logsigmoid, [X]),
    "leaky_relu": (("leaky_relu",), lambda x: F.leaky_relu(x, 0.2), [X]),
}
BACKWARD: dict[str, tuple[tuple[str, ...], Program, list[torch.Tensor]]] = {
    "softmax": (("_softmax_backward_data",), lambda x: x.softmax(1), [X]),
    "log_softmax": (("_log_softmax_backward_data",), lambda x: x.log_softmax(1), [X]),
    "nll_loss": (("nll_loss_backward",), lambda x: F.nll_loss(x, TARGET), [X[:, :5]]),
    "batch_norm": (
        ("native_batch_norm_backward",), lambda x, w: F.batch_norm(x, None, None, w, training=True), [IMAGE, CHANNEL],
    ),
    "layer_norm": (("native_layer_norm_backward",), lambda x, w: F.layer_norm(x, (16,), w), [X, W]),
    "group_norm": (("native_group_norm_backward",), lambda x, w: F.group_norm(x, 2, w), [IMAGE, CHANNEL]),
    "mse_loss": (("mse_loss_backward",), lambda x: F.mse_loss(x, Y.to(x.dtype)), [X]),
    "huber_loss": (("huber_loss_backward",), lambda x: F.huber_loss(x, Y.to(x.dtype)), [X]),
    "binary_cross_entropy": (
        ("binary_cross_entropy_backward",), lambda x: F.binary_cross_entropy(x, part(8, 16).to(x.dtype)),
        [part(8, 16, seed=1)],
    ),
    "gelu": (("gelu_backward",), F.gelu, [X]),
    "softplus": (("softplus_backward",), F.softplus, [X]),
    "logsigmoid": (("log_sigmoid_backward",), F.logsigmoid, [X]),
    "leaky_relu": (("leaky_relu_backward",), lambda x: F.leaky_relu(x, 0.2), [X]),
    "glu": (("glu_backward",), F.glu, [X]),
    "embedding": (("embedding_dense_backward",), lambda w: F.embedding(TARGET, w), [X]),
    "select": (("select_backward",), lambda x: x[0] * 2, [X]),
}  # fmt: skip


def scaled(by: float) -> Damage:
    """The first floating-point result times ``by``."""

    def damage(right: Program, *args: Any, **kwargs: Any) -> Any:
        out = right(*args, **kwargs)
        if isinstance(out, torch.Tensor):
            return out * by
        first = next(i for i, o in enumerate(out) if isinstance(o, torch.Tensor) and o.is_floating_point())
        return tuple(o * by if i == first else o for i, o in enumerate(out))

    return damage


def with_argument(place: int, change: Callable[[Any], Any]) -> Damage:
    def damage(right: Program, *args: Any, **kwargs: Any) -> Any:
        changed = [change(a) if i == place % len(args) else a for i, a in enumerate(args)]
        return right(*changed, **kwargs)

    return damage


@contextmanager
def wrong(names: tuple[str, ...], damage: Damage) -> Iterator[list[str]]:
    """Names of the damaged decompositions that were compiled are added to what this gives."""
    used: list[str] = []

    def damaged(name: str, right: Program) -> Program:
        def call(*args: Any, **kwargs: Any) -> Any:
            used.append(name)
            return damage(right, *args, **kwargs)

        return call

    tables: list[dict[Any, Any]] = [decomposition_table, decomposition.decompositions]
    saved = [dict(table) for table in tables]
    for table in tables:
        for name in names:
            packet = getattr(torch.ops.aten, name)
            for overload in [getattr(packet, known) for known in packet.overloads()]:
                if overload in table:
                    table[overload] = damaged(name, table[overload])
    reset()
    decomposition.fast_random_decomps.cache_clear()
    try:
        yield used
    finally:
        for table, old in zip(tables, saved, strict=True):
            table.update(old)
        decomposition.fast_random_decomps.cache_clear()
        reset()


def judged(
    program: Program, inputs: list[torch.Tensor], dtype: torch.dtype, leaves: bool,
    backend: str = "aot_eager_decomp_partition",
) -> CaseResult:  # fmt: skip
    given = [t.to(dtype).requires_grad_(leaves) for t in inputs]
    subject = GraphSubject(
        program, plan_inputs((ValuePlan.SEED,), InputSet.snapshot(given), 0, program), lambda config: config
    )
    case = Case(Seed("wrong.py", "module", "0"), 0, 0, (ValuePlan.SEED,), CompileConfig.make(backend))
    return judge_subject(case, subject, Clock())


#: In bfloat16 what is beyond its rounding alone.
ERRORS = (
    (torch.float32, 1.01), (torch.bfloat16, 1.2),
    (torch.float32, 0.95), (torch.float32, 2.0), (torch.bfloat16, 2.0),
)  # fmt: skip


#: Which the default run has in bfloat16 too: one of each sort of kernel.
NARROW = ("softmax", "nll_loss", "norm", "mse_loss", "gelu", "embedding", "select")


#: Taken apart by steps like those of others, which takes seconds.
ALIKE = ("log_softmax", "layer_norm", "group_norm", "huber_loss", "logsigmoid")


def errors_of(names: Iterable[str], slow: Collection[str] = ()) -> list[Any]:
    """Each name with each error; slow are those in bfloat16, but for a few."""
    return [
        pytest.param(
            name, dtype, by, id=f"{name}-{str(dtype).removeprefix('torch.')}-{by}",
            marks=pytest.mark.slow if number > 1 or name in slow or (number and name not in NARROW) else (),
        )
        for name in names
        for number, (dtype, by) in enumerate(ERRORS)
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "by"), errors_of(FORWARD, ALIKE))
def test_wrong_values_are_found(name: str, dtype: torch.dtype, by: float) -> None:
    names, program, inputs = FORWARD[name]
    with wrong(names, scaled(by)) as used:
        got = judged(program, inputs, dtype, leaves=False)
    assert used
    assert got.status is Status.FINDING and got.kinds == (Kind.VALUE,), got.reason


@pytest.mark.parametrize(("name", "dtype", "by"), errors_of(BACKWARD, ALIKE))
def test_wrong_gradients_are_found(name: str, dtype: torch.dtype, by: float) -> None:
    names, program, inputs = BACKWARD[name]
    with wrong(names, scaled(by)) as used:
        got = judged(program, inputs, dtype, leaves=True)
    assert used
    assert got.status is Status.FINDING and got.kinds == (Kind.GRADIENT,), got.reason


EPS, REDUCTION = (lambda eps: eps * 1000), (lambda how: 3 - how)
MEANINGS = {
    "eps of batch_norm": ("batch_norm in training", with_argument(-1, EPS)),
    "eps of batch_norm in use": ("batch_norm in use", with_argument(-1, EPS)),
    "eps of layer_norm": ("layer_norm", with_argument(4, EPS)),
    "eps of group_norm": ("group_norm", with_argument(7, EPS)),
    "reduction of nll_loss": ("nll_loss", with_argument(3, REDUCTION)),
    "weight of nll_loss": ("nll_loss", with_argument(0, lambda x: x * torch.linspace(1, 1.1, 5))),
    "dimension of log_softmax": ("log_softmax", with_argument(1, lambda dim: 1 - dim)),
    "dimension of softmax": ("softmax", with_argument(1, lambda dim: 1 - dim)),
    "no logarithm under log_softmax": ("log_softmax", lambda right, x, dim, wide: x.softmax(dim)),
    "half of the rows of softmax": (
        "softmax",
        lambda right, x, *rest: right(x * (torch.arange(8)[:, None] < 4), *rest),
    ),
}


#: An ``eps`` is that of batch_norm.
_SLOW = ("eps of batch_norm in use", "eps of layer_norm", "eps of group_norm")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in _SLOW else n for n in MEANINGS])
def test_another_meaning_is_found(name: str) -> None:
    names, program, inputs = FORWARD[MEANINGS[name][0]]
    with wrong(names, MEANINGS[name][1]) as used:
        got = judged(program, inputs, torch.float32, leaves=False)
    assert used
    assert got.status is Status.FINDING, got.reason


@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize(
    "name",
    [
        "log_softmax",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("batch_norm in training", "nll_loss", "layer_norm")),
    ],
)
def test_so_it_is_compiled_by_inductor(name: str) -> None:
    names, program, inputs = FORWARD[name]
    with wrong(names, scaled(0.97)):
        got = judged(program, inputs, torch.float32, leaves=False, backend="inductor")
    assert got.status is Status.FINDING and got.stage == "decomposition", got.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [*FORWARD, *(f"gradient of {name}" for name in BACKWARD)])
def test_right_decompositions_are_clean(name: str, dtype: torch.dtype) -> None:
    leaves = name not in FORWARD
    _, program, inputs = BACKWARD[name.removeprefix("gradient of ")] if leaves else FORWARD[name]
    assert judged(program, inputs, dtype, leaves).status is Status.CLEAN
