"""What rounding does to a variance that is computed around a running mean (Welford 1962), as Inductor computes it.

Each step rounds the mean.  Roundings of random values go either way.  Where values rise or fall steadily, each step
adds about the same to the mean, and is rounded the same way: the mean drifts off, in proportion to the number of terms.
(The sum of squares is a sum, see ``sums.py``.)
``bench/welford.py`` compares what is allowed with compiled code.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fxmorph.judge.reference.sums import in_rows

#: Units of roundoff of the mean by which each step may have moved squares and mean: half as much again as the largest
#: measured, over three, since an envelope is three times the spread of its lanes.
SQUARES_DRIFT, MEAN_DRIFT = 0.2, 0.16


class RunningMean(Protocol):
    """How a lane sees the running mean of a variance, and what comes of it."""

    def seen(self, mean: Tensor, terms: float) -> Tensor:
        """What each of the ``terms`` elements of ``mean``, expanded, has taken off: of a state of its own."""
        ...

    def drifted(self, x: Tensor, dims: list[int], squares: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of squares over ``dims`` and the mean (of one shape), moved by the drift."""
        ...


class ExactMean:
    """A running mean over the reals."""

    def seen(self, mean: Tensor, terms: float) -> Tensor:
        return mean

    def drifted(self, x: Tensor, dims: list[int], squares: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
        return squares, mean


def drift(x: Tensor, dims: list[int], unit: float) -> tuple[Tensor, Tensor]:
    """How far the running sum of squares and the running mean of real ``x`` over ``dims`` may drift, in fp64.

    ``unit`` is the roundoff of a step.  Shapes are those of ``x`` without ``dims``.
    """
    ordered = in_rows(x, dims)
    steps = torch.arange(1, ordered.shape[-1] + 1, dtype=x.dtype, device=x.device)
    mean = ordered.cumsum(-1) / steps
    before = torch.nn.functional.pad(mean, (1, -1))
    ahead = ((ordered - before) * mean.abs() * steps)[..., 1:]
    together, apart = ahead.sum(-1).abs(), ahead.abs().sum(-1)
    steadiness = (together / apart).nan_to_num(nan=0.0)
    of_squares = 2 * unit * SQUARES_DRIFT * together
    of_mean = unit * MEAN_DRIFT * steadiness * ordered.shape[-1] * mean[..., -1:].abs().sum(-1)
    return of_squares.nan_to_num(nan=0.0, posinf=0.0), of_mean.nan_to_num(nan=0.0, posinf=0.0)
