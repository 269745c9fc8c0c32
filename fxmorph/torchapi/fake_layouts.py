"""Operators whose fake kernel says another layout than their own kernel gives, seen while a program runs in eager."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from fxmorph.core.strides import visible_strides
from fxmorph.torchapi.decompose import is_decomposed
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, mutated_arguments
from fxmorph.torchapi.fake import FakeTensorMode, unlogged


class _Comparing(DispatchMode):
    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        told = _told(func, args, kwargs) if not self._found and _has_a_fake_kernel(func) else None
        result = func(*args, **kwargs)
        if told is not None:
            given = _layouts(result)
            if len(given) == len(told) and given != told:
                self._found.append(str(func))
        return result


def _has_a_fake_kernel(func: Any) -> bool:
    """Of its own: what is decomposed is a matter of the decomposition, and what writes lays out nothing."""
    return isinstance(func, OpOverload) and not is_decomposed(func) and not mutated_arguments(func)


def _told(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """The layouts of results by the fake kernel; None where it has no answer."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(value: Any) -> Any:
        return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value

    with contextlib.suppress(Exception), unlogged(), torch.no_grad():
        given = tree_map(fake, (args, kwargs))
        with mode:
            result = func(*given[0], **given[1])
        return _layouts(result)
    return None


def _layouts(result: Any) -> list[Any]:
    """Shapes of the tensors that a call gives, and strides where these can be seen."""
    tensors = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    dense = [t.layout is torch.strided and t.numel() > 0 for t in tensors]
    return [
        (tuple(t.shape), visible_strides(t.shape, t.stride()) if seen else ())
        for t, seen in zip(tensors, dense, strict=True)
    ]


@contextlib.contextmanager
def layouts_compared() -> Iterator[list[str]]:
    """The first operator, if any, that runs in this context and lays a result out otherwise than its fake kernel says,
    which is what Inductor goes by for operators that it does not take apart.
    """
    found: list[str] = []
    with _Comparing(found):
        yield found
