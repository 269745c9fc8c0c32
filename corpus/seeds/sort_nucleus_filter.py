"""Top-p filtering of logits: sort, cumulative sum, scatter back.

Tokens beyond the nucleus get -inf; the first token above the threshold stays,
by shifting the removal mask with a slice assignment."""

import torch

ORIGIN = "nucleus sampling filter of text generators (own spelling)"


def make_inputs():
    return [torch.randn(3, 11) * 2, 0.8]


def fn(logits, top_p):
    ordered, index = torch.sort(logits, descending=True, dim=-1)
    cumulative = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1)
    remove = cumulative > top_p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    mask = torch.zeros_like(remove).scatter(-1, index, remove)
    return torch.softmax(logits.masked_fill(mask, float("-inf")), dim=-1)
