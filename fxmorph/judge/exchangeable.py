"""Whether one side's random results are what the other side's are, where the numbers themselves differ.

Both sides are run under several seeds of the generator.  What is asked of the compiled runs is answered "no" by
*every one* of them where they are wrong; of right programs all runs are exchangeable, so that chance does that once in
C(64, 8) (4e9) times for each question and element.  The scripts of findings have this file's code in them.
"""

from __future__ import annotations

from collections import Counter

import torch

#: Runs of eager and of the compiled program, under as many seeds each; the first BASE of eager's give the scale.
EAGER, COMPILED, BASE = 56, 8, 24
#: By how much of the range that eager's results have a statistic may be off: short dtypes round what is drawn.
TOLERATED = 1 / 32
#: Elements of which a result is called odd: one of so many, so that large results are not called odd by chance.
ONE_OF = 10_000
#: A result that eager gives in one of so many runs, at most, does not come in all compiled ones by chance.
RARE = 8
#: Seeds under which gradients are held against slopes, and by how much of its size a tensor is moved for one.
SLOPES, STEP = 4, 2.0**-11
#: How far eager's own gradients may be from its slopes, relative to them, for slopes to say anything; and how far from
#: theirs those of a compiled program are that are wrong: ``WRONG`` and ``TIMES`` what eager's are.
SMOOTH, WRONG, TIMES = 0.05, 0.02, 10.0


def odd(eager: list[torch.Tensor], compiled: list[torch.Tensor]) -> str:
    """What is odd about results of the compiled program, in words; "" where nothing is.

    ``EAGER`` and ``COMPILED`` tensors of one shape and dtype, each from a run under another seed.
    """
    mine, theirs = numbers(eager), numbers(compiled)
    count = mine.shape[1]
    if count == 0:
        return ""
    apart = outside(mine, theirs, eager[0].dtype)
    always = int(apart.all(0).sum())
    if always > count // ONE_OF:
        return f"{always} of {count} elements lie outside of what eager gives under {EAGER} seeds, each time"
    usual = outside(mine[: -len(compiled)], mine[-len(compiled) :], eager[0].dtype)
    least, most = float(apart.double().mean(1).min()), float(usual.double().mean(1).max())
    if least > 2 * most + 0.1:
        return f"each time {least:.0%} and more of the elements lie outside of what eager gives"
    if commonest(theirs) == len(compiled) and commonest(mine) * RARE <= len(eager):
        return f"the numbers are the same under {len(compiled)} seeds"
    return shifted(mine, theirs)


def numbers(runs: list[torch.Tensor]) -> torch.Tensor:
    """(runs, elements) in float64; infinities are large numbers."""
    parts = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in runs]
    flat = torch.stack([t.detach().cpu().reshape(-1).double() for t in parts])
    return flat.nan_to_num(float("nan"), 1e300, -1e300)


def hull(runs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the largest of each element; NaN apart."""
    nan = runs.isnan()
    return runs.masked_fill(nan, float("inf")).amin(0), runs.masked_fill(nan, -float("inf")).amax(0)


def outside(mine: torch.Tensor, theirs: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Of each run of theirs, the elements that lie outside of all of mine by more than rounding explains."""
    low, high = hull(mine)
    width = high - low
    inexact = dtype.is_floating_point or dtype.is_complex
    scale = mine[mine.abs() < 1e300].abs().amax() if bool((mine.abs() < 1e300).any()) else mine.new_zeros(())
    rounding = 16 * torch.finfo(dtype).eps * scale if inexact else 0.0
    # Elements that no number reaches are what they are under eager's own numbers too: those were judged.
    fixed = scale / 64 if inexact else float("inf")
    slack = width / 8 + rounding + torch.where(width > 0, 0.0, fixed)
    within = (theirs >= low - slack) & (theirs <= high + slack)
    return ~(within | (theirs.isnan() & mine.isnan().any(0)))


def commonest(runs: torch.Tensor) -> int:
    """How many runs are the same in all elements, at most."""
    return max(Counter(row.tobytes() for row in runs.nan_to_num(0.0).numpy()).values())


def shifted(mine: torch.Tensor, theirs: torch.Tensor) -> str:
    """What is odd about where results lie between eager's extremes, on average over the elements."""
    low, high = hull(mine[:BASE])
    wide = (high > low) & (high - low < 1e300)
    if not bool(wide.any()):
        return ""

    def told(runs: torch.Tensor) -> dict[str, torch.Tensor]:
        at = ((runs - low) / (high - low))[:, wide].nan_to_num(0.5).clamp(0, 1)
        steps = at.diff(dim=1).abs() if at.shape[1] > 1 else at
        spread = (at - 0.5).abs()
        return {"lie": at.mean(1), "spread": spread.mean(1), "change from one to the next": steps.mean(1)}

    for what, ours in told(mine[BASE:]).items():
        least, most, now = ours.min(), ours.max(), told(theirs)[what]
        margin = (most - least) / 4 + TOLERATED
        if bool((now > most + margin).all()) or bool((now < least - margin).all()):
            both = f"{now.mean():.3f}, eager's {ours.mean():.3f}"
            return f"values {what} otherwise between eager's extremes: {both}"
    return ""
