"""F.scaled_dot_product_attention with is_causal, from a fused qkv tensor.

q, k and v are strided views of one packed projection, as flash-attention style
code passes them; gradients flow back into the packed tensor."""

import torch
import torch.nn.functional as F

ORIGIN = "GPT block using the fused attention entry point"


def make_inputs():
    return [torch.randn(2, 6, 3, 2, 8, requires_grad=True)]


def fn(qkv):
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).flatten(-2)
