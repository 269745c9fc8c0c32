"""Issue 195582: flattened grey-scale feature maps are cropped by a pad of less than nothing.

Generated code folds the crop into the convolution's output and reads memory that nothing
has written: every number of the classifier is wrong, and another one each time."""

import torch
import torch.nn.functional as F
from torch import nn

ORIGIN = "pytorch/pytorch#195582"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


class CroppedClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 36, 3), nn.BatchNorm2d(36))
        self.classifier = nn.Linear(62, 5)

    def forward(self, image):
        flat = self.features(image).flatten(1)
        return self.classifier(F.pad(flat, (0, 62 - flat.size(1))))


def make_fn():
    return CroppedClassifier().eval()


def make_inputs():
    return [torch.randn(4, 1, 5, 5)]
