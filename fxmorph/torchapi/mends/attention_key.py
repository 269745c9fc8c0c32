"""Attention is fused only where the key's last two dimensions are swapped (pytorch/pytorch#195320).

The patterns of fused attention hold a permutation of the key, and match any.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.fx_passes.fuse_attention:_sfdp_params_check": ("3ad23812d224",),
}
#: What the patterns were traced with: heads before positions, then the transpose of the product; three dimensions too.
_HEADS_FIRST = [0, 2, 1, 3]
_SWAPPED = ([0, 1, 3, 2], [0, 2, 1])


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor.fx_passes import fuse_attention

    original = fuse_attention._sfdp_params_check

    def checked(match: Any) -> Any:
        answer = original(match)
        if answer and not _transposed(_permutations(match.kwargs["key"], set(match.nodes))):
            used()
            return False
        return answer

    return replaced((fuse_attention, "_sfdp_params_check", checked))


def _transposed(permutations: list[list[int]]) -> bool:
    if not permutations:
        return True
    return permutations[-1] in _SWAPPED and all(p == _HEADS_FIRST for p in permutations[:-1])


def _permutations(key: fx.Node, matched: set[fx.Node]) -> list[list[int]]:
    """Of the matched nodes those between the key and the first product, in order."""
    found: list[list[int]] = []
    node: fx.Node | None = key
    while node is not None:
        after = [n for n in node.users if n in matched and n.args and n.args[0] is node]
        node = next((n for n in after if n.target is torch.ops.aten.permute.default), None)
        node = node or next((n for n in after if n.target in _MOVES), None)
        if node is not None and node.target is torch.ops.aten.permute.default:
            dims: Any = node.args[1]
            found.append([d % len(dims) for d in dims])
    return found


_MOVES = frozenset(
    {
        torch.ops.aten.expand.default,
        torch.ops.aten.clone.default,
        torch.ops.aten.view.default,
        torch.ops.aten.mul.Scalar,
        torch.ops.aten.mul.Tensor,
    }
)
MEND = Mend("attention-key", "the key must be transposed in its last two dimensions", TEXTS, _apply)
