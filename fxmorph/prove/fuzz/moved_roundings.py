"""Programs of which every operator rounds a little otherwise (Monte Carlo arithmetic: Parker 1997).

What the results of two such runs are apart by, no difference between the two sides of a rule says anything about:
a logarithm of what is 1 but for rounding, for instance, though its argument is none of the program's.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, schema_of, tree_map

#: So far a result is moved, up or down, of itself; where it is sure to be rounded so far that a sum shows it.
_UNIT, _SURELY = 2.0**-50, 2.0**-40
#: Numbers above are rounded in what is computed of them and of small ones.
_LARGE = 2.0**40
#: Functions whose value at an argument that floating point has is none that it has, but for arguments of 0 and 1.
_TRANSCENDENTAL = frozenset(
    "acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp exp2 expm1 log log10 log1p log2 logit sigmoid sin"
    " sinh tan tanh".split()
)
#: Ways to move results: all up, all down, each one at random.
TOWARDS = (1, -1, 0)


class RoundingsMoved(DispatchMode):
    """Each floating-point result that an operator makes, rather than writes or views, is moved by a unit.

    ``towards`` is one of ``TOWARDS``.
    ``certain``: only results that are sure to be rounded, as a hyperbolic tangent of 155, which is 1 only in numbers,
    and large ones, beside which small ones are lost.
    """

    def __init__(self, rng: random.Random, towards: int, certain: bool = False) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(rng.getrandbits(32))
        self._towards, self._certain = towards, certain

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        fresh = isinstance(func, OpOverload) and all(r.alias_info is None for r in schema_of(func).returns)
        if not fresh:
            return out
        if not self._certain:
            return tree_map(self._moved, out)
        if func.overloadpacket.__name__ not in _TRANSCENDENTAL:
            return tree_map(self._moved_where_large, out)
        return torch.where((args[0] == 0) | (args[0] == 1), out, self._moved(out))

    def _moved_where_large(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        return torch.where(value.abs() > _LARGE, self._moved(value), value)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        up = 2 * torch.randint(2, value.shape, generator=self._generator).double() - 1
        return value * (1 + (_SURELY if self._certain else _UNIT) * (self._towards or up))
