"""Results that no kernel writes are findings, although the memory they lie in often holds right values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CompileConfig, Kind, Seed, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import reset
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")

PROGRAMS: dict[str, str] = {
    "pointwise": "(x * 2 + 1).relu()",
    "sum": "x.exp().sum(1)",
    "cat": "torch.cat([x.sin(), x.cos()], 1)",
}


def without_last_rows(fn: Callable[..., Any], config: CompileConfig) -> Callable[..., Any]:
    """A compiled program that writes all rows of its result but the last two."""

    def compiled(*args: Any) -> Any:
        return torch.utils._pytree.tree_map(_written_in_part, fn(*args))

    return compiled


def _written_in_part(right: torch.Tensor) -> torch.Tensor:
    written = torch.arange(len(right)) < len(right) - 2
    made = torch.empty_like(right)
    made[written] = right[written]
    return made


def one_too_much(fn: Callable[..., Any], config: CompileConfig) -> Callable[..., Any]:
    """A compiled program that adds one to its result."""
    return lambda *args: torch.utils._pytree.tree_map(lambda t: t + 1, fn(*args))


def case_of(folder: Any, program: str) -> Case:
    text = f"import torch\ndef make_inputs(): return [torch.rand(6, 8)]\ndef fn(x): return {program}\n"
    (folder / "s.py").write_text(text)
    return Case(Seed(str(folder / "s.py"), "module", "s"), 0, 0, (ValuePlan.SEED,), CompileConfig.make("aot_eager"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_nothing_wrote_is_seen_whatever_the_memory_held_before(program: str, tmp_path: Any) -> None:
    case = case_of(tmp_path, PROGRAMS[program])
    reset()
    with mock.patch("fxmorph.judge.trial.compile_callable", without_last_rows):
        found = judge_case(case, Registry(), Clock())
    assert (found.status, found.kinds) == (Status.FINDING, (Kind.VALUE,)), found.reason


@pytest.mark.parametrize("fault,told", [(without_last_rows, {"garbage": True}), (one_too_much, {})])
def test_a_script_has_garbage_where_nothing_was_written(fault: Any, told: dict[str, bool], tmp_path: Any) -> None:
    case = case_of(tmp_path, PROGRAMS["pointwise"])
    with mock.patch("fxmorph.judge.trial.compile_callable", fault):
        reset()
        found = judge_case(case, Registry(), Clock())
        out = investigate(case, found, Registry(), Clock(), 60.0)
    assert out.program and {key: value for key, value in out.config.items() if key == "garbage"} == told


@pytest.mark.parametrize("program", [*PROGRAMS.values(), "torch.empty(4, 4).fill_(2.0) + x.sum()"])
def test_what_is_written_in_full_is_clean(program: str, tmp_path: Any) -> None:
    found = judge_case(case_of(tmp_path, program), Registry(), Clock())
    assert found.status is Status.CLEAN, found.reason
