"""Transposes of every dtype computed with: loads and stores across the rows, in both directions, with edges left over.

Tiles as high and wide as a vector are turned in registers; what is left at the right and at the bottom is shorter."""

import torch

ORIGIN = "channel-last and channel-first conversion (own spelling)"
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.int8, torch.float64)


def make_inputs():
    return [*(torch.randint(0, 50, (37, 41)).to(dtype) for dtype in TYPES), torch.rand(37, 41) > 0.5]


def turned(x):
    """Read across the rows, written across them, and both beside what is not."""
    return [x.mT + 1, (x + 1).mT.contiguous(), x.mT.contiguous() * 2, x.mT[3:40, 5:30] + x[:37, 2:27]]


def fn(*inputs):
    floats, short, flag = inputs[0], inputs[1], inputs[-1]
    of_each = [y for x in inputs[:-1] for y in turned(x)]
    flags = [flag.mT.contiguous(), flag.mT & (floats.mT > 25), torch.where(flag.mT, floats.mT, 0) * 2]
    mixed = [floats.mT.to(short.dtype) + short.mT, short.mT.float() * 2, inputs[5].mT / 255, inputs[3].mT * floats.mT]
    rows = torch.arange(41, device=floats.device)[:, None]
    placed = [floats.mT + rows, floats.mT * (rows % 3), torch.where(rows < 20, floats.mT, -floats.mT)]
    reduced = [floats.mT.sum(1), floats.mT.amax(0), (floats.mT * 2).mean(1), short.mT.amax(1), inputs[3].mT.sum(0)]
    batched = torch.stack([floats, floats * 2, floats - 1])
    axes = [batched.permute(2, 0, 1) + 1, batched.permute(1, 2, 0) * 2, batched.transpose(0, 2).softmax(1)]
    return (*of_each, *flags, *mixed, *placed, *reduced, *axes)
