"""A transformer block in training mode: dropout on the attention weights, on both residual branches and inside
the feed-forward network, so that the backward pass needs the masks that the forward pass has drawn."""

import torch
import torch.nn.functional as F
from torch import nn

ORIGIN = "pre-norm encoder block, trained with dropout (own spelling)"


class Block(nn.Module):
    def __init__(self, width=16, heads=2, p=0.2):
        super().__init__()
        self.heads, self.p = heads, p
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = F.dropout((q @ k.transpose(-2, -1) * (w // self.heads) ** -0.5).softmax(-1), self.p)
        x = x + F.dropout(self.out((weights @ v).transpose(1, 2).reshape(b, n, w)), self.p)
        return x + F.dropout(self.narrow(F.dropout(F.gelu(self.wide(self.norm2(x))), self.p)), self.p)


def make_inputs():
    return [torch.randn(2, 6, 16, requires_grad=True)]


def make_fn():
    return Block()
