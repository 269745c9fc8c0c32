"""Functions that return fewer results than others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.programs.fewer_results import returning

CALLED: list[str] = []


def noted(name: str, t: torch.Tensor) -> torch.Tensor:
    CALLED.append(name)
    return t + 1


TEXT = """def fn(t0, t1):
    t0 = noted('view', t0)
    out0 = noted('first', t0)
    out1 = (noted('second', t1), t1)
    out2 = noted('third', out0)
    return [out0, out1, out2, noted('inside', out2)]"""


def written() -> Callable[..., Any]:
    names: dict[str, Any] = {"noted": noted}
    exec(TEXT, names)
    names["fn"].text = TEXT
    return names["fn"]  # type: ignore[no-any-return]


def args() -> list[torch.Tensor]:
    return [torch.zeros(2), torch.ones(2)]


@pytest.mark.parametrize(
    ("places", "called"),
    [
        ({0}, ["view", "first"]),
        ({1}, ["second"]),
        ({2}, ["second"]),
        ({3}, ["view", "first", "third"]),
        ({4}, ["view", "first", "third", "inside"]),
        ({0, 2}, ["view", "first", "second"]),
    ],
)
def test_what_no_result_needs_is_not_run(places: set[int], called: list[str]) -> None:
    fn = written()
    whole = torch.utils._pytree.tree_leaves(fn(*args()))
    fewer = returning(fn, frozenset(places), args)
    CALLED.clear()
    some = torch.utils._pytree.tree_leaves(fewer(*args()))
    assert called == CALLED and len(some) == len(whole)
    assert all(torch.equal(some[k], whole[k]) for k in places)


@pytest.mark.parametrize("places", [{0}, {1, 3}, {2}])
def test_a_function_without_text_gives_none_in_their_place(places: set[int]) -> None:
    def fn(x: torch.Tensor) -> Any:
        return {"a": x, "b": [x + 1, (x + 2, x + 3)]}

    x = torch.zeros(2)
    got = returning(fn, frozenset(places))(x)
    leaves, spec = torch.utils._pytree.tree_flatten(got)
    assert spec == torch.utils._pytree.tree_flatten(fn(x))[1]
    assert [leaf is not None for leaf in leaves] == [k in places for k in range(4)]
    assert all(torch.equal(leaves[k], x + k) for k in places)
