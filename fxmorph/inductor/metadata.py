"""What nodes say of their results (``meta['val']``), against what fake tensors say when propagated anew.

Later passes, lowering and the allocation of buffers believe the notes, so that a pass that leaves
them wrong is wrong, whatever its graph computes in eager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.model import Kind


@dataclass(frozen=True)
class WrongNote:
    """``node`` notes one thing of its result and has another; ``kind`` is DTYPE, SHAPE or STRIDE."""

    node: str
    kind: Kind
    noted: str
    real: str

    def __str__(self) -> str:
        return f"meta['val'] of {self.node} notes {self.kind} {self.noted}, its result has {self.real}"


class _Propagation(fx.Interpreter):
    def __init__(self, gm: fx.GraphModule, mode: Any) -> None:
        super().__init__(gm)
        self._mode = mode
        self.wrong: list[WrongNote] = []

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return self._mode.from_tensor(value) if type(value) in (torch.Tensor, torch.nn.Parameter) else value

    def run_node(self, n: fx.Node) -> Any:
        out = super().run_node(n)
        noted = n.meta.get("val")
        if isinstance(noted, torch.Tensor) and isinstance(out, torch.Tensor):
            self.wrong += _differences(n.name, noted, out)
        return out


def _differences(node: str, noted: torch.Tensor, real: torch.Tensor) -> Iterator[WrongNote]:
    if noted.dtype != real.dtype:
        yield WrongNote(node, Kind.DTYPE, str(noted.dtype), str(real.dtype))
    if noted.ndim != real.ndim or not all(map(_alike, noted.shape, real.shape)):
        yield WrongNote(node, Kind.SHAPE, str(tuple(noted.shape)), str(tuple(real.shape)))
    elif noted.layout == real.layout == torch.strided:
        visible = [i for i, n in enumerate(real.shape) if not isinstance(n, int) or n > 1]
        if not all(_alike(noted.stride(i), real.stride(i)) for i in visible):
            yield WrongNote(node, Kind.STRIDE, str(noted.stride()), str(real.stride()))


def _alike(a: Any, b: Any) -> bool:
    """Sizes that are equal, or that cannot be compared: sizes that depend on values get a new name each time."""
    return str(a) == str(b) or not (isinstance(a, int) and isinstance(b, int))


def wrong_notes(gm: fx.GraphModule) -> list[WrongNote]:
    """Where the notes of a graph are wrong; none where it has no fake tensors to start from, or they do not run."""
    given = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    mode = next((v.fake_mode for v in given if hasattr(v, "fake_mode")), None)
    if mode is None or any(v is None for v in given):
        return []
    propagation = _Propagation(gm, mode)
    try:
        with mode, torch.no_grad():
            propagation.run(*given)
    except Exception:
        return []  # an operator that has no fake kernel: nothing can be said
    return propagation.wrong
