"""Frame stack shifted by one and written back into itself.

roll makes room at the end of the stack, copy_ stores it, the newest frame goes
to the last row; a flipped copy is the network input."""

import torch

ORIGIN = "frame stacking for Atari-like agents (own spelling)"


def make_inputs():
    return [torch.arange(24.0).view(4, 6), torch.randn(6)]


def fn(stack, frame):
    oldest = stack[0].clone()
    stack.copy_(stack.roll(-1, dims=0))
    stack[-1] = frame
    return stack.flip(0) / 10.0, oldest


def drive(g, stack, frame):
    return g(stack, frame), g(stack, frame * 2)
