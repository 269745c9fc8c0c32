"""Results of many kinds side by side, in training: differentiable ones, whole numbers, flags, detached ones, twice.

Arguments too: some need gradients and get none, some need none, one is used only where no gradient flows."""

import torch

ORIGIN = "detection heads that return what they decided (own spelling)"


def make_inputs():
    return [
        torch.randint(0, 6, (7,)), torch.randn(7, 6, requires_grad=True), torch.randn(6),
        torch.randn(3, requires_grad=True), torch.rand(7) > 0.5, torch.randn(6, requires_grad=True),
        torch.randn(7, 1, requires_grad=True),
    ]  # fmt: skip


def fn(labels, scores, prior, unused, kept, scale, only_compared):
    shifted = scores * scale + prior
    best = shifted.argmax(1)
    right = (best == labels) & kept
    taken = shifted.gather(1, labels[:, None])[:, 0]
    over = shifted.detach() > only_compared
    probability = shifted.softmax(1)
    return (
        best, probability, right, taken, over, probability.detach() + 1, right.sum(), taken.double().mean(), labels + 1,
        scale.detach() * 2, taken * kept,
    )  # fmt: skip
