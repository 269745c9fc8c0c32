"""Issue 147255: randomised leaky ReLU draws other slopes when compiled.

With fallback_random the generator is shared, yet the decomposition used the random
numbers in another way than the eager kernel."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#147255"
EXPECTED = "finding"
BROKEN_IN = "2.6.0 2.8.0 2.10.0 2.11.0"
META = {"no_grad": True}


def make_inputs():
    return [torch.randn(3, 7)]


def fn(features):
    noisy = F.rrelu(features - 0.5, lower=0.1, upper=0.6, training=True)
    return noisy * 2.0
