"""Modes that a program leaves switched are switched back, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.programs.graph import read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.load import Invocation
from fxmorph.programs.modes import Modes, modes_restored
from fxmorph.programs.observe import observe
from fxmorph.programs.profile import profile

_enter = torch.amp.autocast_mode._enter_autocast
SWITCHES: dict[str, Callable[[], Any]] = {
    "gradients": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: _enter("cpu", torch.bfloat16, True, None),
    "autocast to another dtype": lambda: _enter("cpu", torch.float16, True, None),
    "autocast without cache": lambda: _enter("cpu", torch.bfloat16, True, False),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("raises", [False, True])
def test_a_run_leaves_the_modes_as_they_were(name: str, raises: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        SWITCHES[name]()
        assert Modes.now() != before
        if raises:
            raise ValueError("planted")
        return x * 2

    before = Modes.now()
    x = torch.ones(3)
    seen = observe(Invocation(fn, [x], lambda g: g(x)), lambda f: f)
    assert bool(seen.raised) is raises
    assert Modes.now() == before


@pytest.mark.parametrize("raises", [False, True])
def test_no_level_of_a_transform_stays_open(raises: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._C._enter_dual_level()
        if raises:
            torch._C._functorch._jvp_increment_nesting()
            raise ValueError("planted")
        return x * 2

    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    x = torch.full((3,), 2.0)
    seen = observe(Invocation(fn, [x], lambda g: g(x)), lambda f: f)
    assert bool(seen.raised) is raises
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert torch.func.jvp(square, (x,), (torch.ones(3),))[1].tolist() == [4, 4, 4]


def test_a_level_that_was_open_stays_open() -> None:
    with torch.autograd.forward_ad.dual_level():
        with modes_restored():
            dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert torch.autograd.forward_ad.unpack_dual(dual * 3).tangent.tolist() == [3, 3]


def test_a_program_runs_in_the_modes_that_it_is_called_in() -> None:
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        before = Modes.now()
        with modes_restored():
            assert Modes.now() == before and before.nested == 1
            SWITCHES["gradients"]()
        assert Modes.now() == before
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


TEXT = """import torch
def fn(x):
    enter = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)
    y = x @ x
    {exit}
    return (y,)
"""


@pytest.mark.parametrize(
    ("exit", "kept"), [("leave = torch.amp.autocast_mode._exit_autocast(enter)", True), ("z = x + 1", False)]
)
def test_a_profile_says_whether_they_are_kept(exit: str, kept: bool) -> None:
    before = Modes.now()
    graph = read_graph(TEXT.format(exit=exit))
    got = profile(graph, InputSet.snapshot([torch.ones(2, 2)]))
    assert (bool(got.switches), got.keeps_modes) == (True, kept)
    assert Modes.now() == before


def test_a_program_that_switches_none_says_so() -> None:
    got = profile(read_graph("def fn(x):\n    y = x + 1\n    return (y,)\n"), InputSet.snapshot([torch.ones(2)]))
    assert (got.switches, got.keeps_modes) == ([], True)
