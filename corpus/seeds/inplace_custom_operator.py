"""Custom operators that write: a running sum that adds to its first argument, and one that fills a part of a cache.

Around each the same memory is read through views, before and after."""

import torch

ORIGIN = "fused cache kernels that serving engines register (own spelling)"


@torch.library.custom_op("seed_inplace_custom::add_to", mutates_args=("total",))
def add_to(total: torch.Tensor, part: torch.Tensor, factor: float) -> None:
    total += part * factor


@torch.library.custom_op("seed_inplace_custom::fill_rows", mutates_args=("cache",))
def fill_rows(cache: torch.Tensor, rows: torch.Tensor, first: int) -> torch.Tensor:
    cache[first : first + rows.shape[0]] = rows
    return cache[: first + rows.shape[0]].sum(0)


@fill_rows.register_fake
def _(cache, rows, first):
    return cache.new_empty(cache.shape[1:])


def make_inputs():
    return [torch.zeros(8, 5), torch.randn(3, 5), torch.randn(5)]


def fn(cache, rows, total):
    before = cache[1:4] * 2
    filled = torch.ops.seed_inplace_custom.fill_rows(cache, rows + 1, 1)
    after = cache[1:4] - before
    kept = total.clone()
    torch.ops.seed_inplace_custom.add_to(kept, filled, 0.5)
    torch.ops.seed_inplace_custom.add_to(total, rows[0], 2.0)
    return after, kept, total * 3, cache.mT.contiguous(), filled
