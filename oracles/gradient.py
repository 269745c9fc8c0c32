"""Gradients of inputs and parameters."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle, verdict_of


@oracle(kinds=(Kind.GRADIENT,), step=5)
def gradient(evidence: Evidence) -> Iterator[Verdict]:
    """Which leaves receive a gradient, its dtype and shape, and its values.

    The loss is a fixed weighted sum of all outputs that require grad.
    """
    if evidence.compiled.raised or evidence.eager.raised:
        return
    eager = {s.name: s for s in evidence.eager.gradients}
    compiled = {s.name: s for s in evidence.compiled.gradients}
    for name in sorted(eager.keys() ^ compiled.keys()):
        side, present = ("eager", eager) if name in eager else ("compiled", compiled)
        zero = not bool(present[name].value.any()) if isinstance(present[name].value, torch.Tensor) else False
        status = Status.INCONCLUSIVE if zero else Status.FINDING  # a zero gradient may be left out
        yield Verdict(status, None if zero else Kind.GRADIENT, name, f"only {side} gives a gradient")
    for name in sorted(eager.keys() & compiled.keys()):
        e, c = eager[name], compiled[name]
        if e.value.shape != c.value.shape or e.value.dtype != c.value.dtype:
            text = f"eager {e.value.dtype} {tuple(e.value.shape)}; compiled {c.value.dtype} {tuple(c.value.shape)}"
            yield Verdict(Status.FINDING, Kind.GRADIENT, name, text)
            continue
        yield verdict_of(evidence.compare(name, e, c), Kind.GRADIENT, name)
