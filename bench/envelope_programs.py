"""The programs of the envelope study: seeds in another dtype, and one program of single operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from fxmorph.judge.trial import GraphSubject
from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import FLOATING, InputSet, flat_storage
from fxmorph.programs.load import LoadedSeed
from fxmorph.torchapi.dispatch import tree_map
from fxmorph.torchapi.storages import storage_key

COMPLEX = {
    torch.float64: torch.complex128,
    torch.float32: torch.complex64,
    torch.float16: torch.complex32,
}


def in_dtype(loaded: LoadedSeed, dtype: torch.dtype) -> LoadedSeed:
    """The seed with its inputs, parameters and buffers in ``dtype``; what it casts inside stays.

    Strides, offsets and shared memory are kept.  For float64 values are drawn in float64, since
    float32 values have products and short sums that float64 does not round.
    """

    def make() -> tuple[Callable[..., Any], list[Any]]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if dtype == torch.float64 else before)
        try:
            fn, args = loaded.make()
        finally:
            torch.set_default_dtype(before)
        if isinstance(fn, torch.nn.Module):
            fn = fn.to(dtype)
        return fn, _converted(args, dtype)

    return replace(loaded, make=make)


def _converted(args: list[Any], dtype: torch.dtype) -> list[Any]:
    made: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def convert(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        target = dtype if value.dtype in FLOATING else value.dtype
        if value.is_complex():
            target = COMPLEX.get(dtype, value.dtype)
        if target == value.dtype:
            return value
        key = (storage_key(value), value.dtype)
        if key not in made:
            made[key] = flat_storage(value.detach()).to(target)
        t = made[key].as_strided(value.shape, value.stride(), value.storage_offset())
        t = t.conj() if value.is_conj() else t
        # A leaf of its own, not a view of the base: autograd must not see the sharing as a graph.
        t = torch.empty(0, dtype=target).set_(t.untyped_storage(), t.storage_offset(), t.shape, t.stride())
        return t.requires_grad_(value.requires_grad)

    with torch.no_grad():
        return [tree_map(convert, arg) for arg in args]


@dataclass(frozen=True)
class Operator:
    """A call of one operator on fresh normal values; ``inputs`` are shapes, ``domain`` maps the values."""

    call: Callable[..., torch.Tensor]
    inputs: tuple[tuple[int, ...], ...] = ((32, 48),)
    domain: Callable[[torch.Tensor], torch.Tensor] = lambda t: t


def _positive(t: torch.Tensor) -> torch.Tensor:
    return t.abs() + 0.25


def _unit(t: torch.Tensor) -> torch.Tensor:
    return t.tanh() * 0.9


_ROW = ((32, 48),)
_TWO = ((32, 48), (32, 48))
_HEADS = ((2, 3, 16, 8),) * 3

#: One small program of each operator whose rounding the reference run treats in its own way.
OPERATORS: dict[str, Operator] = {
    "add": Operator(torch.add, _TWO),
    "mul": Operator(torch.mul, _TWO),
    "div": Operator(torch.div, _TWO, _positive),
    "addcmul": Operator(torch.addcmul, (*_TWO, (32, 48))),
    "lerp": Operator(lambda a, b: torch.lerp(a, b, 0.3), _TWO),
    "sqrt": Operator(torch.sqrt, _ROW, _positive),
    "rsqrt": Operator(torch.rsqrt, _ROW, _positive),
    "reciprocal": Operator(torch.reciprocal, _ROW, _positive),
    "exp": Operator(torch.exp),
    "expm1": Operator(torch.expm1),
    "log": Operator(torch.log, _ROW, _positive),
    "log1p": Operator(torch.log1p, _ROW, _positive),
    "sin": Operator(torch.sin),
    "tan": Operator(torch.tan, _ROW, _unit),
    "tanh": Operator(torch.tanh),
    "atanh": Operator(torch.atanh, _ROW, _unit),
    "asinh": Operator(torch.asinh),
    "sigmoid": Operator(torch.sigmoid),
    "erf": Operator(torch.erf),
    "erfc": Operator(torch.erfc),
    "erfinv": Operator(torch.erfinv, _ROW, _unit),
    "lgamma": Operator(torch.lgamma, _ROW, _positive),
    "digamma": Operator(torch.digamma, _ROW, _positive),
    "pow": Operator(torch.pow, _TWO, _positive),
    "pow3": Operator(lambda a: a.pow(3)),
    "atan2": Operator(torch.atan2, _TWO),
    "remainder": Operator(torch.remainder, _TWO, _positive),
    "gelu": Operator(F.gelu),
    "gelu_tanh": Operator(lambda a: F.gelu(a, approximate="tanh")),
    "silu": Operator(F.silu),
    "softplus": Operator(F.softplus),
    "mish": Operator(F.mish),
    "sum": Operator(lambda a: a.sum(-1)),
    "sum_all": Operator(lambda a: a.sum(), ((64, 128),)),
    "mean": Operator(lambda a: a.mean(-1)),
    "cumsum": Operator(lambda a: a.cumsum(-1)),
    "prod": Operator(lambda a: a.prod(-1), ((32, 8),)),
    "cumprod": Operator(lambda a: a.cumprod(-1), ((32, 8),), _positive),
    "var": Operator(lambda a: a.var(-1)),
    "std": Operator(lambda a: a.std(-1)),
    "norm": Operator(lambda a: torch.linalg.vector_norm(a, dim=-1)),
    "logsumexp": Operator(lambda a: a.logsumexp(-1)),
    "logcumsumexp": Operator(lambda a: a.logcumsumexp(-1)),
    "softmax": Operator(lambda a: a.softmax(-1)),
    "log_softmax": Operator(lambda a: a.log_softmax(-1)),
    "layer_norm": Operator(lambda a: F.layer_norm(a, (48,))),
    "rms_norm": Operator(lambda a: F.rms_norm(a, (48,))),
    "group_norm": Operator(lambda a: F.group_norm(a, 4), ((2, 8, 6, 6),)),
    "batch_norm": Operator(lambda a: F.batch_norm(a, None, None, training=True), ((4, 8, 6, 6),)),
    "mm": Operator(torch.mm, ((32, 48), (48, 16))),
    "bmm": Operator(torch.bmm, ((3, 16, 24), (3, 24, 8))),
    "linear": Operator(F.linear, ((32, 48), (16, 48), (16,))),
    "conv1d": Operator(F.conv1d, ((2, 6, 20), (5, 6, 3))),
    "conv2d": Operator(F.conv2d, ((2, 4, 9, 9), (5, 4, 3, 3))),
    "attention": Operator(F.scaled_dot_product_attention, _HEADS),
    "avg_pool2d": Operator(lambda a: F.avg_pool2d(a, 3), ((2, 4, 9, 9),)),
    "max_pool2d": Operator(lambda a: F.max_pool2d(a, 3), ((2, 4, 9, 9),)),
    "bilinear": Operator(
        lambda a: F.interpolate(a, scale_factor=1.7, mode="bilinear", align_corners=False), ((2, 3, 8, 8),)
    ),
    "cdist": Operator(torch.cdist, ((12, 8), (10, 8))),
    "mse_loss": Operator(F.mse_loss, _TWO),
    "smooth_l1": Operator(F.smooth_l1_loss, _TWO),
    "index_add": Operator(lambda a, b: a.index_add(0, torch.arange(32) % 5, b), _TWO),
    "transpose": Operator(lambda a: a.t().contiguous()),
    "maximum": Operator(torch.maximum, _TWO),
    "amax": Operator(lambda a: a.amax(-1)),
    "max": Operator(lambda a: a.max(-1).values),
    "sort": Operator(lambda a: a.sort(-1).values),
    "topk": Operator(lambda a: a.topk(5).values),
    "cat": Operator(lambda a, b: torch.cat([a, b], -1), _TWO),
}


def runs_in(name: str, dtype: torch.dtype) -> bool:
    """Whether eager has the operator and its gradient for this dtype."""
    op = OPERATORS[name]
    try:
        leaves = [op.domain(torch.randn(s)).to(dtype).requires_grad_(True) for s in op.inputs]
        op.call(*leaves).sum().backward()
    except (RuntimeError, NotImplementedError):
        return False
    return True


def operator_program(names: list[str], dtype: torch.dtype, seed: int) -> tuple[GraphSubject, dict[str, str]]:
    """One program that returns the result of each operator, and the operator of each slot.

    Each operator has leaves of its own, so that gradients are its own too; one compile serves all.
    """
    generator = torch.Generator().manual_seed(seed)
    values: list[torch.Tensor] = []
    places: list[tuple[Operator, int, int]] = []
    owner: dict[str, str] = {}
    for k, name in enumerate(names):
        op = OPERATORS[name]
        first = len(values)
        for shape in op.inputs:
            drawn = op.domain(torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)
            owner[f"grad:input{len(values)}"] = name
            values.append(drawn.requires_grad_(True))
        places.append((op, first, len(values)))
        owner[f"out{k}"] = name

    def program(*args: torch.Tensor) -> list[torch.Tensor]:
        return [op.call(*args[first:last]) for op, first, last in places]

    inputs = InputSet.snapshot(values)
    return GraphSubject(program, {ValuePlan.SEED: inputs}, lambda config: config), owner
