"""Operators of one element whose kernels give other bits for a number by where it lies in memory.

python bench/lanes.py [OPERATOR ...]

Each is run on contiguous memory, on every third element of a larger one, from the second element on and on the last
five alone: on every 16-bit value, and on hard and random ones of 32 and 64 bits.  What is printed differs, with the
number of elements; the rest is ``LANE_INDEPENDENT`` of ``fxmorph/prove/terms/term_rules.py``.  About two minutes.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable

import torch

from fxmorph.prove.smt.screening import hard_values
from fxmorph.prove.terms.term_rules import LANE_INDEPENDENT

KNOWN = "atan2 atanh celu cosh elu exp2 fmod gelu hypot ldexp logaddexp logaddexp2 logit mish pow remainder rsqrt selu \
sigmoid silu sinh softplus softshrink special_i0e"
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
RANDOM = 20_000


def values(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Hard values and random ones of many magnitudes, or all that there are of 16 bits."""
    if dtype.itemsize == 2:
        return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)
    scale = torch.exp2(torch.randint(-30, 30, (RANDOM,), generator=generator).double())
    wide = torch.randn(RANDOM, generator=generator, dtype=torch.float64) * scale
    near = torch.rand(RANDOM, generator=generator, dtype=torch.float64) * 8 - 4
    return torch.cat([hard_values(dtype), wide.to(dtype), near.to(dtype)])


def bits(t: torch.Tensor) -> torch.Tensor:
    if not t.is_floating_point():
        return t
    one_nan = torch.where(t.isnan(), torch.full_like(t, math.nan), t)
    return one_nan.contiguous().view(INTEGERS[t.element_size()])


def apart(function: Callable[..., torch.Tensor], given: list[torch.Tensor]) -> int:
    """How many elements differ by where they lie."""

    def strided(t: torch.Tensor) -> torch.Tensor:
        return torch.stack([t, t, t], -1)[:, 0]

    whole = bits(function(*given))
    elsewhere = bits(function(*map(strided, given)))
    later = bits(function(*(t[1:] for t in given)))
    alone = bits(function(*(t[-5:].clone() for t in given)))
    return int((whole != elsewhere).sum() + (whole[1:] != later).sum() + (whole[-5:] != alone).sum())


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    for name in sys.argv[1:] or sorted({*LANE_INDEPENDENT, *KNOWN.split()}):
        operator = getattr(torch.ops.aten, name, None)
        if operator is None:
            continue
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            x = values(dtype, generator)
            y = x[torch.randperm(len(x), generator=generator)]
            for given in ([x], [x, y], [x, y, x.flip(0)]):
                try:
                    differ = apart(operator, given)
                except (RuntimeError, TypeError, ValueError):
                    continue  # it takes another number of operands
                if differ:
                    print(f"{name:<14} {dtype!s:<15} of {len(given)}: {differ} elements", flush=True)


if __name__ == "__main__":
    main()
