"""Fake tensors whose sizes are symbols, as graphs have them that are traced with dynamic shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

#: Other sizes that are tried in the place of the traced ones, all of a graph by the same rule.
_OTHERS: tuple[Callable[[int], int], ...] = (lambda n: n + 3, lambda n: 2 * n, lambda n: 2 * n + 1, lambda n: n - 1)


class SymbolicSizes:
    """The fake mode of one graph, and what was assumed of its symbols since: by tracing, and by passes."""

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)

    def fake(self, value: torch.Tensor, name: str, apart: bool = False) -> Any:
        """``value`` with a symbol for each size above 1, the same for equal ones; ``apart``: for it alone."""
        kind = DimDynamic.DYNAMIC if apart else DimDynamic.DUCK
        context: Any = StatelessSymbolicContext(dynamic_sizes=[kind] * value.ndim)  # type: ignore[call-arg]
        return self.mode.from_tensor(value, source=ConstantSource(name), symbolic_context=context)

    @property
    def free(self) -> int:
        """How many symbols may still have another value."""
        return sum(self._env.replacements.get(s, s) == s for s in self._env.backed_var_to_val)

    @property
    def traced(self) -> Mapping[Any, int]:
        """What each symbol was."""
        return {symbol: int(value) for symbol, value in self._env.backed_var_to_val.items()}

    def other_values(self) -> Iterator[Mapping[Any, int]]:
        """Values of all symbols, others than the traced ones, of which all holds that was assumed."""
        traced = self.traced
        free = [s for s in traced if self._env.replacements.get(s, s) == s]
        changes: list[tuple[Sequence[Any], Callable[[int], int]]] = [(free, rule) for rule in _OTHERS]
        changes += [([symbol], rule) for symbol in free for rule in _OTHERS] if len(free) > 1 else []
        for some, rule in changes:
            values = {s: rule(traced[s]) if s in some else traced[s] for s in free}
            values = {**traced, **values}
            for symbol, stands in self._env.replacements.items():
                if symbol in values and symbol not in free:
                    values[symbol] = int(stands.subs(values))
            if all(v > 1 for v in values.values()) and all(bool(guard.expr.subs(values)) for guard in self._env.guards):
                yield values


def at_sizes(size: int | torch.SymInt, values: Mapping[Any, int]) -> int:
    """A size, or a number computed of sizes, where symbols have these values."""
    return int(size.node.expr.subs(values)) if isinstance(size, torch.SymInt) else size


def symbol_hint(size: int | torch.SymInt) -> int:
    """The number that a size had when its graph was traced; nothing is assumed of it."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size
