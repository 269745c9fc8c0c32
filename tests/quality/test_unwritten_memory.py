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

pytestmark = pytest.mark.usefixtures("torch_quiet")

PROGRAMS: dict[str, str] = {
    "pointwise": "(x * 2 + 1).relu()",
    "sum": "x.exp().sum(1)",
    "cat": "torch.cat([x.sin(), x.cos()], 1)",
}


def without_last_rows(fn: Callable[..., Any], config: CompileConfig) -> Callable[..., Any]:
    """A compiled program that writes all rows of its result but the last two."""

    def compiled(*args: Any) -> torch.Tensor:
        right = fn(*args)
        written = torch.arange(len(right)) < len(right) - 2
        made = torch.empty_like(right)
        made[written] = right[written]
        return made

    return compiled


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


@pytest.mark.parametrize("program", [*PROGRAMS.values(), "torch.empty(4, 4).fill_(2.0) + x.sum()"])
def test_what_is_written_in_full_is_clean(program: str, tmp_path: Any) -> None:
    found = judge_case(case_of(tmp_path, program), Registry(), Clock())
    assert found.status is Status.CLEAN, found.reason
