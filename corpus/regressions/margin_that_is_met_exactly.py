"""A score that is smaller by exactly the margin costs nothing, and yet has a gradient when it is compiled.

Eager's backward kernel asks for a positive cost; the decomposition differentiates a clamp, which lets the gradient of
its bound through."""

import torch
import torch.nn.functional as F

ORIGIN = "multi-class margin loss (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.tensor([[0.5, -0.5, 0.5, 0.25]]).requires_grad_(), torch.tensor([0])]


def fn(scores, wanted):
    return F.multi_margin_loss(scores, wanted)
