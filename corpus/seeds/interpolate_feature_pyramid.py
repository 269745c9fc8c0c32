"""Top-down feature pyramid with nearest upsampling and lateral sums.

Sizes are odd, so the upsampling factor is not a whole number."""

import torch
import torch.nn.functional as F

ORIGIN = "feature pyramid network, top-down path (own spelling)"


def make_inputs():
    c3 = torch.randn(1, 4, 11, 13).to(memory_format=torch.channels_last)
    c4 = torch.randn(1, 4, 6, 7).to(memory_format=torch.channels_last)
    return [c3, c4, torch.randn(1, 4, 3, 4)]


def fn(c3, c4, c5):
    p4 = c4 + F.interpolate(c5, size=c4.shape[-2:], mode="nearest")
    p3 = c3 + F.interpolate(p4, size=c3.shape[-2:], mode="nearest")
    return p3, p4, F.max_pool2d(c5, 1, stride=2)
