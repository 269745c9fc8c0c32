"""Terms taken apart: the claims that together say that two tensors of names are equal.

What names cannot show equal becomes scalar :class:`Obligation`s: one for each pair of expressions and each pattern of
equal variables that occurs among the elements that differ, so that together they cover all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.scalars import Const, Expression, Obligation, Op, Var
from fxmorph.prove.terms.execution import OPERATOR, Terms


@dataclass(frozen=True)
class Difference:
    """An obligation, and for each variable the element of an argument that it is somewhere."""

    obligation: Obligation
    origins: tuple[tuple[str, int] | None, ...]


def _leaf_dtypes(expr: Any, start: int) -> dict[int, torch.dtype]:
    out: dict[int, torch.dtype] = {}

    def visit(e: Any) -> None:
        if isinstance(e, Const):
            return
        if e[0] == "leaf":
            out[start + len(out)] = e[1]
            return
        for part in e[1]:
            visit(part)

    visit(expr)
    return out


def _built(expr: Any, leaves: dict[int, Expression], start: int, made: dict[Any, Expression]) -> Expression:
    """The expression with leaves, in order of occurrence, replaced by variables; equal nodes are one."""
    count = start

    def visit(e: Any) -> Expression:
        nonlocal count
        if isinstance(e, Const):
            return made.setdefault(e, e)
        if e[0] == "leaf":
            count += 1
            return made.setdefault(leaves[count - 1], leaves[count - 1])
        entry, parts = e
        operands = tuple(visit(p) for p in parts)
        key = (id(entry), tuple(map(id, operands)))
        if key not in made:
            made[key] = Op(entry.name, entry.arguments, entry.dtype, operands)
        return made[key]

    return visit(expr)


def obligations(
    terms: Terms, left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype, cut: torch.Tensor | None = None
) -> list[Difference]:
    """Claims that together say that ``left`` and ``right`` (names, alike shaped) are equal.

    ``cut``: names that are not taken apart but stand for any value.  Raises :class:`NotModelled`
    where an element's expression is too large.
    """
    left, right = left.reshape(-1), right.reshape(-1)
    apart = (left != right).nonzero().reshape(-1)
    if not apart.numel():
        return []
    pairs = torch.unique(torch.stack([left[apart], right[apart]]), dim=1)
    left, right = pairs[0], pairs[1]
    out: list[Difference] = []
    effort = _Effort()
    for rows, l_expr, l_leaves in _expand(terms, left, dtype, cut, effort):
        for inner, r_expr, r_leaves in _expand(terms, right[rows], dtype, cut, effort):
            columns = [c[inner] for c in l_leaves] + list(r_leaves)
            out += _patterns(terms, l_expr, r_expr, len(l_leaves), columns, dtype)
    found: dict[str, Difference] = {}
    for d in out:
        found.setdefault(d.obligation.hash, d)
    return list(found.values())


def _patterns(
    terms: Terms, left: Any, right: Any, split: int, columns: list[torch.Tensor], dtype: torch.dtype
) -> list[Difference]:
    """One obligation for each pattern of equal leaves."""
    if columns:
        stacked = torch.stack(columns, 1)
        first = torch.stack([(stacked == stacked[:, i : i + 1]).long().argmax(1) for i in range(stacked.shape[1])], 1)
        patterns, where = torch.unique(first, dim=0, return_inverse=True)
    else:
        stacked, patterns, where = torch.zeros(1, 0), torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1)
    out = []
    for p, pattern in enumerate(patterns.tolist()):
        row = int((where == p).nonzero()[0])
        names = stacked[row].tolist()
        numbers: dict[int, int] = {}
        leaves: dict[int, Expression] = {}
        dtypes: list[torch.dtype] = []
        inputs: list[bool] = []
        origins: list[tuple[str, int] | None] = []
        kinds = {**_leaf_dtypes(left, 0), **_leaf_dtypes(right, split)}
        for i, same in enumerate(pattern):
            if same not in numbers:
                numbers[same] = len(numbers)
                dtypes.append(kinds[i])
                origins.append(terms.origin(int(names[i])))
                inputs.append(origins[-1] is not None)
            leaves[i] = Var(numbers[same], kinds[i])
        obligation = Obligation(
            _built(left, leaves, 0, {}), _built(right, leaves, split, {}), tuple(dtypes), tuple(inputs)
        )
        out.append(Difference(obligation, tuple(origins)))
    return out


@dataclass
class _Effort:
    """How many operators may still be taken apart: what is used twice, and that twice, has no end."""

    left: int = 5_000

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise NotModelled("an expression with too many parts to take apart")


def _expand(
    terms: Terms, ids: torch.Tensor, dtype: torch.dtype, cut: torch.Tensor | None, effort: _Effort, depth: int = 0
) -> list[tuple[torch.Tensor, Any, list[Any]]]:
    """Groups of elements with one expression: (rows of ``ids``, expression, names of its leaves).

    An expression is ("leaf", i, dtype), a :class:`Const` or (entry, parts).
    """
    if depth > 40:
        raise NotModelled("an expression too deep to take apart")
    effort.spend()
    groups: list[tuple[torch.Tensor, Any, list[Any]]] = []
    places = torch.arange(len(ids))
    leaf = ((ids >= 0) & (ids < OPERATOR)) | ((ids >= OPERATOR) & ~terms.made(ids))
    if cut is not None:
        leaf |= (ids >= OPERATOR) & torch.isin(ids, cut)
    if bool(leaf.any()):
        rows = places[leaf]
        groups.append((rows, ("leaf", dtype), [ids[rows]]))
    consts = ids[ids < 0]
    if consts.numel():
        values = torch.unique(consts)
        if len(values) > 64:
            raise NotModelled("an expression with many constants")
        for value in values.tolist():
            const = terms.const(value)
            rows = places[ids == value]
            groups.append((rows, const, []) if const is not None else (rows, ("leaf", dtype), [ids[rows]]))
    operators = (ids >= OPERATOR) & ~leaf
    if bool(operators.any()):
        entry_of, place_of = terms.lookup(ids[operators])
        rows_here = places[operators]
        for number in torch.unique(entry_of).tolist():
            entry = terms.entries[number]
            mine = entry_of == number
            rows, at = rows_here[mine], place_of[mine]
            if entry.opaque:
                groups.append((rows, ("leaf", entry.dtype), [ids[rows]]))
                continue
            columns = (
                [entry.operands[0][at][:, j] for j in range(entry.operands[0].shape[1])]
                if entry.row
                else [o[at] for o in entry.operands]
            )
            dtypes = entry.dtypes * len(columns) if entry.row else entry.dtypes
            partial: list[tuple[torch.Tensor, list[Any], list[Any]]] = [(torch.arange(len(at)), [], [])]
            for column, d in zip(columns, dtypes, strict=True):
                grown = []
                for inner, parts, leaves in partial:
                    for sub, expr, more in _expand(terms, column[inner], d, cut, effort, depth + 1):
                        grown.append((inner[sub], [*parts, expr], [c[sub] for c in leaves] + more))
                partial = grown
                if sum(len(g[2]) for g in partial) > terms.leaves:
                    raise NotModelled("an expression too large to take apart")
            groups += [(rows[inner], (entry, parts), leaves) for inner, parts, leaves in partial]
    return groups
