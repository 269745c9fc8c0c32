"""SGD step with momentum, weight decay and Nesterov, states in place.

Parameter and momentum buffer are changed; gradients are left alone."""

import torch

ORIGIN = "hand-written SGD with Nesterov momentum"
META = {"no_grad": True}


def make_inputs():
    return [torch.randn(7, 5), torch.randn(5, 7).t(), torch.randn(7, 5)]


def fn(param, grad, momentum):
    grad = grad.add(param, alpha=0.01)
    momentum.mul_(0.9).add_(grad)
    step = grad.add(momentum, alpha=0.9)
    param.add_(step, alpha=-0.1)
    return step.norm()


def drive(g, param, grad, momentum):
    return [g(param, grad * (k + 1), momentum) for k in range(2)]
