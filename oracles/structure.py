"""Number, nesting, types, shapes, dtypes and devices of what is returned."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Status, Verdict
from fxmorph.observe import Slot
from fxmorph.oracle import Evidence, oracle, verdict_of


@oracle(kinds=(Kind.STRUCTURE, Kind.SHAPE, Kind.DTYPE, Kind.DEVICE, Kind.REQUIRES_GRAD, Kind.VALUE), step=2)
def structure(evidence: Evidence) -> Iterator[Verdict]:
    """Exact, with no tolerance; metadata of inputs after the call included."""
    eager, compiled = evidence.eager, evidence.compiled
    if eager.structure != compiled.structure or len(eager.outputs) != len(compiled.outputs):
        text = f"eager returns {eager.structure}; compiled {compiled.structure}"
        yield Verdict(Status.FINDING, Kind.STRUCTURE, "outputs", text)
    for name, e, c in evidence.paired_outputs():
        if isinstance(e.value, torch.Tensor) != isinstance(c.value, torch.Tensor):
            text = f"eager {type(e.value).__name__}; compiled {type(c.value).__name__}"
            yield Verdict(Status.FINDING, Kind.STRUCTURE, name, text)
        elif not isinstance(e.value, torch.Tensor):
            yield verdict_of(evidence.compare_plain(name, e.value, c.value), None, name)
        else:
            yield from _metadata(name, e, c)
    for name, e, c in evidence.paired_after():
        for verdict in _metadata(name, e, c):
            if verdict.kind is not Kind.REQUIRES_GRAD:
                yield Verdict(Status.FINDING, Kind.MUTATION, name, verdict.reason)


def _metadata(name: str, e: Slot, c: Slot) -> Iterator[Verdict]:
    assert e.meta is not None and c.meta is not None
    for kind, mine, theirs in (
        (Kind.SHAPE, e.meta.shape, c.meta.shape),
        (Kind.DTYPE, e.meta.dtype, c.meta.dtype),
        (Kind.DEVICE, e.meta.device, c.meta.device),
        (Kind.REQUIRES_GRAD, e.meta.requires_grad, c.meta.requires_grad),
    ):
        if mine != theirs:
            yield Verdict(Status.FINDING, kind, name, f"{kind} eager {_text(mine)}; compiled {_text(theirs)}")


def _text(value: object) -> str:
    return str(value).removeprefix("torch.")
