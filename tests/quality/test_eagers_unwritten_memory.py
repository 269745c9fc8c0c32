"""What eager reads from memory that nothing wrote accuses no compiler; what is wrong beside it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.judge import trial as trial_module
from fxmorph.judge.case import judge_subject, plan_inputs
from fxmorph.judge.trial import GraphSubject
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Seed, Status, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.new_memory import garbage_in_new_memory

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten


def judged(
    fn: Callable[..., Any], wrong: Callable[..., Any], inputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> CaseResult:
    """``fn`` where what is compiled is ``wrong``."""
    monkeypatch.setattr(trial_module, "compile_callable", lambda _, config: wrong)
    plans = (ValuePlan.SEED,)
    subject = GraphSubject(fn, plan_inputs(plans, InputSet.snapshot(inputs), 0, fn, True), lambda c: c, True)
    case = Case(Seed("unwritten.py", "module", "0"), 0, 0, plans, CompileConfig.make("aot_eager"))
    with garbage_in_new_memory():  # as cases are judged
        return judge_subject(case, subject, Clock())


def mean_over_nothing(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """On the CPU whatever its new memory held: the kernel returns before it writes."""
    return aten.multilabel_margin_loss.default(x, target)


NOTHING = [torch.zeros(0, 5), torch.zeros(0, 5, dtype=torch.int64)]


def test_what_no_kernel_of_eagers_wrote_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    got = judged(mean_over_nothing, lambda x, target: torch.full((), torch.nan), NOTHING, monkeypatch)
    # What the memory happens to hold decides which.
    assert got.status is Status.TIE or (got.status is Status.SKIPPED and "other garbage" in got.reason), got


def test_what_is_wrong_beside_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    got = judged(
        lambda x, target, y: (mean_over_nothing(x, target), y + 1),
        lambda x, target, y: (torch.full((), torch.nan), y + 2),
        [*NOTHING, torch.ones(3)], monkeypatch,
    )  # fmt: skip
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got


def test_a_number_where_eager_has_none_is_a_finding_still(monkeypatch: pytest.MonkeyPatch) -> None:
    got = judged(lambda x: x.sum() / 4, lambda x: torch.full((), torch.nan), [torch.ones(4)], monkeypatch)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.NONFINITE,)), got
