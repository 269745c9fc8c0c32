"""Viterbi decoding: maxima and arguments over a transposed transition table.

The best previous state is found with max over dim 1 of a broadcast sum whose
second operand is transposed; the path is traced back with gather."""

import torch

ORIGIN = "CRF tagger, decoding (own spelling)"


def make_inputs():
    return [torch.randn(2, 5, 7).transpose(0, 1), torch.randn(7, 7)]


def fn(emission, transition):
    score, back = emission[0], []
    for step in emission[1:]:
        total = score.unsqueeze(1) + transition.t().unsqueeze(0)
        best, previous = total.max(dim=2)
        score = best + step
        back.append(previous)
    state = score.argmax(dim=1, keepdim=True)
    path = [state]
    for previous in reversed(back):
        state = previous.gather(1, state)
        path.append(state)
    return score.amax(dim=1), torch.cat(path[::-1], dim=1)
