"""Binary cross entropy with logits and a focal factor.

pos_weight balances the classes; the focal term uses the probability of the
true class computed with torch.where."""

import torch
import torch.nn.functional as F

ORIGIN = "focal loss of dense detectors (own spelling)"


def make_inputs():
    target = (torch.rand(5, 7) > 0.7).float()
    return [torch.randn(5, 7, requires_grad=True), target, torch.rand(7) + 1.0]


def fn(logits, target, pos_weight):
    bce = F.binary_cross_entropy_with_logits(logits, target, pos_weight=pos_weight, reduction="none")
    p = torch.sigmoid(logits)
    p_true = torch.where(target > 0.5, p, 1 - p)
    focal = (1 - p_true).pow(2) * bce
    return focal.mean(), bce.sum(dim=0)
