"""What interpreted kernels do that no kernel may do."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle


@oracle(kinds=(Kind.OUT_OF_BOUNDS, Kind.POISON, Kind.ORDER, Kind.DTYPE), step=2)
def kernels(evidence: Evidence) -> Iterator[Verdict]:
    """Kernels stay inside their buffers, read what was written, and are right in any order of their iterations, and
    compute in the dtypes that they say.

    Only where kernels are interpreted; the values of a kernel may be right all the same.
    """
    for fault in evidence.compiled.faults:
        yield Verdict(Status.FINDING, fault.kind, "call", fault.said)
