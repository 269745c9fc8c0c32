"""Results that lie in the memory of arguments, of each other, or of what is not returned at all.

Selections, diagonals, expansions and reshapes of arguments; several views of one intermediate, with it and without."""

import torch

ORIGIN = "modules that hand out views of their state (own spelling)"


def make_inputs():
    return [torch.randn(4, 6, requires_grad=True), torch.randn(3, 4), torch.arange(12).view(3, 4), torch.randn(2, 1, 5)]


def fn(table, state, codes, row):
    hidden = table.sin()
    first, rest = hidden[:1], hidden[1:]
    apart = (state * 2).view(2, 6)
    halves = table.cos().chunk(2, 1)
    turned = hidden.t()
    from_table = table[1:3].mT.unsqueeze(0)
    spread = row.expand(2, 3, 5)
    spine = torch.diagonal(state, 1)
    return first, rest, turned, halves[1], apart.t(), from_table, spread, spine, state, codes[:, 1:], codes.mT, apart[0]
