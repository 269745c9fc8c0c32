"""Fake tensors on graphs: what passes read in ``meta``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.passes.shape_prop import _extract_tensor_metadata

__all__ = ["FakeTensor", "FakeTensorMode", "annotate", "tensor_notes", "unlogged"]

_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Calls that fake tensors refuse are raised inside, and not told on stderr with their tracebacks as well."""
    before, _LOG.disabled = _LOG.disabled, True  # its level is not touched: that empties the caches of all loggers
    try:
        yield
    finally:
        _LOG.disabled = before


def tensor_notes(value: Any) -> dict[str, Any]:
    """What a node notes of its fake result: ``val``, ``example_value``, and of a tensor ``tensor_meta``."""
    notes = {"val": value, "example_value": value}
    if isinstance(value, torch.Tensor):
        notes["tensor_meta"] = _extract_tensor_metadata(value)
    return notes


class _Annotating(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.op != "output":
            n.meta.update(tensor_notes(result))
        return result


def annotate(gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Give each node its fake result as ``val``, ``example_value`` and ``tensor_meta``, with static shapes.

    Raises what the graph raises on such shapes and dtypes.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
    with mode, torch.no_grad():
        _Annotating(gm).run(*fakes)
