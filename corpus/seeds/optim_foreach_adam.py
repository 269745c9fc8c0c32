"""Adam over lists of parameters with the _foreach functions.

Three tensors of different shapes go through each call together."""

import torch

ORIGIN = "multi-tensor optimiser step (own spelling)"
META = {"no_grad": True}


def make_inputs():
    shapes = [(3, 5), (7,), (1, 2, 3)]
    params = [torch.randn(s) for s in shapes]
    grads = [torch.randn(s) for s in shapes]
    return [params, grads, [torch.rand(s) for s in shapes]]


def fn(params, grads, second):
    torch._foreach_mul_(second, 0.95)
    torch._foreach_addcmul_(second, grads, grads, value=0.05)
    denom = torch._foreach_sqrt(second)
    torch._foreach_add_(denom, 1e-6)
    torch._foreach_addcdiv_(params, grads, denom, value=-0.02)
    return torch._foreach_norm(params)
