"""Bags of sparse features pooled by sum, mean and max.

Offsets delimit the bags inside one flat index list, as recommendation models
feed them; the sum carries per-sample weights. The table is a column block of a
wider one."""

import torch
import torch.nn.functional as F

ORIGIN = "recommendation model, pooled sparse features"


def make_inputs():
    table = torch.randn(13, 10)[:, 5:]
    ids = torch.randint(0, 13, (10,))
    return [table, ids, torch.tensor([0, 3, 4, 8]), torch.rand(10)]


def fn(table, ids, offsets, sample_weight):
    total = F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=sample_weight)
    mean = F.embedding_bag(ids, table, offsets, mode="mean")
    top = F.embedding_bag(ids, table, offsets, mode="max")
    return torch.cat([total, mean, top], dim=1)
