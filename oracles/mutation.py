"""The state of inputs, parameters and buffers after the call."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Verdict
from fxmorph.oracle import Evidence, oracle, verdict_of


@oracle(kinds=(Kind.MUTATION,), step=5)
def mutation(evidence: Evidence) -> Iterator[Verdict]:
    """What the call, and the backward pass after it, wrote into memory that its caller holds."""
    for name, e, c in (*evidence.paired_after(), *evidence.paired_backward()):
        if isinstance(e.value, torch.Tensor) and isinstance(c.value, torch.Tensor) and e.value.shape == c.value.shape:
            yield verdict_of(evidence.compare(name, e, c), Kind.MUTATION, name)
