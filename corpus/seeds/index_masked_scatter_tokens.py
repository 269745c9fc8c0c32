"""Image features put in the place of placeholder tokens.

masked_scatter fills the embedding rows whose token id is the placeholder, as
multimodal language models do."""

import torch
import torch.nn.functional as F

ORIGIN = "vision-language model, merging image and text embeddings"


def make_inputs():
    ids = torch.tensor([[3, 9, 9, 1, 4], [2, 9, 5, 6, 9]])
    return [ids, torch.randn(10, 6, requires_grad=True), torch.randn(4, 6)]


def fn(ids, table, image):
    x = F.embedding(ids, table)
    mask = (ids == 9).unsqueeze(-1).expand_as(x)
    merged = x.masked_scatter(mask, image)
    return merged * 1.5, mask.sum()
