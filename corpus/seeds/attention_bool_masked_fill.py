"""Cross-attention that drops masked positions with a bool mask.

Queries and keys have different lengths; the mask comes from sequence lengths by
comparing with an arange, and the masked weights are zeroed after the softmax."""

import torch

ORIGIN = "sequence-to-sequence attention over encoder states with lengths"


def make_inputs():
    lengths = torch.tensor([3, 5, 7])
    return [torch.randn(3, 4, 10), torch.randn(3, 7, 10), lengths]


def fn(query, memory, lengths):
    steps = torch.arange(memory.size(1), device=memory.device)
    hidden = steps[None, :] >= lengths[:, None]
    scores = torch.bmm(query, memory.transpose(1, 2))
    scores = scores.masked_fill(hidden.unsqueeze(1), torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=2).masked_fill(hidden.unsqueeze(1), 0.0)
    return torch.bmm(weights, memory), weights
