"""A pooled context that is stretched over an image: on four threads its gradient does not compile.

The atomic addition into one element of a channel is vectorised with an index that is no vector
(``CppVecKernel.store`` asserts)."""

import torch
import torch.nn.functional as F

ORIGIN = "atrous spatial pyramid pooling (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"threads": 4}


def make_inputs():
    return [torch.randn(1, 6, 1, 1, requires_grad=True)]


def fn(pooled):
    return F.interpolate(pooled.tanh(), size=(14, 9), mode="nearest")
