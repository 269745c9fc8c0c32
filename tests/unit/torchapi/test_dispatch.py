"""Trees of what operators take and return: as torch walks them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils import _pytree

from fxmorph.torchapi.dispatch import tree_leaves, tree_map

Pair = namedtuple("Pair", "low high")
T = torch.ones(2)
TREES: dict[str, Any] = {
    "leaf": T,
    "none": None,
    "arguments": ((T, [T + 1, 2, None], 0.5, True, torch.float32), {"dim": (0, 1), "out": {"a": T}}),
    "named": [Pair(T, [1, 2]), (Pair(3, 4),)],
    "ordered": OrderedDict(b=1, a=[T]),
    "size": (T.shape, [T.shape]),
    "empty": ([], (), {}),
    "returned": torch.return_types.max((T, T)),
    "words": ["ab", b"cd", slice(1, 2)],
}


@pytest.mark.parametrize("name", TREES)
def test_trees_are_walked_as_torch_does(name: str) -> None:
    tree = TREES[name]
    mine, theirs = tree_leaves(tree), _pytree.tree_leaves(tree)
    assert len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs, strict=True))

    def told(leaf: Any) -> str:
        return f"<{leaf}>"

    made, wanted = tree_map(told, tree), _pytree.tree_map(told, tree)
    assert made == wanted and type(made) is type(wanted)
