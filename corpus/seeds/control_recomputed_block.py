"""Two residual blocks that are computed again in the backward pass instead of being kept.

``torch.utils.checkpoint`` around each: what the second run computes must be what the first one did."""

import torch
from torch.utils.checkpoint import checkpoint

ORIGIN = "activation checkpointing in transformer training (own spelling)"


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(12) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x * x.sigmoid()


def make_inputs():
    return [torch.randn(5, 3, 12, requires_grad=True)]


def make_fn():
    return Stack()
