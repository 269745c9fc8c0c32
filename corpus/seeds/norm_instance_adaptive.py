"""Adaptive instance norm for style transfer.

Content features take over the mean and standard deviation of style features;
F.instance_norm of the result is returned too."""

import torch
import torch.nn.functional as F

ORIGIN = "AdaIN layer of style-transfer networks (own spelling)"


def make_inputs():
    content = torch.randn(1, 4, 7, 5, requires_grad=True)
    return [content, torch.randn(1, 4, 3, 9) * 2 + 1]


def moments(x):
    std, mean = torch.std_mean(x, dim=(2, 3), keepdim=True)
    return mean, std + 1e-4


def fn(content, style):
    c_mean, c_std = moments(content)
    s_mean, s_std = moments(style)
    mixed = (content - c_mean) / c_std * s_std + s_mean
    return mixed, F.instance_norm(mixed)
