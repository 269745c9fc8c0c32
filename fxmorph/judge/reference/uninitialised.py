"""Whether a program's results depend on memory that it never wrote."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.programs.operators import EMPTY, operator_name
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload


class FillEmpty(DispatchMode):
    """Fills what ``empty`` and its kin return: two runs with different fills must agree."""

    def __init__(self, fill: int) -> None:
        super().__init__()
        self._fill = fill

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        if not isinstance(func, OpOverload) or operator_name(func) not in EMPTY:
            return out
        if isinstance(out, torch.Tensor) and out.layout == torch.strided:
            out.fill_(self._fill)
        return out
