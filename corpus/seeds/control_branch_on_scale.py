"""A layer that takes one of two paths by a statistic of its input, and keeps what both paths share.

``torch.cond`` compiles either path as a graph of its own, which reads tensors from around it; the choice is made
twice, once each way."""

import torch

ORIGIN = "mixed-precision loss scaling and gated layers with torch.cond (own spelling)"


def make_inputs():
    return [torch.randn(6, 13) + 0.5, torch.randn(13, 13) * 0.2, torch.randn(13, 13) * 0.3, torch.tensor(2.0)]


def fn(x, weight, other, scale):
    def scaled(x, scale):
        return (x @ weight) / scale, x.amax(1)

    def clipped(x, scale):
        return (x.clamp(-1, 1) @ other) * scale, x.abs().amax(1)

    hidden, peak = torch.cond(x.mean() > 0, scaled, clipped, (x, scale))
    again, low = torch.cond(hidden.sum() > 1e6, scaled, clipped, (hidden, scale + 1))
    return again + hidden, peak - low, (x * peak[:, None]).sum(0)
