"""Whether a program's results depend on memory that it never wrote."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.judge.reference.reference_run import EMPTY
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, schema_of


class FillEmpty(DispatchMode):
    """Fills what ``empty`` and its kin return: two runs with different fills must agree."""

    def __init__(self, fill: int) -> None:
        super().__init__()
        self._fill = fill

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        if not isinstance(func, OpOverload) or schema_of(func).name.split("::")[1] not in EMPTY:
            return out
        if isinstance(out, torch.Tensor) and out.layout == torch.strided:
            out.fill_(self._fill)
        return out
