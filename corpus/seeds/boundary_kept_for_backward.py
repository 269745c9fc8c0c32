"""What a backward pass may keep or compute again: views of arguments, masks, indices, casts, sizes, and results.

Chains that are cheap to repeat, sums that are not, and values that are read in both passes through other views."""

import torch

ORIGIN = "memory-saving training of a small mixer (own spelling)"


def make_inputs():
    return [
        torch.randn(5, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True),
        torch.randn(8, requires_grad=True), torch.randint(0, 5, (6,)), torch.rand(5, 8) > 0.3,
    ]  # fmt: skip


def fn(x, weight, bias, index, keep):
    normal = (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True, correction=0) + 1e-5)
    mixed = torch.where(keep, normal, normal * 0.1) @ weight.mT + bias
    gate = mixed.sigmoid()
    swish = (mixed * gate).cos() * gate.double().square().float()
    rows = swish[index]
    scale = rows.shape[0] / (1 + rows.abs().amax(1, keepdim=True))
    ordered, places = (rows * scale).sort(1)
    cumulated = ordered.cumsum(1)[:, ::2]
    picked = x.view(-1)[::3].exp() / (1 + bias.sum().square())
    return cumulated, picked, places, (weight.t() * gate.mean(0)).sum(0), swish.t().reshape(4, -1).logsumexp(1)
