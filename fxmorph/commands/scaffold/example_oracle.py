"""An oracle: what is looked at in the results of a call, beside what fxmorph looks at itself."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle


@oracle(kinds=(Kind.NONFINITE,), step=5)
def stays_finite(evidence: Evidence) -> Iterator[Verdict]:
    """A result that is finite in eager is finite compiled."""
    for name, eager, compiled in evidence.paired_outputs():
        if not isinstance(eager.value, torch.Tensor) or not isinstance(compiled.value, torch.Tensor):
            continue
        if eager.value.isfinite().all() and not compiled.value.isfinite().all():
            yield Verdict(Status.FINDING, Kind.NONFINITE, name, "finite in eager, not finite compiled")
