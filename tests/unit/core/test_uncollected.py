"""What is loaded without the collector is left alone by it, which runs again after that."""

from __future__ import annotations

import gc

import pytest

from fxmorph.core.uncollected import uncollected


def test_what_is_made_inside_is_not_searched_later() -> None:
    before = gc.get_freeze_count()
    try:
        with uncollected():
            assert not gc.isenabled()
            made: list[object] = []
            made.append(made)
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert not any(thing is made for thing in gc.get_objects())
    finally:
        gc.unfreeze()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError), uncollected():
            raise ZeroDivisionError
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
