"""Beam-search bookkeeping: best candidates, parents, reordered histories.

topk over flattened scores gives parent beams by integer division; histories are
gathered along the beam dimension."""

import torch

ORIGIN = "beam-search step of a text generator (own spelling)"


def make_inputs():
    scores = torch.randn(2, 3)
    log_p = torch.log_softmax(torch.randn(3, 2, 7), dim=-1).transpose(0, 1)
    return [scores, log_p, torch.randint(0, 7, (2, 3, 4))]


def fn(scores, log_p, history):
    total = (scores.unsqueeze(-1) + log_p).flatten(1)
    best, flat = total.topk(3, dim=1)
    parent = torch.div(flat, 7, rounding_mode="floor")
    token = flat % 7
    index = parent.unsqueeze(-1).expand(-1, -1, history.size(-1))
    history = history.gather(1, index)
    return best, torch.cat([history, token.unsqueeze(-1)], dim=-1)
