"""A cumsum of a constant becomes an arange only where that has the cumsum's dtype (pytorch/pytorch#189518)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.fx_passes.post_grad:pointless_cumsum_replacement": ("515a58d1fc7d",),
}


@contextlib.contextmanager
def _apply(used: Used) -> Iterator[None]:
    from torch._inductor.fx_passes import post_grad

    original = post_grad.pointless_cumsum_replacement

    @functools.wraps(original)
    def checked(match: Any, shape: Any, fill_value: Any, device: Any, dtype: torch.dtype, dim: int) -> None:
        # What the replacement computes: an arange in the fill's dtype (int64 for integers) times the number itself.
        counted = dtype if dtype.is_floating_point or dtype.is_complex else torch.int64
        held = torch.full((), fill_value, dtype=dtype)
        product = torch.ones((), dtype=counted) * fill_value
        wanted = match.output_node().meta["val"].dtype
        if product.dtype != wanted or product.item() != held.to(wanted).item():
            used()
            return
        original(match, shape, fill_value, device, dtype, dim)

    entries = (e for found in post_grad.pass_patterns[1].patterns.values() for e in found)
    own = {id(e): e for e in entries if getattr(e, "handler", None) is original}
    with replaced(*((entry, "handler", checked) for entry in own.values())):
        yield


MEND = Mend("cumsum-fill", "dtype and value of the fill are compared", TEXTS, _apply)
