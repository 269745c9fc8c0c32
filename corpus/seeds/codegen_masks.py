"""Conditions, masked reads and flags in vector loops: nested choices, paddings that are computed with, counts.

What lies outside of a mask has another value each time, and is reduced or compared afterwards."""

import torch
import torch.nn.functional as F

ORIGIN = "attention masks and ragged batches (own spelling)"


def make_inputs():
    return [torch.randn(5, 35), torch.rand(5, 35) > 0.4, torch.randint(0, 36, (5,)), torch.randint(-9, 9, (5, 35))]


def fn(x, keep, lengths, whole):
    inside = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
    nested = torch.where(keep, torch.where(x > 0, x, -1.0), torch.where(inside, 2.0, x * 3))
    flags = [
        keep & inside,
        keep | ~inside,
        keep ^ (x > 0),
        keep.logical_and(whole),
        inside.logical_xor(keep),
        keep == inside,
        keep != inside,
        torch.maximum(keep, inside),
        torch.minimum(keep, x > 0),
    ]
    padded = [F.pad(x, (2, 3), value=v).amax(1) for v in (-5.0, 5.0)] + [
        F.pad(x, (1, 1)).prod(1),
        F.pad(x * 2, (0, 4), value=1.0).sum(1),
    ]
    padded += [
        F.pad(whole, (3, 2), value=-1).amin(1),
        F.pad(keep, (1, 2), value=True).all(1),
        F.pad(x, (2, 2), value=float("inf")).amin(0),
    ]
    filled = [
        x.masked_fill(~inside, float("-inf")).softmax(1),
        x.masked_fill(keep, 0).sum(1),
        whole.masked_fill(keep, 7) * 2,
    ]
    counted = [
        keep.sum(1),
        (keep & inside).float().mean(0),
        inside.cumsum(1),
        keep.any(0),
        (x > whole).all(1),
        keep.int() - inside.int(),
    ]
    joined = [
        torch.cat([x, x * 2, nested], 1).amax(1),
        torch.cat([whole, whole + 1]) * 2,
        torch.cat([keep, inside], 1).sum(1),
    ]
    chosen = [
        torch.where(keep, whole, 0),
        torch.where(keep, x.bfloat16(), 1.0),
        torch.where(x > 0, 1, whole),
        x * keep,
        x + inside,
    ]
    return (nested, *flags, *padded, *filled, *counted, *joined, *chosen)
