"""Folds that lose NaN or Inf, and that PyTorch accepts: where one of them is guilty, the difference is an edge case.

By unit of Inductor: guilty is a unit without which a fresh compile shows no such difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from fxmorph.torchapi.tracking import Tracker, tracked

#: Beginnings of names of units, and what they do, with the thread that says so.
ACCEPTED_FOLDS = {
    # Until releases that compute the product (the fold was a fast path, and no promise).
    "joint.constant_fold_uniform_value": "x * 0 becomes 0 (pytorch 186379)",
    # softmax of a row of -Inf is NaN; scaled_dot_product_attention gives zeros for it.
    "joint.pass_patterns[0]/_sfdp_pattern_": "attention of rows that are masked fully becomes 0 (pytorch 133882)",
}

T = TypeVar("T")


def accepted(fired: Iterable[str]) -> dict[str, str]:
    """Of units that changed something, the accepted folds, and what they do."""
    return {u: words for u in sorted(fired) for fold, words in ACCEPTED_FOLDS.items() if u.startswith(fold)}


def without(units: Iterable[str], compiling: Callable[[], T]) -> T:
    """What ``compiling`` gives where compiles do without these units."""
    with tracked(Tracker(off=frozenset(units)), fusions=False):
        return compiling()
