"""Average pooling that rounds its size up: the gradient of the last windows, which reach over the edge, is divided
by as many places as a whole window has.

Eager divides by those that lie in the image, forward and backward."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#198119"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(2, 3, 7, 9, requires_grad=True)]


def fn(image):
    return F.avg_pool2d(image, 2, 2, ceil_mode=True) * 2
