"""Bit flags of tokens combined into an attention mask.

Each token carries a small set of flags in a uint8; visibility between two
tokens needs a common flag, or the same group number in the upper bits."""

import torch

ORIGIN = "block-sparse attention metadata (own spelling)"


def make_inputs():
    return [torch.randint(0, 256, (2, 9), dtype=torch.uint8)]


def fn(flags):
    left, right = flags.unsqueeze(2), flags.unsqueeze(1)
    common = (left & right & 0x0F) != 0
    same_group = (left >> 4) == (right >> 4)
    causal = torch.ones(9, 9, dtype=torch.bool, device=flags.device).tril()
    itself = torch.eye(9, dtype=torch.bool, device=flags.device)
    visible = (common | same_group) & causal & ~itself
    blocks = visible.view(2, 3, 3, 3, 3).any(dim=4).any(dim=2)
    return visible, blocks, visible.sum(-1), (~flags).to(torch.int16).sum()
