"""Programs of which every operator rounds a little otherwise (Monte Carlo arithmetic: Parker 1997).

What the results of two such runs are apart by, no difference between the two sides of a rule says anything about:
a logarithm of what is 1 but for rounding, for instance, though its argument is none of the program's.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, schema_of, tree_map

#: So far a result is moved, up or down, of itself.
_UNIT = 2.0**-52


class RoundingsMoved(DispatchMode):
    """Each floating-point result that an operator makes, rather than writes or views, is moved by a unit at random."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(rng.getrandbits(32))

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        fresh = isinstance(func, OpOverload) and all(r.alias_info is None for r in schema_of(func).returns)
        return tree_map(self._moved, out) if fresh else out

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        return value * (1 + _UNIT * torch.randint(-1, 2, value.shape, generator=self._generator).double())
