"""Fake tensors on graphs: what passes read in ``meta``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "annotate"]


class _Annotating(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = n.meta["example_value"] = result
        return result


def annotate(gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Give each node its fake result as ``meta['val']`` and ``meta['example_value']``, static shapes.

    Raises what the graph raises on such shapes and dtypes.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
    with mode, torch.no_grad():
        _Annotating(gm).run(*fakes)
