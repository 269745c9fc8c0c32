"""Modes of the process that a program may switch and leave switched: gradients, autocast, dtypes, determinism.

So may a compiler that raises in the midst of tracing leave the keys that torch dispatches by (on torch 2.13 a program
under ``inference_mode`` does, and after that no operator runs in its process), or a level of forward-mode AD open.

A captured graph enters and leaves them by calls of its own (``torch._C._set_grad_enabled``,
``torch.amp.autocast_mode._enter_autocast``): one that raises between them, or that has lost the second, leaves the
process as no other program expects it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fxmorph.torchapi.dispatch import dispatch_keys_kept, transforms_kept

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Modes:
    """The modes of the process (of this thread, for autocast and gradients) at one moment."""

    gradients: bool
    #: By device: whether it is on, and to what it casts.
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    #: In how many ``torch.autocast`` this is.
    nested: int
    dtype: torch.dtype
    deterministic: bool
    only_warns: bool

    @classmethod
    def now(cls) -> Modes:
        """Those of this moment."""
        torch.autocast_increment_nesting()
        return cls(
            torch.is_grad_enabled(),
            tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in DEVICES),
            torch.is_autocast_cache_enabled(),
            torch.autocast_decrement_nesting(),
            torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )

    def restore(self) -> None:
        """Switch back what is otherwise now."""
        now = Modes.now()
        if now == self:
            return
        torch.set_grad_enabled(self.gradients)
        for device, (enabled, dtype) in zip(DEVICES, self.autocast, strict=True):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.autocast_cache)
        for _ in range(now.nested, self.nested):
            torch.autocast_increment_nesting()
        for _ in range(self.nested, now.nested):
            torch.autocast_decrement_nesting()
        if not self.nested:
            torch.clear_autocast_cache()  # casts of parameters that another program would be given
        torch.set_default_dtype(self.dtype)
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.only_warns)


@contextlib.contextmanager
def modes_restored() -> Iterator[Modes]:
    """Whatever runs in it, the modes, the keys of dispatch and the levels of transforms are afterwards as they were.

    Gives those modes.
    """
    before = Modes.now()
    try:
        with dispatch_keys_kept(), transforms_kept():
            yield before
    finally:
        before.restore()
