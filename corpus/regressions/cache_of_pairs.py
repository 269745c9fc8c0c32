"""A cache of keys whose elements lie two apart, written by position and attended over: the result is wrong.

The softmax of a product becomes fused attention, whose kernel wants rows without gaps.  A copy of the cache has such
rows; once the write happens in place (``reinplace_inplaceable_ops``) the kernel is given the cache itself and reads its
gaps as if they were elements.  A cache that is only read, or laid out without gaps, gives the right result."""

import torch

ORIGIN = "decoding with keys and values interleaved in one buffer (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    pairs = torch.zeros(1, 2, 9, 12)
    return [pairs[..., ::2], torch.randn(1, 2, 4, 6), torch.tensor([1, 2, 3, 4]), torch.randn(1, 2, 5, 6)]


def fn(keys, new, place, values):
    keys.index_copy_(2, place, new)
    return (new @ keys[:, :, :5].mT * 0.4).softmax(-1) @ values
