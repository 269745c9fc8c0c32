"""Mixture log-likelihood with expanded component parameters.

Means and scales are expanded over the batch; logsumexp runs over components,
and a product over dimensions gives the plain density."""

import torch

ORIGIN = "mixture density network (own spelling)"


def make_inputs():
    x = torch.randn(6, 1, 3)
    mean = torch.randn(1, 4, 3, requires_grad=True)
    log_scale = torch.randn(4, 3).mul_(0.2).requires_grad_()
    return [x, mean, log_scale.expand(1, 4, 3), torch.randn(4, requires_grad=True)]


def fn(x, mean, log_scale, weight_logits):
    z = (x - mean.expand(6, -1, -1)) * torch.exp(-log_scale)
    log_p = (-0.5 * z.square() - log_scale - 0.9189).sum(-1)
    log_w = torch.log_softmax(weight_logits, dim=0)
    log_likelihood = torch.logsumexp(log_p + log_w, dim=1)
    density = torch.exp(-0.5 * z.square()).prod(dim=-1)
    low, high = torch.aminmax(density, dim=1)
    return log_likelihood, high - low
