"""From results that differ down to the smallest claims that make them equal.

Two terms with the same operator on top are equal where their operands are (congruence), so that a
pass over a large graph leaves the few pairs of terms whose operators differ: what the pass rewrote.
Sound, and not complete: ``0 * a`` and ``0 * b`` are equal and ``a``, ``b`` are not, so that whoever
fails on the small claims may still try the large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.terms.execution import Applied, Terms
from fxmorph.prove.terms.term_rules import COMMUTES

#: Pairs that one descent follows at most, all together.
MAX_PAIRS = 2_000_000


@dataclass(frozen=True)
class Pairs:
    """Names ``left`` (n,) and ``right`` (n,) of elements of ``dtype``, to be shown equal one by one."""

    left: torch.Tensor
    right: torch.Tensor
    dtype: torch.dtype


def descend(terms: Terms, start: list[Pairs]) -> list[Pairs]:
    """Pairs whose equality makes all of ``start`` equal; raises :class:`NotModelled` where there are too many."""
    done: dict[torch.dtype, torch.Tensor] = {}
    todo, out, followed = list(start), [], 0
    while todo:
        pairs = _new(todo.pop(), done)
        if pairs is None:
            continue
        followed += len(pairs.left)
        if followed > MAX_PAIRS:
            raise NotModelled("a graph too large to take apart")
        inner = _inner(terms, pairs)
        alike = torch.zeros(len(pairs.left), dtype=torch.bool)
        for rows, operands in inner:
            alike[rows] = True
            todo += operands
        if not bool(alike.all()):
            out.append(Pairs(pairs.left[~alike], pairs.right[~alike], pairs.dtype))
    return out


def _new(pairs: Pairs, done: dict[torch.dtype, torch.Tensor]) -> Pairs | None:
    """What of the pairs differs and was not met before."""
    apart = pairs.left != pairs.right
    if not bool(apart.any()):
        return None
    both = torch.unique(torch.stack([pairs.left[apart], pairs.right[apart]], 1), dim=0)
    old = done.get(pairs.dtype)
    if old is not None:
        joined, inverse, counts = torch.unique(torch.cat([old, both]), dim=0, return_inverse=True, return_counts=True)
        both = both[counts[inverse[len(old) :]] == 1]
        done[pairs.dtype] = joined
    else:
        done[pairs.dtype] = both
    return Pairs(both[:, 0], both[:, 1], pairs.dtype) if len(both) else None


def _inner(terms: Terms, pairs: Pairs) -> Iterator[tuple[torch.Tensor, list[Pairs]]]:
    """Rows of ``pairs`` that one operator made on both sides, and the pairs of its operands."""
    made = terms.made(pairs.left) & terms.made(pairs.right)
    rows = made.nonzero().reshape(-1)
    if not rows.numel():
        return
    entry_l, place_l = terms.lookup(pairs.left[rows])
    entry_r, place_r = terms.lookup(pairs.right[rows])
    for a, b in torch.unique(torch.stack([entry_l, entry_r], 1), dim=0).tolist():
        mine = ((entry_l == a) & (entry_r == b)).nonzero().reshape(-1)
        left, right = terms.entries[a], terms.entries[b]
        if not _same_operator(left, right):
            continue
        if left.whole or right.whole:
            at = mine[place_l[mine] == place_r[mine]]
            if at.numel():
                yield rows[at], [Pairs(x, y, d) for (x, d), (y, _) in zip(left.whole, right.whole, strict=True)]
        elif left.operands:
            yield rows[mine], list(_operands(left, right, place_l[mine], place_r[mine]))


def _same_operator(left: Applied, right: Applied) -> bool:
    said = [
        (e.name, e.dtype, tuple(e.dtypes), e.row, len(e.operands), [(len(x), d) for x, d in e.whole], repr(e.arguments))
        for e in (left, right)
    ]
    return said[0] == said[1] and not (left.row and left.operands[0].shape[1] != right.operands[0].shape[1])


def _operands(left: Applied, right: Applied, at_l: torch.Tensor, at_r: torch.Tensor) -> Iterator[Pairs]:
    columns_l, columns_r = [o[at_l] for o in left.operands], [o[at_r] for o in right.operands]
    if left.row:
        yield Pairs(columns_l[0].reshape(-1), columns_r[0].reshape(-1), left.dtypes[0])
        return
    if left.name in COMMUTES and len(columns_l) == 2 and "alpha" not in dict(left.arguments):
        # Either way round is enough: the one in which something is equal already.
        crossed = (columns_l[0] == columns_r[1]) | (columns_l[1] == columns_r[0])
        columns_r = [torch.where(crossed, columns_r[1 - i], columns_r[i]) for i in (0, 1)]
    for x, y, dtype in zip(columns_l, columns_r, left.dtypes, strict=True):
        yield Pairs(x, y, dtype)
