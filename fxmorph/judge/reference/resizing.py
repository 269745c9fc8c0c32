"""What operators that resize are off by because they round the coordinates that they read at.

The place of an output element in the input is a product of its number with a scale, both rounded: far from the origin
it is off by some part of an element, and the result by that part of the difference of two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from fxmorph.judge.reference.operator_call import OperatorCall

_FORWARD = """upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa""".split()
_BACKWARD = frozenset(f"{name}_backward" for name in _FORWARD)
RESIZES = _BACKWARD.union(_FORWARD)
#: Units of roundoff of a coordinate by which it is off, and what weights of neighbours change by for it: a bicubic
#: one by less than twice.
COORDINATE_UNITS = 4.0
_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def off_by_coordinates(call: OperatorCall, result: torch.Tensor) -> torch.Tensor:
    """Of each element of ``result`` what it is off by, over the roundoff of the coordinates."""
    given = call.args[0].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    if not result.numel() or not given.numel():
        return torch.zeros_like(result)
    spatial = range(2, result.ndim)
    if call.name in _BACKWARD:
        size = call.func(given.abs(), *call.args[1:], **call.kwargs).abs()
        size = 2 * _largest_around(size, [3] * len(spatial))
        return size * sum(_places(result, d, result.shape[d]) for d in spatial)
    total = torch.zeros_like(result)
    shrunk = [math.ceil(max(given.shape[d] / result.shape[d], 1.0)) for d in spatial]
    for d in spatial:
        steps = given.diff(dim=d).abs()
        if steps.shape[d]:
            first = steps.narrow(d, 0, 1)
            steps = _largest_around(torch.cat([first, steps], d), [2 * s + 3 for s in shrunk])
            steps = F.interpolate(steps, result.shape[2:], mode="nearest-exact")
            total += steps * _places(result, d, given.shape[d])
    return total


def _places(result: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The coordinates of the elements along ``dim``, where there are ``size``."""
    count = result.shape[dim]
    places = (torch.arange(count, dtype=result.dtype, device=result.device) + 0.5) * (size / count)
    return places.reshape(-1, *(1,) * (result.ndim - dim - 1))


def _largest_around(t: torch.Tensor, width: Sequence[int]) -> torch.Tensor:
    """Of each element the largest in a window of the spatial dimensions, of odd ``width``."""
    return _POOLS[len(width)](t, list(width), stride=1, padding=[w // 2 for w in width])
