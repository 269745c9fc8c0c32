"""Load-balancing loss of a router with one_hot and capacity counts.

Position within each expert comes from a cumsum over the one-hot assignment;
tokens above the capacity are dropped from the mask."""

import torch
import torch.nn.functional as F

ORIGIN = "GShard/Switch auxiliary loss and capacity mask (own spelling)"


def make_inputs():
    return [torch.randn(16, 5, requires_grad=True), 4]


def fn(logits, capacity):
    probs = logits.softmax(-1)
    chosen = probs.argmax(-1)
    mask = F.one_hot(chosen, num_classes=5)
    position = torch.cumsum(mask, dim=0) * mask
    kept = mask * (position <= capacity)
    fraction = mask.float().mean(0)
    loss = 5 * torch.sum(fraction * probs.mean(0))
    return loss, kept, position.sum(-1)
