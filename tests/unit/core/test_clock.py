"""Every CPU second falls into one bucket."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from fxmorph.core.clock import ACTIVITIES, Clock


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_nested_activities_take_their_time_from_the_outer_one() -> None:
    clock = Clock()
    with clock.activity("judge"):
        with clock.activity("eager"):
            burn(0.05)
        burn(0.05)
    got = dict(clock.take())
    assert got["eager"] >= 0.05
    assert got["judge"] >= 0.05


def test_buckets_add_up_to_what_the_process_used() -> None:
    before = time.process_time()
    clock = Clock()
    with clock.activity("compile"):
        burn(0.1)
    burn(0.05)
    total = sum(seconds for _, seconds in clock.take())
    assert 0.15 <= total <= time.process_time() - before + 0.02


def test_children_of_a_compile_are_the_c_compilers() -> None:
    clock = Clock()
    with clock.activity("compile"):
        subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert dict(clock.take())["c++"] > 0


def test_taking_empties_the_clock() -> None:
    clock = Clock()
    with clock.activity("store"):
        burn(0.02)
    clock.take()
    assert "store" not in dict(clock.take())


def test_an_exception_ends_its_activity() -> None:
    told: list[str] = []
    clock = Clock(on_change=told.append)
    with pytest.raises(ValueError), clock.activity("judge"), clock.activity("eager"):
        raise ValueError
    assert told == ["judge", "eager", "judge", "idle"]


def test_the_buckets_are_those_of_the_bench() -> None:
    assert {"compile", "c++", "eager", "judge", "rewrite", "capture", "reduce", "idle"} <= set(ACTIVITIES)
