"""Floating-point functions of one and two arguments side by side, on rows that are no whole number of vectors.

Each is one operation of generated code, printed for vectors and once more for the remainder; NaN, infinities and
both zeros are among the numbers."""

import torch

ORIGIN = "element-wise functions of a signal-processing library (own spelling)"
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.5]


def make_inputs():
    x = torch.cat([torch.tensor(SPECIAL), torch.randn(58) * 2])
    return [x, x.flip(0) * 0.75, torch.rand(67) + 0.25]


def fn(x, y, positive):
    rounded = [x.floor(), x.ceil(), x.trunc(), x.round(), x.frac(), x.sign(), x.abs(), -x]
    two = [torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y), x.copysign(y)]
    divided = [torch.fmod(x, 1.5), torch.remainder(x, 1.5), torch.fmod(x, positive), torch.remainder(x, positive)]
    clamped = [x.clamp(-1, 1), x.clamp_min(0.5), x.clamp(max=y), x.relu(), torch.nn.functional.hardtanh(x, -1, 2)]
    asked = [
        x.isnan(),
        x.isinf(),
        x.signbit(),
        x > y,
        x <= y,
        x == y,
        x != y,
        ~(x < y),
        (x > 0) & (y > 0),
        (x > 0) ^ (y > 0),
    ]
    chosen = [torch.where(x > y, x, y), torch.where(x.isnan(), 0.0, x), x.masked_fill(y < 0, 3.0), x.nan_to_num(7.0)]
    smooth = [
        positive.sqrt(),
        positive.rsqrt(),
        positive.log(),
        positive.log1p(),
        positive.reciprocal(),
        positive.log2(),
    ]
    grown = [
        y.exp(),
        y.expm1(),
        y.exp2(),
        y.tanh(),
        y.sigmoid(),
        y.sin(),
        y.cos(),
        y.atan(),
        y.erf(),
        y.sinh(),
        y.asinh(),
    ]
    turns = [y.tan(), y.cosh(), y.erfc(), (y / 4).asin(), (y / 4).acos(), (positive + 1).acosh(), positive.log10()]
    parts = torch.frexp(positive)
    powers = [x**2, x**3, positive**0.5, positive**x, torch.hypot(x, y), torch.atan2(y, positive), positive.lgamma()]
    return (*rounded, *two, *divided, *clamped, *asked, *chosen, *smooth, *grown, *turns, *parts, *powers)
