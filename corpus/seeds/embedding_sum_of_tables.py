"""Word, position and segment embeddings added and normalised.

Position ids come from an arange, padding_idx keeps one row without gradient."""

import torch
from torch import nn

ORIGIN = "BERT embedding layer (own spelling)"


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(23, 8, padding_idx=0)
        self.position = nn.Embedding(11, 8)
        self.segment = nn.Embedding(2, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, ids):
        positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        segment = (ids > 11).long()
        x = self.word(ids) + self.position(positions) + self.segment(segment)
        return self.norm(x) * (ids != 0).unsqueeze(-1)


def make_fn():
    return Embeddings()


def make_inputs():
    ids = torch.randint(1, 23, (3, 7))
    ids[1, 4:] = 0
    return [ids]
