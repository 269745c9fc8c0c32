"""Pads of mixed sign: crop on one side, fill on the other.

Shifts a feature map by one row and column, and shifts labels to the right as
decoders do, with an integer fill value."""

import torch
import torch.nn.functional as F

ORIGIN = "PixelCNN-like shifting and decoder input shifting"


def make_inputs():
    labels = torch.randint(1, 20, (2, 6))
    return [torch.randn(2, 3, 5, 4), labels]


def fn(x, labels):
    down = F.pad(x, (0, 0, 1, -1))
    right = F.pad(x, (1, -1, 0, 0), value=0.5)
    cropped = F.pad(x, (-1, -1, -2, 0))
    decoder_input = F.pad(labels, (1, -1), value=0)
    return down + right, cropped, decoder_input, decoder_input.eq(labels)
