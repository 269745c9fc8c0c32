"""Ring buffer of observations with a write position held in a tensor.

Each call writes one row at position modulo length, advances the position in
place and returns the rows in order of age."""

import torch

ORIGIN = "observation history of a control policy (own spelling)"


def make_inputs():
    rows = [torch.randn(3) for _ in range(3)]
    return [torch.zeros(5, 3), torch.tensor(3), rows]


def fn(buffer, position, row):
    slot = position % buffer.size(0)
    buffer[slot] = row
    position += 1
    order = (torch.arange(buffer.size(0), device=buffer.device) + position) % buffer.size(0)
    return buffer[order]


def drive(g, buffer, position, rows):
    return [g(buffer, position, row) for row in rows]
