"""The same kernel under constant, reflect and circular padding.

Each padded copy goes through a valid convolution; the sum of squares makes the
borders matter in the gradient."""

import torch
import torch.nn.functional as F

ORIGIN = "boundary handling in image filters (own spelling)"


def make_inputs():
    x = torch.randn(1, 2, 5, 7, requires_grad=True)
    return [x, torch.randn(3, 2, 3, 3, requires_grad=True)]


def fn(x, kernel):
    rows = []
    for mode in ("constant", "reflect", "circular"):
        padded = F.pad(x, (1, 1, 1, 1), mode=mode)
        rows.append(F.conv2d(padded, kernel).square().mean(dim=(2, 3)))
    return torch.stack(rows, dim=1)
