"""Space-to-depth, pixel shuffle and stepped slices returned as views.

The input is every second column of a wider tensor; outputs are a channels_last
map, a transposed view and a contiguous copy."""

import torch
import torch.nn.functional as F

ORIGIN = "super-resolution pre- and post-processing (own spelling)"


def make_inputs():
    wide = torch.randn(1, 4, 6, 16)
    return [wide[..., 1::2]]


def fn(x):
    depth = F.pixel_unshuffle(x, 2)
    bright = depth.mean(dim=1, keepdim=True) + depth
    restored = F.pixel_shuffle(bright, 2)
    last = (restored * 2).to(memory_format=torch.channels_last)
    return last, x.transpose(1, 3), restored[:, ::2].contiguous()
