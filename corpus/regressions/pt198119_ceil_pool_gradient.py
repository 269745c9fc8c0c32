"""Average pooling that rounds its size up: the gradient of the last windows is divided by too much.

They reach over the edge, and eager divides by the places that lie in the image, forward and backward; the compiled
gradient is divided by as many as a whole window has."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#198119"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(2, 3, 7, 9, requires_grad=True)]


def fn(image):
    return F.avg_pool2d(image, 2, 2, ceil_mode=True) * 2
