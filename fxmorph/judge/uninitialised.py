"""Whether a program's results depend on memory that it never wrote."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.judge.shadow import EMPTY
from fxmorph.torchapi.dispatch import OpOverload, TorchDispatchMode, schema_of


class FillEmpty(TorchDispatchMode):
    """Fills what ``empty`` and its kin return: two runs with different fills must agree."""

    def __init__(self, fill: int) -> None:
        super().__init__()
        self._fill = fill

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not isinstance(func, OpOverload) or schema_of(func).name.split("::")[1] not in EMPTY:
            return out
        if isinstance(out, torch.Tensor) and out.layout == torch.strided:
            out.fill_(self._fill)
        return out
