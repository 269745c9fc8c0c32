"""Transmittance along rays by cumprod, weights, colour and depth.

The shifted product of (1 - alpha) is the heart of radiance-field rendering;
densities and colours are trained."""

import torch

ORIGIN = "NeRF-like volume rendering (own spelling)"


def make_inputs():
    density = torch.rand(4, 9, requires_grad=True)
    colour = torch.rand(4, 9, 3, requires_grad=True)
    return [density, colour, torch.linspace(1.0, 3.0, 9).expand(4, 9)]


def fn(density, colour, depth):
    step = depth[:, 1:] - depth[:, :-1]
    last = torch.full((depth.size(0), 1), 0.5, device=depth.device)
    step = torch.cat([step, last], dim=-1)
    alpha = 1 - torch.exp(-density * step)
    through = torch.cumprod(1 - alpha + 1e-6, dim=-1)
    through = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], -1)
    weight = alpha * through
    rgb = (weight.unsqueeze(-1) * colour).sum(-2)
    return rgb, (weight * depth).sum(-1), weight.sum(-1)
