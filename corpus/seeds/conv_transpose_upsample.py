"""Decoder step: transposed convolution, crop, concatenation with a skip.

The upsampled map is one row larger than the skip connection and gets cut, as
U-Net decoders must for odd sizes."""

import torch
from torch import nn

ORIGIN = "U-Net decoder stage with cropping (own spelling)"


class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.mix = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x, skip):
        y = self.up(x)[:, :, : skip.size(2), : skip.size(3)]
        return torch.relu(self.mix(torch.cat([skip, y], dim=1)))


def make_fn():
    return Up()


def make_inputs():
    return [torch.randn(2, 6, 4, 3, requires_grad=True), torch.randn(2, 4, 7, 5)]
