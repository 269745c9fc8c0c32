"""Token-mixing and channel-mixing MLPs with squared ReLU.

The token mixer works on the transposed activations, as in MLP-Mixer."""

import torch
from torch import nn

ORIGIN = "MLP-Mixer block with Primer's squared ReLU (own spelling)"


class Mixer(nn.Module):
    def __init__(self, tokens=5, width=8):
        super().__init__()
        self.token_in, self.token_out = nn.Linear(tokens, 11), nn.Linear(11, tokens)
        self.chan_in, self.chan_out = nn.Linear(width, 12), nn.Linear(12, width)

    def forward(self, x):
        t = self.token_in(x.transpose(1, 2)).relu().square()
        x = x + self.token_out(t).transpose(1, 2)
        c = self.chan_in(x).relu() ** 2
        return x + self.chan_out(c)


def make_fn():
    return Mixer()


def make_inputs():
    return [torch.randn(2, 8, 5).transpose(1, 2)]
