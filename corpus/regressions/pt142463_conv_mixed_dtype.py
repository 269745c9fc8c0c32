"""Issue 142463: a bias-free convolution accepts mixed float dtypes.

A float64 signal meets a float32 filter bank; eager raises, the compiled
convolution converted and returned."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#142463"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0"
META = {"raises": True}


def make_inputs():
    return [torch.randn(2, 1, 5, 6, dtype=torch.float64), torch.randn(3, 1, 2, 2)]


def fn(signal, bank):
    response = F.conv2d(signal, bank, padding=1)
    return response.square().mean(dim=(2, 3))
