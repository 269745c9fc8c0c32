"""Two generations of Conway's game on a torus in int8: of the compiled one most cells are dead.

One generation is right; the second reads what the first one computes of comparisons, moved around.
It takes g++'s vectors of single operations (g++ 12.2): gone with -fno-tree-vectorize."""

import torch

ORIGIN = "cellular automaton (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    return [(torch.rand(3, 24, 31) > 0.65).to(torch.int8)]


def fn(world):
    for _ in range(2):
        around = torch.zeros_like(world)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                if down or right:
                    around = around + world.roll((down, right), (1, 2))
        world = ((around == 3) | ((around == 2) & (world == 1))).to(torch.int8)
    return world, world.sum((1, 2))
