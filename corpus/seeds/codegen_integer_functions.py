"""Integer arithmetic in four widths: wrapping sums, quotients and remainders of both signs, bits, shifts, comparisons.

Vector code for each width is another one, and so is what is left behind the last whole vector."""

import torch

ORIGIN = "fixed-point filters and hash functions (own spelling)"
TYPES = (torch.int64, torch.int32, torch.int8, torch.uint8)


def make_inputs():
    made = []
    for dtype in TYPES:
        low = 0 if dtype == torch.uint8 else -100
        made += [torch.randint(low, 100, (67,)).to(dtype), (torch.randint(1, 8, (67,))).to(dtype)]
    return made


def arithmetic(x, y):
    signed = x.dtype != torch.uint8
    sums = [x + y, x - y, x * y, x + 3, 3 - x, torch.add(x, y, alpha=2), x * x]
    quotients = [x // y, torch.div(x, y, rounding_mode="trunc"), x / y, x % y, torch.fmod(x, y), x // 3, x % 5]
    bits = [x & y, x | y, x ^ y, ~x, x << 1, x >> 1, x << (y & 3), x >> (y & 3)]
    compared = [x > y, x == y, x <= 3, torch.maximum(x, y), torch.minimum(x, y), x.clamp(2, 50), x.sign()]
    others = [torch.where(x > y, x, y), x.bool(), x.float() * 0.5, torch.abs(x) if signed else x, x.logical_not()]
    return [*sums, *quotients, *bits, *compared, *others]


def fn(a, b, c, d, e, f, g, h):
    return (*arithmetic(a, b), *arithmetic(c, d), *arithmetic(e, f), *arithmetic(g, h))
