"""Pooling and upsampling in training: gradients through windows that overlap, have holes, or reach over the edge.

Each window gives its gradient to the place that it took, or to all of its places in equal parts."""

import torch
import torch.nn.functional as F

ORIGIN = "segmentation decoders in training (own spelling)"


def make_inputs():
    return [torch.randn(2, 3, 9, 11, requires_grad=True), torch.randn(1, 2, 5, 6, 7, requires_grad=True)]


def fn(image, volume):
    taken = [F.max_pool2d(image, 3, 2, 1), F.max_pool2d(image, 3, 1, 0, 2), F.adaptive_max_pool2d(image, (4, 3))]
    shared = [F.avg_pool2d(image, 3, 2, 1, count_include_pad=False), F.avg_pool2d(image, 2, divisor_override=3)]
    deep = [F.avg_pool3d(volume, 2, 2, 1), F.max_pool3d(volume, 3, 2, 1), F.adaptive_avg_pool3d(volume, (2, 3, 2))]
    grown = [F.interpolate(image, scale_factor=2), F.interpolate(image, (13, 7), mode="nearest-exact")]
    grown += [F.interpolate(volume, (7, 6, 9)), F.interpolate(image, (12, 8), mode="bilinear", align_corners=True)]
    adaptive = F.adaptive_avg_pool2d(image, (4, 5))
    return *taken, *shared, *deep, *grown, adaptive * adaptive
