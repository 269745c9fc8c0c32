"""Decoded uint8 image to a normalised float batch and back.

A crop of a larger image, channels last in memory, is flipped, normalised by mean and
standard deviation, and a preview is rounded to uint8 again."""

import torch

ORIGIN = "image preprocessing on the device (own spelling)"


def make_inputs():
    image = torch.randint(0, 256, (7, 10, 3), dtype=torch.uint8)
    return [image[1:6, 2:9], torch.tensor([0.48, 0.45, 0.4]), torch.tensor([0.22, 0.23, 0.25])]


def fn(image, mean, std):
    x = image.permute(2, 0, 1).to(torch.float32) / 255
    x = (x.flip(-1) - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    preview = (x * std.view(3, 1, 1) + mean.view(3, 1, 1)) * 255
    grey = image.to(torch.int32).sum(dim=-1) // 3
    return x.unsqueeze(0), (preview + 0.5).to(torch.uint8), grey.to(torch.uint8)
