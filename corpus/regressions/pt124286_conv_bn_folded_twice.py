"""Issue 124286: a batch norm folded twice into its convolution.

The module uses the same conv-norm pair for two crops. With freezing, the fold was
done once per call site, so the weights were scaled twice."""

import torch
from torch import nn

ORIGIN = "pytorch/pytorch#124286"
EXPECTED = "finding"
BROKEN_IN = "2.1.2"
META = {"no_grad": True, "config": {"freezing": True}}


class SharedStem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        self.norm.running_mean.uniform_(-1.0, 1.0)
        self.norm.running_var.uniform_(0.3, 3.0)

    def embed(self, crop):
        return torch.relu(self.norm(self.conv(crop)))

    def forward(self, image):
        return self.embed(image[:, :, :6]) - self.embed(image[:, :, 3:])


def make_fn():
    return SharedStem().eval()


def make_inputs():
    return [torch.randn(3, 2, 9, 7)]
