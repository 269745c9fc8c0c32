"""What an operator means in field arithmetic: the arguments of a call, and the table that the others fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch

from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import Val
from fxmorph.prove.shadow_memory import Call, NotModelled
from fxmorph.torchapi.dispatch import tree_leaves


class Loader(Protocol):
    """Where operators' operands come from (``identity_testing.py``)."""

    def load(self, call: Call, t: torch.Tensor) -> Val:
        """The elements of an argument."""

    def is_known(self, call: Call, t: torch.Tensor) -> bool:
        """Whether an argument's values are those of the native run."""

    def is_argument(self, call: Call, t: torch.Tensor) -> bool:
        """Whether an operand lies in memory that the program was given, and that it has not written."""


class _Read(dict[str, Any]):
    """Arguments, and which of them were asked for."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(arguments)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def items(self) -> Any:
        self.asked |= set(self)
        return super().items()


#: Arguments that need not be asked for: in which dtype is computed is none of the reals' business, sizes are those of
#: the operands, and running statistics are not modelled at all.
_IMMATERIAL = frozenset("dtype half_to_float input_dtype N C HxW bias_sizes momentum".split())


class Given:
    """The arguments of a call, and the arithmetic to use on them."""

    def __init__(self, call: Call, math_: Arithmetic, loader: Loader) -> None:
        self._read = _Read(call.arguments)  # a call of its own, in which the values are asked for by name
        self.call, self.m, self.loader = replace(call, arguments=self._read), math_, loader

    def unread(self) -> list[str]:
        """Arguments that were given and never asked for, tensors left out: they may change what is computed."""
        rest = {n: v for n, v in dict.items(self._read) if n not in self._read.asked | _IMMATERIAL}
        return [n for n, v in rest.items() if not any(isinstance(t, torch.Tensor) for t in tree_leaves(v))]

    @property
    def wide(self) -> bool:
        """Whether numbers of the program take part in float64."""
        return any(t.dtype == torch.float64 for t in (*self.call.targets, *self.call.tensors))

    def __contains__(self, name: str) -> bool:
        return self.call.arguments.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        value = self.call.arguments.get(name)
        return default if value is None else value

    def native(self, name: str) -> torch.Tensor:
        """A tensor argument as it was run: only its shape and dtype mean anything, unless it is known."""
        value = self.call.arguments[name]
        if not isinstance(value, torch.Tensor):
            raise NotModelled(f"{self.call.name} without tensor {name}")
        return value

    def value(self, value: Any) -> Val:
        return self.loader.load(self.call, value) if isinstance(value, torch.Tensor) else self.number(value)

    def number(self, value: Any) -> Val:
        """What a number of the program stands for."""
        return self.m.constant(value, wide=self.wide)

    def val(self, name: str, default: Any = None) -> Val:
        value = self.get(name, default)
        if value is None:
            raise NotModelled(f"{self.call.name} without {name}")
        return self.value(value)

    def maybe(self, name: str) -> Val | None:
        return self.val(name) if name in self else None

    def positions(self, name: str) -> torch.Tensor:
        """An index tensor, whose values must be known (or, with a total order, found)."""
        return self.places(self.native(name))

    def places(self, t: torch.Tensor) -> torch.Tensor:
        if self.loader.is_known(self.call, t):
            return t
        if self.m.mixed:
            raise NotModelled(f"{self.call.name} at unknown places")
        p = self.loader.load(self.call, t).p
        if bool((~(p < 2**18)).any()):
            raise NotModelled(f"{self.call.name} at unknown places")
        return p.to(t.dtype)

    def boolean(self, *names: str) -> bool:
        """Whether all of these arguments are truth values."""
        values = [self.get(n) for n in names]
        return all(v.dtype == torch.bool if isinstance(v, torch.Tensor) else isinstance(v, bool) for v in values)

    def dims(self, ndim: int, name: str = "dim") -> list[int]:
        """Dimensions reduced over, sorted; all where none are given."""
        value = self.get(name)
        if value is None or value == []:
            return list(range(ndim))
        return sorted({d % max(ndim, 1) for d in ([value] if isinstance(value, int) else value)}) if ndim else []


Meaning = Callable[[Given], Any]
MEANINGS: dict[str, Meaning] = {}


def means(names: str) -> Callable[[Meaning], Meaning]:
    def note(f: Meaning) -> Meaning:
        for name in names.split():
            MEANINGS[name] = f
        return f

    return note
