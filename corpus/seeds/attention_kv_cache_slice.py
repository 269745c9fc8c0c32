"""Decoding step that writes keys and values into a cache slice.

The caches are inputs and are updated in place at the current position; the
attention then reads the valid prefix of the very same caches."""

import torch

ORIGIN = "static key-value cache of a decoder, slice assignment"


def make_inputs():
    k_cache = torch.zeros(2, 3, 8, 4)
    v_cache = torch.zeros(2, 3, 8, 4)
    k_cache[:, :, :5].normal_()
    v_cache[:, :, :5].normal_()
    q, k, v = (torch.randn(2, 3, 1, 4) for _ in range(3))
    return [q, k, v, k_cache, v_cache, 5]


def fn(q, k, v, k_cache, v_cache, pos):
    k_cache[:, :, pos : pos + 1] = k
    v_cache[:, :, pos : pos + 1] = v
    keys, values = k_cache[:, :, : pos + 1], v_cache[:, :, : pos + 1]
    weights = (q @ keys.transpose(-1, -2) * 0.5).softmax(-1)
    return weights @ values


def drive(g, q, k, v, k_cache, v_cache, pos):
    first = g(q, k, v, k_cache, v_cache, pos)
    second = g(q + first, k + first, v - first, k_cache, v_cache, pos + 1)
    return first, second
