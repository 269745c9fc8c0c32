"""The dtypes that interpreted kernels compute values in."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """``rounds``: casts to a narrow type round, as under ``emulate_precision_casts``.

    Without it values of narrow types are float32 until they are stored.  ``wide``: all floats are float64, and nothing
    rounds but to that.
    """

    rounds: bool = False
    wide: bool = False

    def computed(self, dtype: torch.dtype) -> torch.dtype:
        """The type that values of this type are computed in."""
        if self.wide and dtype.is_floating_point:
            return torch.float64
        return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype

    def cast(self, value: torch.Tensor, dtype: torch.dtype, exactly: bool) -> torch.Tensor:
        """``exactly``: the narrow type itself is asked for."""
        if (self.rounds or exactly) and not self.wide:
            value = value.to(dtype)
        return value.to(self.computed(dtype))
