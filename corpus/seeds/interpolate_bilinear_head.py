"""Segmentation head: bilinear upsampling of logits, both corner conventions.

align_corners true and false are averaged as in test-time augmentation; one of
the two works on a horizontally flipped map."""

import torch
import torch.nn.functional as F

ORIGIN = "semantic segmentation head with flip augmentation"


def make_inputs():
    return [torch.randn(1, 3, 5, 4, requires_grad=True)]


def fn(logits):
    size = (12, 10)
    plain = F.interpolate(logits, size=size, mode="bilinear", align_corners=False)
    mirrored = F.interpolate(logits.flip(-1), size=size, mode="bilinear", align_corners=True)
    mixed = 0.5 * (plain.softmax(1) + mirrored.flip(-1).softmax(1))
    return mixed, F.interpolate(mixed, scale_factor=0.5, mode="area")
