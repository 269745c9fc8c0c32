"""Bit counts by halving sums and a shift-xor hash of 64-bit ids.

The popcount feeds a Hamming distance matrix between binary codes; the hash
picks one of a prime number of buckets."""

import torch

ORIGIN = "binary-code retrieval and hashed embeddings (own spelling)"


def make_inputs():
    return [torch.randint(0, 1 << 32, (5,)), torch.randint(0, 1 << 32, (7,))]


def popcount(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) & 0xFFFFFFFF) >> 24


def fn(codes, queries):
    distance = popcount(codes[:, None] ^ queries[None, :])
    h = queries
    for shift in (13, 7, 17):
        h = h ^ ((h << shift) & 0xFFFFFFFF) ^ (h >> (shift // 2))
    return distance, h % 101, distance.argsort(dim=0, stable=True)[0]
