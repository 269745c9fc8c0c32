"""Orthogonal polynomials, which kernels compute from degree to degree: each step rounds, and the next carry it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

#: A degree beyond this is not followed: what code makes of it is not judged.
HIGHEST = 1024
#: Of n steps each rounds, and so do their coefficients, which a polynomial near the ends of its interval feels n times
#: as much.  Measured against float64 up to degree 255, on [-10, 10] and close to the ends: at most a half of this.
STEP_UNITS = 8.0


@dataclass(frozen=True)
class Recurrence:
    """p₀ = 1, p₁ = ``first(x)``, ``over(k)`` pₖ₊₁ = ``slope(k, x)`` pₖ - ``back(k)`` pₖ₋₁ (Abramowitz and Stegun,
    table 22.7).
    """

    first: Callable[[torch.Tensor], torch.Tensor]
    slope: Callable[[int, torch.Tensor], torch.Tensor]
    back: Callable[[int], float] = lambda k: 1.0
    over: Callable[[int], float] = lambda k: 1.0


_FIRSTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1,
}  # fmt: skip


def _doubled(k: int, x: torch.Tensor) -> torch.Tensor:
    return 2 * x


RECURRENCES = {
    **{f"special_chebyshev_polynomial_{kind}": Recurrence(first, _doubled) for kind, first in _FIRSTS.items()},
    "special_hermite_polynomial_h": Recurrence(lambda x: 2 * x, _doubled, back=lambda k: 2.0 * k),
    "special_hermite_polynomial_he": Recurrence(lambda x: x, lambda k, x: x, back=float),
    "special_laguerre_polynomial_l": Recurrence(
        lambda x: 1 - x, lambda k, x: 2 * k + 1 - x, back=float, over=lambda k: k + 1.0
    ),
    "special_legendre_polynomial_p": Recurrence(
        lambda x: x, lambda k, x: (2 * k + 1) * x, back=float, over=lambda k: k + 1.0
    ),
}
_SHIFTED = "shifted_"


def by_recurrence(name: str) -> bool:
    """Whether the operator is such a polynomial, or one of them shifted to [0, 1]."""
    return name.replace(_SHIFTED, "") in RECURRENCES


def steps_error(name: str, x: Any, degree: Any, shadow: torch.Tensor) -> torch.Tensor:
    """How far code may be from ``shadow`` because of its steps, in units of roundoff of its dtype; NaN where nobody
    knows.

    ``x`` and ``degree`` are the operator's arguments, tensors or numbers, in fp64.
    """
    rule = RECURRENCES[name.replace(_SHIFTED, "")]
    at = torch.as_tensor(x, dtype=torch.float64, device=shadow.device)
    if _SHIFTED in name:
        at = 2 * at - 1
    n = torch.as_tensor(degree, dtype=torch.float64, device=shadow.device).nan_to_num(posinf=HIGHEST + 1.0).trunc()
    at, n = torch.broadcast_tensors(at, n)
    before, now = torch.ones_like(at), rule.first(at)
    largest = torch.maximum(before, now.abs())
    for k in range(1, min(int(n.max()) if n.numel() else 0, HIGHEST)):
        before, now = now, (rule.slope(k, at) * now - rule.back(k) * before) / rule.over(k)
        largest = torch.where(k < n, torch.maximum(largest, now.abs()), largest)
    return torch.where(n > HIGHEST, torch.nan, n.clamp(min=0) * (STEP_UNITS + n) * largest)
