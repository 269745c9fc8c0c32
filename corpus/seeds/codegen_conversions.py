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
    return (*converted, *flags, *mixed, *promoted)
