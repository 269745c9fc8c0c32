"""Every conversion between eight dtypes, with arithmetic between, in rows that are no whole number of vectors.

Vector code converts groups of another length for each pair of widths."""

import torch

ORIGIN = "mixed-precision feature packing (own spelling)"
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8)


def make_inputs():
    return [torch.randint(0, 100, (5, 35)).to(dtype) for dtype in TYPES] + [torch.rand(5, 35) > 0.5]


def fn(*inputs):
    flag = inputs[-1]
    converted = [(x + 1).to(dtype) for x in inputs[:-1] for dtype in TYPES if dtype != x.dtype]
    flags = [x.bool() & flag for x in inputs[:-1]] + [flag.to(dtype) for dtype in TYPES]
    mixed = [torch.where(flag, x, y.to(x.dtype)) for x, y in zip(inputs[:-1], inputs[1:-1])]
    promoted = [
        inputs[0] * inputs[4],
        inputs[1] + inputs[0],
        inputs[5] + inputs[7],
        inputs[6] * 2.5,
        inputs[2] - inputs[4],
    ]
    short, half, words = inputs[1], inputs[2], inputs[5].to(torch.int16) + 15360
    moved = [short.flip(0), torch.cat([half, half]), short.mT.contiguous(), torch.where(flag, half, half.roll(1, 0))]
    bits = [short.view(torch.int16) & 0x7FF0, words.view(torch.float16) * 2, (short + 1).view(torch.int16) + words]
    chained = [(short * 1.5).half().bfloat16() + 1, (half + 0.5).bfloat16().float(), (half * half).float() - half]
    return (*converted, *flags, *mixed, *promoted, *moved, *bits, *chained)
