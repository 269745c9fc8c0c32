"""Values of outputs."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Verdict
from fxmorph.oracle import Evidence, oracle, verdict_of


@oracle(kinds=(Kind.VALUE, Kind.NONFINITE), step=5)
def value(evidence: Evidence) -> Iterator[Verdict]:
    """Each element against fp64, by the numeric policy (fxmorph/judge/numeric.py)."""
    for name, e, c in evidence.paired_outputs():
        if isinstance(e.value, torch.Tensor) and isinstance(c.value, torch.Tensor) and e.value.shape == c.value.shape:
            yield verdict_of(evidence.compare(name, e, c), None, name)
