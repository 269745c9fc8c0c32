"""How many random numbers a call takes."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle


@oracle(kinds=(Kind.RNG,), step=2)
def randomness(evidence: Evidence) -> Iterator[Verdict]:
    """After the call the generators must be where eager leaves them, under ``fallback_random``.

    Otherwise every random number that the caller draws later is another one (pytorch 118735,
    142853: by design without that setting, to be equal with it).
    """
    if evidence.eager.generators != evidence.compiled.generators:
        yield Verdict(Status.FINDING, Kind.RNG, "call", "the random generator is left in another state than eager's")
