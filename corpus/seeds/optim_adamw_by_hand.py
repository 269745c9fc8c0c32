"""AdamW step: decoupled decay, moments in place, bias correction.

The step counter is a tensor input that is incremented too."""

import torch

ORIGIN = "AdamW single-tensor update (own spelling)"
META = {"no_grad": True, "calls": 2}


def make_inputs():
    param, grad = torch.randn(17), torch.randn(17)
    return [param, grad, torch.zeros(17), torch.zeros(17), torch.tensor(0.0)]


def fn(param, grad, m, v, step):
    step += 1
    param.mul_(1 - 0.01 * 0.1)
    m.lerp_(grad, 1 - 0.9)
    v.mul_(0.99).addcmul_(grad, grad, value=1 - 0.99)
    c1 = 1 - 0.9**step
    c2 = 1 - 0.99**step
    denom = (v / c2).sqrt().add_(1e-8)
    param.addcdiv_(m / c1, denom, value=-0.01)
