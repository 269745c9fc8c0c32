"""Programs in float64 whose own casts to narrower floats stay wide: what a rule for narrow dtypes says of the reals."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.torchapi.dispatch import DispatchMode

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Bits(Exception):
    """The bits of a float are looked at, which are others in float64."""


class CastsWide(DispatchMode):
    """Every float dtype that an operator is asked for becomes float64; raises :class:`Bits`.

    Whole numbers lose what a dtype cannot count that is coarser than the one that the rule is for: that is no rounding
    of its results.

    Args:
        coarsest: the floating dtype with the fewest bits among the arguments.
    """

    def __init__(self, coarsest: torch.dtype | None) -> None:
        super().__init__()
        self._eps = torch.finfo(coarsest).eps if coarsest is not None else 1.0

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is torch.ops.aten.view.dtype:
            raise Bits(str(func))
        asked = kwargs.get("dtype")
        if func is torch.ops.aten._to_copy.default and asked in _NARROW and torch.finfo(asked).eps > self._eps:
            source = args[0]
            if not (source.is_floating_point() or source.is_complex()):
                return func(*args, **kwargs).double()
        return func(*map(_wide, args), **{name: _wide(value) for name, value in kwargs.items()})


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value
