"""Results in many layouts, in training: their gradients arrive in layouts of their own.

Turned, channels last, with gaps, expanded, one element wide, and of no elements at all."""

import torch
import torch.nn.functional as F

ORIGIN = "backbones that return feature maps of several layouts (own spelling)"


def make_inputs():
    image = torch.randn(2, 3, 6, 5).to(memory_format=torch.channels_last).requires_grad_()
    return [image, torch.randn(4, 3, 3, 3, requires_grad=True), torch.randn(6, 5, requires_grad=True)]


def fn(image, kernel, grid):
    features = F.conv2d(image, kernel, padding=1)
    turned = (features * 2).permute(2, 0, 3, 1)
    gaps = features.relu()[:, ::2]
    spread = grid.sin().sum(1, keepdim=True).expand(6, 4)
    thin = grid.cos()[:, 2:3]
    nothing = grid.exp()[:0]
    dense = (grid + 1).t().contiguous().t()
    return turned, gaps, spread, thin, nothing, dense, features.sum((2, 3)).unsqueeze(-1)
