"""Scatters that are written in place only where nobody sees it: checks that the reinplacing pass lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.mends.mend import Mend, Used, replaced_items

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.fx_passes.reinplace:should_reinplace_scatter": ("16846e5a5a75",),
    "torch._inductor.fx_passes.reinplace:reinplace_inplaceable_ops_core": ("0c9e14abd70c",),
}


def _refusing(seen: Callable[[fx.Node], bool]) -> Callable[[Used], AbstractContextManager[None]]:
    def apply(used: Used) -> AbstractContextManager[None]:
        from torch._inductor.fx_passes import reinplace

        operator = reinplace._generalized_scatter
        entry: Any = reinplace.inplaceable_ops[operator]

        def checked(node: fx.Node) -> bool:
            if not entry.extra_check(node):
                return False
            if seen(node):
                used()
                return False
            return True

        return replaced_items(reinplace.inplaceable_ops, {operator: dataclasses.replace(entry, extra_check=checked)})

    return apply


def _returned(node: fx.Node) -> bool:
    """Whether what is copied back to an input is returned too, itself or as a view (pytorch/pytorch#195451)."""
    users = _users(node)
    return any(_copied_back(node, user) for user in users) and any(user.op == "output" for user in users)


def _overwritten(node: fx.Node) -> bool:
    """Whether it is returned, and the input is overwritten by something else (pytorch/pytorch#198094)."""
    users = _users(node)
    return not any(_copied_back(node, user) for user in users) and any(user.op == "output" for user in users)


def _users(node: fx.Node) -> list[fx.Node]:
    """Those of the node and of views of it; none where it does not write over an input."""
    from torch._inductor.fx_passes.reinplace import _get_view_base, _is_view_op

    written: Any = node.args[0]
    if _get_view_base(written).op != "placeholder":
        return []
    found: list[fx.Node] = []
    waiting = [node]
    while waiting:
        users = list(waiting.pop().users)
        found += users
        waiting += [user for user in users if _is_view_op(user.target)]
    return found


def _copied_back(node: fx.Node, user: fx.Node) -> bool:
    from torch._inductor.fx_passes.reinplace import _get_view_base

    written: Any = node.args[0]
    return user.target is torch.ops.aten.copy_.default and user.args[0] is _get_view_base(written)


def _reads_what_it_writes(node: fx.Node) -> bool:
    """Whether the source lies in the memory that is written (pytorch/pytorch#197829)."""
    from torch._inductor.fx_utils import get_node_storage

    target, source = node.args[:2]
    if not isinstance(target, fx.Node) or not isinstance(source, fx.Node):
        return False
    storage = get_node_storage(source)
    return storage is not None and storage == get_node_storage(target)


RETURNED = Mend(
    "returned-scatter", "a copy back that is returned too is not written over the input", TEXTS, _refusing(_returned)
)
OVERWRITTEN = Mend(
    "overwritten-scatter", "a result is not written over an input that something else overwrites", TEXTS,
    _refusing(_overwritten),
)  # fmt: skip
OVERLAP = Mend("overlapping-scatter", "a copy reads no memory that it writes", TEXTS, _refusing(_reads_what_it_writes))
