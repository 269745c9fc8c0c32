"""Reductions of every kind along the last, the first, the middle and all dimensions, several of one operand together.

Rows and columns are no multiple of a vector's length: what is left over is reduced with what the vectors gave."""

import torch

ORIGIN = "column statistics of a data-frame library (own spelling)"


def make_inputs():
    floats = torch.randn(3, 35, 19)
    return [floats, torch.randint(-50, 50, (35, 19)), torch.rand(19, 35) > 0.9, torch.randn(19, 35).bfloat16()]


def kinds(x, dim):
    extremes = [x.amax(dim), x.amin(dim), x.max(dim), x.min(dim), x.argmax(dim), x.argmin(dim)]
    return [x.sum(dim), x.prod(dim), *extremes, (x > 0).any(dim), (x > 0).all(dim), (x * 2).sum(dim), x.abs().amax(dim)]


def fn(x, whole, flags, short):
    of_floats = [*kinds(x, 2), *kinds(x, 0), *kinds(x, 1), x.sum((0, 2)), x.amax((0, 1)), x.mean((1, 2))]
    moments = [torch.var_mean(x, 2), torch.var_mean(x, 0), x.std(1, correction=0), x.norm(dim=1), x.logsumexp(2)]
    of_all = [x.sum(), x.max(), x.min(), x.argmax(), x.argmin(), x.abs().max() - x.abs().min(), x.mT.argmax()]
    of_whole = [*kinds(whole, 1), *kinds(whole, 0), whole.sum(), whole.max(), whole.prod(1, dtype=torch.float32)]
    of_flags = [flags.any(0), flags.all(1), flags.sum(1), flags.any(), flags.int().cumsum(0), flags.amin(1)]
    of_short = [short.sum(1), short.amax(0), short.mean(1), short.softmax(1), short.float().sum(0), short.argmin(1)]
    below, above, few, many = -x.abs() - 1, x.abs() + 1, -whole.abs() - 1, whole.abs() + 1
    # An accumulator that begins on the wrong side of zero wins here.
    of_one_sign = [below.amax(2), below.argmax(2), below.max(1), below.max(), below.argmax(0), few.amax(1)]
    of_one_sign += [above.amin(2), above.argmin(2), above.min(1), above.min(), above.argmin(0), many.amin(0)]
    of_rows = [x[:, ::2].argmax(), x[..., ::3].argmin(), (x[0, :5, :7:2] + x[1, :5, :1]).argmax()]
    of_rows += [x[:, ::2, 1:].amax((0, 2)), whole[::2, ::3].argmin(), (whole[:, ::2] * 2).max(), x[:, 1::2].sum()]
    both = [x.amax(2) - x.amin(2), x.max(0).values + x.sum(0), whole.amin(1) + whole.amax(1), x.softmax(1), x.cumsum(2)]
    return (*of_floats, *moments, *of_all, *of_whole, *of_flags, *of_short, *of_one_sign, *of_rows, *both)
