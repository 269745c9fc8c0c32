"""Whether integers that fxmorph chose may be given to a program.

Those at the limits of their dtype where it takes them as numbers alone, and negative ones where no operator takes them
that does not look at them first.
"""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.programs.operators import operator_name
from fxmorph.programs.values import INTEGERS
from fxmorph.torchapi.dispatch import DispatchMode, tensors_of, written_tensors
from fxmorph.torchapi.storages import storage_key

#: What may be done with integers at the limits of their dtype beside elementwise operators: nothing of it takes
#: them as places or sizes.
HARMLESS = frozenset({
    "_to_copy", "amax", "amin", "argmax", "argmin", "as_strided", "cat", "clone", "constant_pad_nd", "copy", "copy_",
    "cummax", "cummin", "cumsum", "detach", "diagonal", "expand", "flip", "max", "min", "mm", "permute", "prod", "roll",
    "select", "slice", "sort", "split", "split_with_sizes", "squeeze", "stack", "sum", "t", "topk", "transpose", "tril",
    "triu", "unbind", "unsqueeze", "unfold", "view", "_unsafe_view", "_reshape_alias", "alias", "lift_fresh",
    "masked_fill", "masked_fill_", "any", "all",
})  # fmt: skip
#: Elementwise, and yet: the machine traps on what they are undefined for, or C++ leaves it open.
PARTIAL = frozenset({
    "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "__ilshift__", "__irshift__", "fmod",
    "floor_divide", "gcd", "lcm", "pow", "remainder",
})  # fmt: skip

#: Take labels, lengths or offsets for what they are, and read and write wherever those lead.
UNCHECKED = frozenset({
    "_ctc_loss", "_pack_padded_sequence", "segment_reduce", "_embedding_bag", "_embedding_bag_forward_only",
})  # fmt: skip


class NotHarmless(Exception):
    """Integers of fxmorph's reach an operator that may not have them."""


class IntegerWatch(DispatchMode):
    """Stops before an operator takes what ``changed`` reaches as a place, size, divisor, exponent or number of bits.

    ``unchecked``: only before one that may leave memory by it.  The operator is then in ``stopped_at``.  Truth values
    do not count: what they choose is in range.
    """

    def __init__(self, changed: list[torch.Tensor], unchecked: bool = False) -> None:
        super().__init__()
        self.stopped_at = ""
        self._stops = _may_leave_memory if unchecked else _takes_more_than_numbers
        self._reached = {storage_key(t): t for t in changed}

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = operator_name(func)
        reached = any(t.dtype != torch.bool and storage_key(t) in self._reached for t in tensors_of((args, kwargs)))
        if reached and self._stops(func, name, kwargs):
            self.stopped_at = name
            raise NotHarmless(name)
        out = func(*args, **kwargs)
        if reached:
            made = [t for t in tensors_of([out, written_tensors(func, args, kwargs)]) if t.dtype != torch.bool]
            self._reached.update((storage_key(t), t) for t in made)
        return out


def _takes_more_than_numbers(func: Any, name: str, kwargs: dict[str, Any]) -> bool:
    partial = name.removesuffix("_") in PARTIAL or kwargs.get("rounding_mode") is not None
    return partial or (torch.Tag.pointwise not in func.tags and name not in HARMLESS)


def _may_leave_memory(func: Any, name: str, kwargs: dict[str, Any]) -> bool:
    return name in UNCHECKED or "::" in name  # of others' operators nobody knows


def at_limits(t: torch.Tensor) -> bool:
    """Whether an integer tensor holds the least or largest numbers of its dtype, or next to them."""
    if t.dtype not in INTEGERS or not t.numel():
        return False
    info = torch.iinfo(t.dtype)
    return bool((t >= info.max - 1).any()) or bool(info.min < 0 and (t <= info.min + 1).any())
