"""Half-precision scores, softmax in float32, mixture back in half.

bfloat16 and float16 branches side by side; the sum of the weights is checked in
float32 by the caller."""

import torch
import torch.nn.functional as F

ORIGIN = "eager attention of half-precision language models"


def make_inputs():
    return [torch.randn(2, 5, 9), torch.randn(2, 9, 4)]


def fn(scores, values):
    low = scores.to(torch.bfloat16)
    weights = F.softmax(low, dim=-1, dtype=torch.float32)
    mixed = weights.to(torch.bfloat16) @ values.to(torch.bfloat16)
    half = scores.half()
    centred = half.float() - half.float().amax(-1, keepdim=True)
    probs = centred.exp() / centred.exp().sum(-1, keepdim=True)
    return mixed, probs.half(), weights.sum(-1)
