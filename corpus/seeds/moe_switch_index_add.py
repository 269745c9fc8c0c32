"""Switch routing (one expert per token) gathered back with index_add_.

Tokens are sorted by expert, so that each expert's tokens are adjacent, and the
weighted results are added to an output buffer at their old places."""

import torch

ORIGIN = "token permutation around grouped expert matmuls (own spelling)"


def make_inputs():
    return [torch.randn(9, 4), torch.randn(4, 3), torch.randn(3, 4, 4)]


def fn(x, router, experts):
    gate, expert = (x @ router).softmax(-1).max(dim=-1)
    order = torch.argsort(expert, stable=True)
    tokens = x.index_select(0, order)
    weights = experts.index_select(0, expert[order])
    done = torch.bmm(tokens.unsqueeze(1), weights).squeeze(1)
    out = torch.zeros_like(x)
    out.index_add_(0, order, done * gate[order].unsqueeze(-1))
    load = (expert.unsqueeze(1) == torch.arange(3, device=x.device)).sum(0)
    return out, load
