"""Two arguments that are windows of one flat parameter buffer.

The optimiser sees slices of a contiguous buffer; both are changed in place and
a norm over both is returned."""

import torch

ORIGIN = "flattened parameter buffers of sharded training (own spelling)"
META = {"no_grad": True}


def make_inputs():
    flat = torch.randn(26)
    grad = torch.randn(26)
    return [flat[:12].view(3, 4), flat[12:25], grad[:12].view(3, 4), grad[12:25]]


def fn(weight, bias, weight_grad, bias_grad):
    total = (weight_grad.square().sum() + bias_grad.square().sum()).sqrt()
    weight.sub_(0.1 * weight_grad / total)
    bias.sub_(0.1 * bias_grad / total)
    weight_grad.zero_()
    bias_grad.zero_()
    return total, weight @ torch.ones(4, device=weight.device)
