"""State that a training step writes behind autograd's back: without gradients, through detached tensors, and openly.

What is read before a write, after it and through a view of it goes into the loss."""

import torch

ORIGIN = "training steps with running state (own spelling)"


def make_inputs():
    return [
        torch.randn(4, 5, requires_grad=True), torch.randn(5), torch.randn(4, 5), torch.zeros(()), torch.randn(4, 5),
        torch.zeros(5, dtype=torch.int64),
    ]  # fmt: skip


def fn(weight, mean, memory, steps, momentum, counts):
    before = (weight + memory).sum(1)
    with torch.no_grad():
        mean.lerp_(weight.mean(0), 0.25)
        steps += 1
        counts += (weight > 0).sum(0)
    memory.detach().mul_(0.9).add_(weight.detach(), alpha=0.1)
    momentum.copy_(weight * mean)
    loss = (momentum * memory.sigmoid()).sum() / steps
    return before, loss, counts.to(weight.dtype) * mean, momentum[1:] * 2
