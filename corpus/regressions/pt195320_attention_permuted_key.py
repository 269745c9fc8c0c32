"""Issue 195320: the attention pattern accepts any permutation of the key.

The key is laid out (batch, head, channel, time) by one permute, which is a correct
program. The fused call took it for the usual layout."""

import torch
from torch import nn

ORIGIN = "pytorch/pytorch#195320"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


class PermutedKeyAttention(nn.Module):
    def __init__(self, heads=5, head_dim=4):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        width = heads * head_dim
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        b, t, _ = x.shape
        shape = (b, t, self.heads, self.head_dim)
        q = self.query(x).view(shape).permute(0, 2, 1, 3)
        k = self.key(x).view(shape).permute(0, 2, 3, 1)
        v = self.value(x).view(shape).permute(0, 2, 1, 3)
        weights = torch.matmul(q, k).mul(0.5).softmax(dim=-1)
        return torch.matmul(weights, v)


def make_fn():
    return PermutedKeyAttention().eval()


def make_inputs():
    return [torch.randn(2, 5, 20)]
