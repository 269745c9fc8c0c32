"""InfoNCE over in-batch negatives, both directions.

Image and text embeddings are normalised, the logits scaled by a learned
temperature; labels are the diagonal."""

import torch
import torch.nn.functional as F

ORIGIN = "CLIP-like contrastive loss (own spelling)"


def make_inputs():
    image = torch.randn(5, 8, requires_grad=True)
    text = torch.randn(5, 8, requires_grad=True)
    return [image, text, torch.tensor(1.5, requires_grad=True)]


def fn(image, text, log_scale):
    image = image / image.norm(dim=-1, keepdim=True)
    text = text / text.norm(dim=-1, keepdim=True)
    logits = log_scale.exp() * image @ text.t()
    labels = torch.arange(logits.size(0), device=logits.device)
    loss = F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)
    return loss / 2, logits.diagonal().mean()
