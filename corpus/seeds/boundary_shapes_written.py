"""Arguments whose shape or strides the program changes in place, some of them with their values.

The caller sees the new shape."""

import torch

ORIGIN = "layout passes that work in place (own spelling)"
META = {"no_grad": True}


def make_inputs():
    return [torch.randn(3, 5), torch.randn(4, 1, 6), torch.randn(2, 3, 4), torch.randn(6), torch.randn(5, 2)]


def fn(turned, squeezed, swapped, widened, both):
    before = turned.sum(0)
    turned.t_()
    squeezed.squeeze_(1)
    swapped.transpose_(0, 2)
    widened.unsqueeze_(0)
    both.mul_(3)
    both.t_()
    both[0] += 1
    return before + turned[:, 0], squeezed * 2, swapped.reshape(4, -1), widened.expand(2, 6) + 1, both.sum(1)
