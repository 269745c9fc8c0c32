"""Skip connections of a dilated stack summed into an accumulator that starts as zeros.

Every block adds its output; what a masked block would add is multiplied by its gate."""

import torch

ORIGIN = "WaveNet-like skip sums (own spelling)"


def make_inputs():
    return [torch.randn(2, 4, 9), torch.randn(3, 4, 4) / 2, torch.tensor([1.0, 0.0, 1.0])]


def fn(x, weights, gates):
    total = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    bias = torch.zeros_like(x)
    for i in range(weights.size(0)):
        x = torch.tanh(torch.einsum("oc,bct->bot", weights[i], x) + bias)
        total = total + x * gates[i]
    return total.relu(), x + bias
