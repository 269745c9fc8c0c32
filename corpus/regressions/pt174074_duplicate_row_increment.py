"""Issue 174074: a row listed three times is doubled three times.

index_put_ was fused with the gather that feeds it, so that each further write of
the same row read the result of the one before. All writes carry the same value,
so eager does not depend on their order."""

import torch

ORIGIN = "pytorch/pytorch#174074"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0"


def make_inputs():
    return [torch.tensor([[0.5, -1.25, 3.0, 2.0]], dtype=torch.float64)]


def fn(weights):
    weights[[0, 0, 0]] += weights[[0, 0, 0]]
    return weights
