"""A multi-task loss that touches the heads that a batch does not train.

Heads without labels enter with a factor of zero, so that every parameter has a gradient
and data-parallel training does not wait for one."""

import torch
import torch.nn.functional as F

ORIGIN = "multi-task training with DistributedDataParallel (own spelling)"


def make_inputs():
    heads = [torch.randn(8, n, requires_grad=True) for n in (3, 5, 2)]
    return [torch.randn(6, 8, requires_grad=True), torch.randint(0, 3, (6,)), *heads]


def fn(features, labels, classes, boxes, scores):
    loss = F.cross_entropy(features @ classes, labels)
    unused = torch.tanh(features @ boxes) * 0
    penalty = (features @ scores).square() * 0
    return loss + unused.sum() + penalty.mean(), unused
