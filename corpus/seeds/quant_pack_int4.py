"""Two 4-bit values packed in a byte and unpacked in groups.

Low and high nibbles come from even and odd columns; unpacking interleaves them
again and applies group-wise scales."""

import torch

ORIGIN = "int4 weight packing of quantised language models"


def make_inputs():
    return [torch.randn(6, 16)]


def fn(weight):
    groups = weight.view(6, 4, 4)
    scale = groups.abs().amax(-1, keepdim=True) / 7
    q = torch.clamp(torch.round(groups / scale), -8, 7).to(torch.int8)
    u = (q + 8).to(torch.uint8).view(6, 16)
    packed = u[:, ::2] | (u[:, 1::2] << 4)
    low, high = packed & 0xF, packed >> 4
    restored = torch.stack((low, high), dim=-1).view(6, 4, 4)
    return packed, (restored.to(torch.float32) - 8) * scale
