"""as_strided of a view sees the memory of the view's base, computed first (pytorch/pytorch#197431)."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.ir:ExternKernel.require_strides": ("7183f37531cb",),
    "torch._inductor.lowering:as_strided": ("52f0229da179",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    original = ir.ExternKernel.__dict__["require_strides"]

    @functools.wraps(original.__func__)
    def require_strides(cls: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        node = V.graph.current_node
        strided = any(user.target is torch.ops.aten.as_strided.default for user in node.users)
        view = getattr(x, "data", None)
        if strided and isinstance(view, ir.BaseView) and not ir.is_storage_and_layout(view.unwrap_view()):
            used()
            view.unwrap_view().realize()
        return original.__func__(cls, x, *args, **kwargs)

    return replaced((ir.ExternKernel, "require_strides", classmethod(require_strides)))


MEND = Mend(
    "strided-bases", "the base of a view is computed before as_strided sees its memory",
    TEXTS, _apply,
)  # fmt: skip
