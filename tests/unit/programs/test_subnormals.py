"""Subnormal numbers are kept where fxmorph computes, whatever a library has set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fxmorph.programs.subnormals import flushed, subnormals_kept


@pytest.fixture
def flushing() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    yield
    torch.set_flush_denormal(False)


def test_they_are_kept_inside_and_the_mode_comes_back(flushing: None) -> None:
    assert flushed()
    with subnormals_kept():
        assert not flushed()
    assert flushed()


def test_what_is_set_inside_does_not_stay() -> None:
    with subnormals_kept():
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush subnormal numbers")
        assert flushed()
    assert not flushed()
