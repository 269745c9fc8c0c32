"""Max pooling with indices, processed, and unpooled to the old places.

The encoder-decoder pair of SegNet-like networks; the map is trained."""

import torch
import torch.nn.functional as F

ORIGIN = "SegNet-like pooling and unpooling"


def make_inputs():
    return [torch.randn(1, 3, 6, 8, requires_grad=True)]


def fn(x):
    pooled, where = F.max_pool2d(x, 2, return_indices=True)
    coarse = F.avg_pool2d(pooled, 3, stride=1, padding=1, count_include_pad=False)
    restored = F.max_unpool2d(torch.tanh(pooled), where, 2, output_size=x.shape)
    return restored, coarse
