"""A clone of a cache that was written in part shares the cache's memory when it is compiled.

What is written into the clone later changes the cache."""

import torch

ORIGIN = "key and value cache (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    return [torch.zeros(2, 8, 3), torch.randn(2, 4, 3)]


def fn(cache, keys):
    cache[:, :4] = keys
    return cache.clone()
