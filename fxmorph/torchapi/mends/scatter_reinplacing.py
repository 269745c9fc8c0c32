"""Scatters that are written in place only where nobody sees it: two checks that the reinplacing pass lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

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
    """Whether what is written over an input is returned too, itself or as a view (pytorch/pytorch#195451)."""
    from torch._inductor.fx_passes.reinplace import _get_view_base, _is_view_op

    target: Any = node.args[0]
    if _get_view_base(target).op != "placeholder":
        return False
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "output":
                return True
            if _is_view_op(user.target):
                waiting.append(user)
    return False


def _reads_what_it_writes(node: fx.Node) -> bool:
    """Whether the source lies in the memory that is written (pytorch/pytorch#197829)."""
    from torch._inductor.fx_utils import get_node_storage

    target, source = node.args[:2]
    if not isinstance(target, fx.Node) or not isinstance(source, fx.Node):
        return False
    storage = get_node_storage(source)
    return storage is not None and storage == get_node_storage(target)


RETURNED = Mend("returned-scatter", "what is returned is not written over the input", TEXTS, _refusing(_returned))
OVERLAP = Mend("overlapping-scatter", "a copy reads no memory that it writes", TEXTS, _refusing(_reads_what_it_writes))
