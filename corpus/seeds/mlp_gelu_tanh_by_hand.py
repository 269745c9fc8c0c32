"""Feed-forward block with the tanh approximation of GELU written out.

Conv1D-style weights (in, out) and addmm over flattened tokens."""

import math

import torch

ORIGIN = "GPT-2-like feed-forward block (own spelling)"


def make_inputs():
    x = torch.randn(2, 5, 8, requires_grad=True)
    w1 = torch.randn(8, 20).mul_(0.3).requires_grad_()
    w2 = torch.randn(20, 8).mul_(0.3).requires_grad_()
    return [x, w1, torch.zeros(20), w2, torch.zeros(8)]


def gelu(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def fn(x, w1, b1, w2, b2):
    flat = x.view(-1, x.size(-1))
    hidden = gelu(torch.addmm(b1, flat, w1))
    return x + torch.addmm(b2, hidden, w2).view(x.shape)
