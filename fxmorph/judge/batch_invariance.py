"""Plan ``rows``: programs that promise batch invariance, by ``META = {"batch_invariant": True}``.

What such a program returns for a row of its batch does not hang on the other rows, to the bit: servers of models rely
on it, for equal answers whoever else asks.  Eager may break that promise itself, and is no measure then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fxmorph.model import Kind, Status, ValuePlan, Verdict, VerdictCode
from fxmorph.programs.bits import other_numbers
from fxmorph.programs.observe import Observation
from fxmorph.programs.other_rows import KEPT, OtherRows

if TYPE_CHECKING:
    from fxmorph.judge.trial import Trial


def judge_rows(trial: Trial, beside: Observation) -> list[Verdict]:
    """Verdicts of plan ``rows``, under which ``beside`` is eager's run; none where a side raises.

    Of programs that raise other plans tell.
    """
    rows, mine = trial.subject.rows(trial.input_seed), trial.eager(ValuePlan.SEED)
    if mine.raised or beside.raised:
        return []
    broken = set(_hanging(rows, mine, beside))
    if broken:
        text = "rows hang on others in eager, though the program promises that they do not"
        return [Verdict(Status.SKIPPED, None, min(broken), text, code=VerdictCode.HANGS_ON_OTHER_ROWS)]
    mine, beside = (trial.compiled(plan) for plan in (ValuePlan.SEED, ValuePlan.ROWS))
    trial.sides = mine, beside
    if mine.raised or beside.raised:
        return []
    return [
        Verdict(Status.FINDING, Kind.VALUE, slot, text, code=VerdictCode.HANGS_ON_OTHER_ROWS)
        for slot, text in _hanging(rows, mine, beside).items()
    ]


def _hanging(rows: OtherRows, mine: Observation, beside: Observation) -> dict[str, str]:
    """Of results of the batch, by slot, what rows that stay are beside other rows, where that is something else."""
    said, what = {}, "rows hang on others, though the program promises that they do not"
    for slot, other in zip(mine.outputs, beside.outputs, strict=False):
        a, b = slot.value, other.value
        if not rows.in_batch(a) or not isinstance(b, torch.Tensor) or a.shape != b.shape:
            continue
        a, b = a[KEPT], b[KEPT]
        differ = other_numbers(a, b)
        if not differ.any():
            continue
        at = tuple(int(i) for i in differ.nonzero()[0])
        place = [KEPT.step * at[0], *at[1:]]
        said[slot.name] = (
            f"{what}: {int(differ.sum())} of {a.numel()} elements of rows that stay change with the rest;"
            f" at {place} {a[at].item():.9g} becomes {b[at].item():.9g}"
        )
    return said
