"""Whether loops that are merged or put in another order still go through the same iterations, asked by us.

An iteration is known by its indices: the values of all index expressions in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fxmorph.torchapi.addresses import addresses
from fxmorph.torchapi.corrections import After, Correction
from fxmorph.torchapi.plain_accesses import indices_of, sizes_known

#: Index expressions, each with the loops around it by variable, the outermost first.
_Indices = Sequence[tuple[Any, dict[Any, Any]]]


def check_loops_merged(
    allocator: Any, variables: Sequence[Any], sizes: Sequence[Any], formulas: Sequence[Any]
) -> After:
    """Of ``_simplify_loops_impl``: formulas over merged loops have the values that they had."""
    from torch._inductor.utils import sympy_index_symbol, sympy_subs

    loops = dict(zip(variables, sizes, strict=True))

    def after(result: Any) -> Correction | None:
        merged, reindex, _ = result
        fewer = {sympy_index_symbol(f"merged{i}"): size for i, size in enumerate(merged)}
        replaced = dict(zip(variables, reindex(list(fewer)), strict=True))
        lost = _lost([(f, loops) for f in formulas], [(sympy_subs(f, replaced), fewer) for f in formulas])
        if not lost:
            return None
        return Correction(
            f"loops of {list(sizes)} are not those of {list(merged)}: {lost}",
            lambda: ([allocator.simplify(size) for size in sizes], list, list),
        )

    return after


def check_node_made(
    buffer: Any, extra_indexing_constraints: Any = None, recompute_sizes_body_func: Any = None
) -> After:
    """Of ``simplify_and_reorder``: the loops of a node are those of the buffer that it makes."""
    sizes, body, variables = buffer.get_default_sizes_body()
    if recompute_sizes_body_func is not None:
        sizes, body, variables = recompute_sizes_body_func(sizes, body, variables)

    def after(result: Any) -> Correction | None:
        made_sizes, made = result
        lost = _lost(indices_of(body, sizes), indices_of(made, made_sizes))
        return Correction(f"{buffer.get_name()}: {lost}", lambda: (sizes, body)) if lost else None

    return after


def check_body_kept(body: Any, *_: Any) -> After:
    """Of methods that give a body of other loops."""

    def after(made: Any) -> Correction | None:
        lost = _lost(indices_of(body, body.sizes), indices_of(made, made.sizes))
        return Correction(lost, lambda: body) if lost else None

    return after


def _lost(before: _Indices, after: _Indices) -> str:
    """What iterations are not there any more, in words; "" where all are, or there are too many to go through."""
    if len(before) != len(after):
        return ""  # not expression by expression
    known = sizes_known()
    rows = [[addresses(index, loops, known) for index, loops in part] for part in (before, after)]
    one, other = ([row for row in part if row is not None] for part in rows)
    if not one or len(one) != len(before) or len(other) != len(after):
        return ""
    counts = [torch.stack(part).unique(dim=1, return_counts=True) for part in (one, other)]
    if all(a.shape == b.shape and bool((a == b).all()) for a, b in zip(*counts, strict=True)):
        return ""
    return f"iterations of {', '.join(str(index) for index, _ in before)} are lost"
