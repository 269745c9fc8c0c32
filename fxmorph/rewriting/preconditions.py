"""Preconditions on inputs: their names, which are tried, and where values meet them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import torch

#: Sets of preconditions on every input, weakest and smallest first.
PRECONDITIONS = (
    ("no_nan",),
    ("nonzero",),
    ("nonneg",),
    ("finite",),
    ("finite", "nonzero"),
    ("finite", "nonneg"),
    ("finite", "nonneg", "nonzero"),
)


def meet(names: Collection[str], values: torch.Tensor) -> None:
    """Change values in place until they meet the named preconditions; truth values meet all."""
    if values.dtype == torch.bool or values.is_complex():
        return
    if "finite" in names and values.is_floating_point():
        values.nan_to_num_(1.0, 2.0, -2.0)
    if "no_nan" in names and values.is_floating_point():
        values.nan_to_num_(1.0, math.inf, -math.inf)
    if "nonneg" in names:
        values.abs_()
        values[values < 0] = 1  # the least integer has no absolute value
    if "nonzero" in names:
        values[values == 0] = 1


def met(names: Iterable[str], columns: Sequence[torch.Tensor]) -> torch.Tensor:
    """Where all of ``columns`` (1-D, alike long) meet the named preconditions; Booleans meet all.  Returns bool."""
    out = torch.ones_like(columns[0], dtype=torch.bool) if columns else torch.ones(1, dtype=torch.bool)
    wanted = tuple(names)
    for column in columns:
        if column.dtype == torch.bool:
            continue
        for name in wanted:
            if name == "no_nan":
                out &= ~column.isnan()
            elif name == "finite":
                out &= column.isfinite()
            elif name in ("nonneg", "nonzero"):
                out &= column >= 0 if name == "nonneg" else column != 0
            else:
                raise ValueError(f"no precondition {name!r}")
    return out
