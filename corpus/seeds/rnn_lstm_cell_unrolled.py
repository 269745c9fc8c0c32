"""LSTM unrolled over time with one fused gate matrix.

chunk(4) splits the gates; every hidden state is kept and stacked (training)."""

import torch

ORIGIN = "LSTM written as a loop over time steps"


def make_inputs():
    x = torch.randn(5, 2, 3, requires_grad=True)
    w_x = torch.randn(3, 16).mul_(0.4).requires_grad_()
    w_h = torch.randn(4, 16).mul_(0.4).requires_grad_()
    return [x, torch.zeros(2, 4), torch.zeros(2, 4), w_x, w_h]


def fn(x, h, c, w_x, w_h):
    outputs = []
    for step in x.unbind(0):
        i, f, g, o = (step @ w_x + h @ w_h).chunk(4, dim=1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs), (h, c)
