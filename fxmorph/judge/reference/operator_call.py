"""One call of an operator, as the parts of the reference run hand it to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fxmorph.programs.operators import RUNNING_STATISTICS, operator_name
from fxmorph.torchapi.dispatch import OpOverload, tensors_of, written_tensors

#: Of real numbers they are exact.
_OF_COMPLEX_ROUNDED = frozenset({"abs", "sgn"})


@dataclass(frozen=True)
class OperatorCall:
    """An operator and its arguments: the program's own, or a lane's in their place (:meth:`of_lane`).

    ``tensors``, the tensors among the arguments, and ``written``, those that it writes, are the program's in either.
    ``decided``: it is a division whose whole quotient no rounding decides.  ``anew``: the same call of the lane's
    :attr:`~fxmorph.judge.reference.lanes.Lane.anew`, where it has one that computes the operator too.
    ``errors`` is what the first lane of a kind found its results to be off by, and the others take: all calls share it.
    """

    func: OpOverload
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]
    written: list[torch.Tensor]
    decided: bool = False
    anew: OperatorCall | None = None
    errors: dict[tuple[bool, int], torch.Tensor] = field(default_factory=dict)

    def of_lane(self, args: tuple[Any, ...], kwargs: dict[str, Any], anew: OperatorCall | None = None) -> OperatorCall:
        return OperatorCall(
            self.func, self.name, args, kwargs, self.tensors, self.written, self.decided, anew, self.errors
        )

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    @property
    def accumulates(self) -> bool:
        """Of ``index_put`` and its kin, whether they add to what is there."""
        return bool(self.kwargs.get("accumulate", self.args[3] if len(self.args) > 3 else False))


def operator_call(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OperatorCall:
    """The program's call of ``func``."""
    name = operator_name(func)
    if str(func).endswith(".decimals"):
        name = f"{name}_decimals"  # it scales, rounds and scales back, which no binary format does exactly
    if name.removesuffix("_") in _OF_COMPLEX_ROUNDED and any(t.is_complex() for t in tensors_of(args)):
        name = f"{name}_complex"  # a root of squares, and a quotient by it
    if name.removesuffix("_") == "ldexp" and any(map(_is_floating, args[1:])):
        name = f"{name}_fraction"  # a power of 2 that is no number of the format
    written = written_tensors(func, args, kwargs)
    if name in RUNNING_STATISTICS and len(args) > 5 and args[5]:
        written += tensors_of(args[3:5])
    return OperatorCall(func, name, args, kwargs, tensors_of((args, kwargs)), written)


def _is_floating(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, torch.Tensor) else isinstance(value, float)


def strided(values: list[Any]) -> list[torch.Tensor]:
    """The tensors of them that lie in memory by strides."""
    return [t for t in values if isinstance(t, torch.Tensor) and t.layout == torch.strided]
