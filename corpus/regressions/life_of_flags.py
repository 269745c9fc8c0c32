"""Conway's game of life on flags: compiled, the second step leaves nothing alive.

Neighbours are counted in uint8 from rolled flags, and compared with 2 and 3.
It takes g++'s vectors of single operations (g++ 12.2): gone with -fno-tree-vectorize."""

import torch

ORIGIN = "cellular automata (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.rand(59, 86) > 0.6]


def fn(alive):
    for _ in range(2):
        around = torch.zeros(alive.shape, dtype=torch.uint8)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                if down or right:
                    around = around + alive.roll((down, right), (0, 1)).to(torch.uint8)
        alive = (around == 3) | (alive & (around == 2))
    return alive
