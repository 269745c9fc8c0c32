"""A program judged while decompositions are others than PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._inductor import decomposition

from fxmorph.core.clock import Clock
from fxmorph.judge.case import judge_subject, plan_inputs
from fxmorph.judge.trial import GraphSubject
from fxmorph.model import Case, CaseResult, CompileConfig, Seed, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.compiling import reset


@contextmanager
def instead(operators: str, function: Callable[..., Any]) -> Iterator[None]:
    """Operators of aten decompose into ``function``: ``add.Tensor``, or ``sin cos`` with all overloads without out."""
    keys = []
    for operator in operators.split():
        name, _, overload = operator.partition(".")
        packet = getattr(torch.ops.aten, name)
        keys += [getattr(packet, o) for o in packet.overloads() if (o == overload if overload else "out" not in o)]
    assert keys, operators
    with patch.dict(decomposition.decompositions, dict.fromkeys(keys, function)):
        decomposition.fast_random_decomps.cache_clear()
        yield
    decomposition.fast_random_decomps.cache_clear()


def judge(
    program: Callable[..., Any], inputs: list[Any], damage: AbstractContextManager[Any],
    backend: str = "aot_eager_decomp_partition", plans: Sequence[ValuePlan] = (ValuePlan.SEED,),
) -> CaseResult:  # fmt: skip
    plans = tuple(plans)
    subject = GraphSubject(program, plan_inputs(plans, InputSet.snapshot(inputs), 0, program), lambda c: c)
    config = CompileConfig.make(backend)
    with damage:
        reset()
        return judge_subject(Case(Seed("judged.py", "module", "0"), 0, 0, plans, config), subject, Clock())
