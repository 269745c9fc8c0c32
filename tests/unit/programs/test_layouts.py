"""Inputs laid out otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.seeds import find_seeds
from fxmorph.programs.layouts import layout_of, relaid
from fxmorph.programs.load import in_other_layout, load_seed
from fxmorph.programs.memory import overlap
from fxmorph.torchapi.storages import storage_key

pytestmark = pytest.mark.usefixtures("torch_quiet")


def layouts(*values: Any, written: tuple[int, ...] = (), draws: int = 60) -> list[list[Any]]:
    return [relaid(values, random.Random(k), frozenset(written)) for k in range(draws)]


def test_what_may_not_overlap_keeps_its_values() -> None:
    x, leaf = torch.arange(24.0).reshape(2, 3, 4), torch.ones(3, 5, requires_grad=True)
    base = torch.arange(6)
    given = [x, leaf, base, base[2:], torch.ones(1, 3).expand(2, 3), 7, torch.tensor(3.0)]
    changed = 0
    for made in layouts(*given, written=(0,)):
        assert all(torch.equal(a, b) for a, b in zip(made, given, strict=True) if isinstance(a, torch.Tensor))
        assert made[2] is base and made[4] is given[4] and made[5] == 7
        assert made[1].requires_grad and made[1].is_leaf
        changed += layout_of(made[:1]) != layout_of([x])
    assert changed >= 30


def test_every_sort_of_layout_is_drawn() -> None:
    image = torch.randn(2, 3, 4, 5)
    drawn = [made[0] for made in layouts(image)]
    assert {m.shape for m in drawn} == {image.shape}
    assert any(m.is_contiguous(memory_format=torch.channels_last) for m in drawn)
    assert any(m.mT.is_contiguous() for m in drawn)
    assert any(0 in m.stride() for m in drawn)
    assert any(m.storage_offset() for m in drawn)
    assert any(min(m.stride()) == 2 for m in drawn)


def test_two_inputs_come_to_share_memory_and_overlap_only_where_nothing_is_written() -> None:
    x, y = torch.randn(4, 3), torch.randn(6)
    sharing = [m for m in layouts(x, y) if storage_key(m[0]) == storage_key(m[1])]
    assert {overlap(*m) for m in sharing} == {True, False}
    for a, b in sharing:
        assert (a.shape, b.shape) == (x.shape, y.shape) and torch.equal(a, x)
        assert overlap(a, b) or torch.equal(b, y)
    apart = [m for m in layouts(x, y, written=(1,)) if storage_key(m[0]) == storage_key(m[1])]
    assert apart and not any(overlap(*m) for m in apart)


def test_what_is_written_or_requires_grad_is_never_expanded() -> None:
    for made in layouts(torch.randn(4, 3), torch.randn(5, 2, requires_grad=True), written=(0,)):
        assert 0 not in made[0].stride() and 0 not in made[1].stride()


@pytest.mark.parametrize(
    ("body", "accepted"), [("return x + 1", True), ("return x.add_(1)", True), ("return x.view(-1)[:3].sin_()", False)]
)
def test_a_seed_gets_another_layout_where_eager_accepts_it(tmp_path: Path, body: str, accepted: bool) -> None:
    source = f"import torch\ndef make_inputs(): return [torch.randn(4, 3)]\ndef fn(x): {body}\n"
    (tmp_path / "seed.py").write_text(source)
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    found = []
    for k in range(12):
        loaded = load_seed(seed)
        loaded.layout = f"{k}"
        other = in_other_layout(loaded, 0)
        if other is not None:
            found.append(other)
            assert layout_of(other.fresh().args) == layout_of(other.fresh().args) != layout_of(loaded.fresh().args)
            assert other.written == (frozenset() if "+ 1" in body else {0})
            if "+ 1" not in body:
                assert 0 not in other.fresh().args[0].stride()
    assert len(found) >= 8 if accepted else len(found) < 8
