"""Weight-normalised linear layer followed by an L2-normalised embedding.

The direction matrix is divided by row norms and scaled by a gain; the output is
projected on the unit sphere with F.normalize."""

import torch
import torch.nn.functional as F

ORIGIN = "projection head with weight normalisation"


def make_inputs():
    x = torch.randn(5, 12)
    direction = torch.randn(7, 12, requires_grad=True)
    return [x, direction, torch.rand(7, 1).add_(0.5).requires_grad_()]


def fn(x, direction, gain):
    norm = torch.linalg.vector_norm(direction, dim=1, keepdim=True)
    weight = gain * direction / norm
    z = F.linear(x, weight)
    return F.normalize(z, dim=-1), norm.squeeze(1)
