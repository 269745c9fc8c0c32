"""A function that returns fewer results than another."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fxmorph.torchapi.dispatch import tree_flatten, tree_leaves, tree_unflatten


def returning(
    fn: Callable[..., Any], places: frozenset[int], args: Callable[[], Sequence[Any]] = tuple
) -> Callable[..., Any]:
    """``fn`` with None for its results but those that have the places among all leaves of what it returns.

    What no result needs is not compiled.  Of a function that has a ``text`` of its own, one assignment after the other
    to names and the list of its results, it is not run either: ``args`` makes what that can be called with.
    """
    text = getattr(fn, "text", "")
    if text:
        with torch.no_grad():
            sizes = [len(tree_leaves(result)) for result in fn(*args())]
        names = dict(fn.__globals__)
        exec(compile(_without_others(text, places, sizes), "<fewer results>", "exec"), names)
        return names["fn"]  # type: ignore[no-any-return]

    def fewer(*args: Any) -> Any:
        leaves, spec = tree_flatten(fn(*args))
        return tree_unflatten([leaf if place in places else None for place, leaf in enumerate(leaves)], spec)

    return fewer


def _without_others(text: str, places: frozenset[int], sizes: Sequence[int]) -> str:
    """``sizes``: how many leaves each result has."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    *lines, last = function.body
    assert isinstance(last, ast.Return) and isinstance(last.value, ast.List)
    starts = itertools.accumulate(sizes, initial=0)
    kept = [not places.isdisjoint(range(start, start + size)) for start, size in zip(starts, sizes, strict=False)]
    # None for each leaf: places are counted as before.
    none = [ast.parse("None" if size == 1 else repr([None] * size), mode="eval").body for size in sizes]
    results = [was if keeps else other for was, keeps, other in zip(last.value.elts, kept, none, strict=True)]
    last.value = ast.List(results, ast.Load())
    needed = _names(last)
    body: list[ast.stmt] = [last]
    for line in reversed(lines):
        assert isinstance(line, ast.Assign)
        given = {target.id for target in line.targets if isinstance(target, ast.Name)}
        if given & needed:
            needed = needed - given | _names(line.value)
            body.append(line)
    function.body = body[::-1]
    return ast.unparse(tree)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
