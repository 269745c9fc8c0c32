"""What the kernels of a program give in fp64, where they are interpreted."""

from collections.abc import Iterator

from fxmorph.judge.fp64_execution import compare_in_fp64
from fxmorph.judge.numeric import CLEAN
from fxmorph.model import Kind, Verdict
from fxmorph.oracle import Evidence, oracle, verdict_of


@oracle(kinds=(Kind.VALUE, Kind.MUTATION, Kind.GRADIENT), step=6)
def fp64_execution(evidence: Evidence) -> Iterator[Verdict]:
    """Values that roundings explain, and that the same kernels give in fp64 too, where nothing rounds.

    Of values that have eager's bits nothing is asked.
    """
    if all(got == CLEAN for got in evidence.compared.values()):
        return
    executed = evidence.in_fp64()
    kinds = {s.name: Kind.VALUE for s in evidence.eager.outputs}
    kinds |= {s.name: Kind.MUTATION for s in evidence.eager.after}
    kinds |= {s.name: Kind.GRADIENT for s in evidence.eager.gradients}
    for name in sorted(kinds.keys() & executed.keys()):
        if not evidence.accused(name):
            reference = evidence.reference
            got = compare_in_fp64(executed[name], reference.shadows(name), reference.gates(name))
            yield verdict_of(got, kinds[name], name)
