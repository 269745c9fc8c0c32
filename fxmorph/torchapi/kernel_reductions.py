"""What Inductor's IR computes along the inner loops of a body: reductions, scans, sorts; and searches in buffers.

Values have rows, which are iterations, and columns, which are steps of the reduction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fxmorph.torchapi.addresses import as_tensor


def reduce(kind: str, parts: Sequence[torch.Tensor], dtype: torch.dtype) -> Any:
    """One reduction over columns to ``dtype``; of several results a tuple."""
    if kind == "welford_reduce":
        mean = parts[0].mean(1, True)
        return mean, ((parts[0] - mean) ** 2).sum(1, True), torch.full_like(mean, parts[0].shape[1])
    if kind == "welford_combine":
        return _combined(*parts)
    if kind == "online_softmax_reduce":
        largest = parts[0].amax(1, True)
        # Of a row of -inf alone the sum is of exp(0), as of max - max where both are the same.
        safe = torch.where(largest == -torch.inf, torch.zeros_like(largest), largest)
        return largest, torch.exp(parts[0] - safe).sum(1, True)
    if kind.startswith(("argmax", "argmin")):
        return _arg(kind, parts)
    if kind == "dot":
        return (parts[0] * parts[1] if len(parts) > 1 else parts[0]).to(dtype).sum(1, True).to(dtype)
    return _plain(kind, parts[0], dtype)


def _combined(means: torch.Tensor, squares: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of means, sums of squared deviations and weights of groups those of all."""
    weight = weights.sum(1, True)
    mean = (means * weights).sum(1, True) / weight
    mean = torch.where(weight == 0, torch.zeros_like(mean), mean)
    return mean, (squares + weights * (means - mean) ** 2).sum(1, True), weight


def _arg(kind: str, parts: Sequence[torch.Tensor]) -> Any:
    """The place of the first extreme, in the order of the places where they are given; its value too or alone."""
    value = parts[0].int() if parts[0].dtype == torch.bool else parts[0]
    at = getattr(torch, kind[:6])(value, 1, True)
    if len(parts) > 1:
        best = value.gather(1, at)
        ties = (value == best) | (value != value) & (best != best)
        last = torch.iinfo(parts[1].dtype).max
        place = torch.where(ties, parts[1], last).amin(1, True)
        at = torch.where(ties & (parts[1] == place), 1, 0).argmax(1, True)
    else:
        place = at
    best = parts[0].gather(1, at)
    return {"": place, "_value": best, "_with_value": (best, place)}[kind[6:]]


def _plain(kind: str, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    boolean = value.dtype == torch.bool
    if kind == "any" or (boolean and kind == "max") or (dtype == torch.bool and kind == "sum"):
        return value.bool().any(1, True)
    if boolean and kind in ("min", "prod") and dtype == torch.bool:
        return value.all(1, True)
    if kind == "xor_sum":
        return functools.reduce(torch.bitwise_xor, value.unbind(1)).unsqueeze(1)
    if kind in ("sum", "prod"):
        return getattr(value.to(dtype), kind)(1, True).to(dtype)  # type: ignore[no-any-return]
    if kind in ("max", "min"):
        return value.amax(1, True) if kind == "max" else value.amin(1, True)
    raise NotImplementedError(f"reduction {kind}")


def scan(combine: Callable[..., Any], values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Each column combined with all before it, by doubling the reach (Hillis and Steele, 1986)."""
    reach, length = 1, values[0].shape[1]
    while reach < length:
        before = tuple(v[:, :-reach] for v in values)
        now = tuple(v[:, reach:] for v in values)
        joined = combine(before, now)
        values = [
            torch.cat([v[:, :reach], as_tensor(j).to(v.dtype)], 1)
            for v, j in zip(values, joined if isinstance(joined, tuple) else (joined,), strict=True)
        ]
        reach *= 2
    return tuple(values)


def sort(values: Sequence[torch.Tensor], descending: bool) -> tuple[torch.Tensor, ...]:
    """Rows in order of the first values, the others taken along; equal ones stay in their order."""
    keys, order = torch.sort(values[0], dim=1, stable=True, descending=descending)
    return (keys, *(v.gather(1, order) for v in values[1:]))


def search(
    values: torch.Tensor, count: int, boundary: Callable[[torch.Tensor], torch.Tensor], right: bool
) -> torch.Tensor:
    """The number of boundaries that lie before a value, of ``count`` in ascending order; NaN lies behind them all."""
    low = torch.zeros(values.shape, dtype=torch.int64)
    high = torch.full(values.shape, count, dtype=torch.int64)
    for _ in range(max(count, 1).bit_length()):
        middle = (low + high) // 2
        there = boundary(middle.clamp(max=max(count - 1, 0)))
        before = ~(there > values) if right else ~(there >= values)
        go = (low < high) & before
        low, high = torch.where(go, middle + 1, low), torch.where(go, high, torch.where(low < high, middle, high))
    return low
