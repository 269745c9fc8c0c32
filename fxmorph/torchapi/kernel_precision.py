"""The dtypes that interpreted kernels compute and keep values in."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Wider floating-point types than these nothing is computed in.
_WIDE = torch.float64


@dataclass(frozen=True)
class Precision:
    """``wide``: everything that floats is float64, and casts between such types change nothing.

    ``rounds``: casts to a narrow type round, as under ``emulate_precision_casts``; without it values of narrow types
    are float32 until they are stored.
    """

    wide: bool = False
    rounds: bool = False

    def computed(self, dtype: torch.dtype) -> torch.dtype:
        """The type that values of this type are computed in."""
        if not dtype.is_floating_point:
            return dtype
        if self.wide:
            return _WIDE
        return torch.float32 if dtype.itemsize < 4 else dtype

    def kept(self, dtype: torch.dtype) -> torch.dtype:
        """The type that buffers of this type have."""
        return _WIDE if self.wide and dtype.is_floating_point else dtype

    def cast(self, value: torch.Tensor, dtype: torch.dtype, exactly: bool) -> torch.Tensor:
        """``exactly``: the narrow type itself is asked for."""
        if self.wide and dtype.is_floating_point:
            return value.to(_WIDE)
        if self.rounds or exactly:
            value = value.to(dtype)
        return value.to(self.computed(dtype))
