"""Functions and methods of torch that programs call, and which of them a program does.

They are those that torch lets other tensor types override, which is its own list of what takes tensors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, get_overridable_functions, resolve_name


@cache
def torch_functions() -> frozenset[str]:
    """Their names, as ``torch.nn.functional.silu``, ``torch.Tensor.add_``, ``torch.Tensor.mT.__get__``."""
    found = (resolve_name(function) for functions in get_overridable_functions().values() for function in functions)
    return frozenset(name for name in found if name is not None)


def aten_overloads() -> frozenset[str]:
    """Names of every overload of ATen that torch registers, as ``aten.add.Tensor``."""
    names = (name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return frozenset(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names)


class FunctionsCalled(TorchFunctionMode):
    """A mode that notes what the program itself calls, not what those functions call."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = resolve_name(func)
        if name in torch_functions():
            self.names.add(name)
        return func(*args, **(kwargs or {}))
