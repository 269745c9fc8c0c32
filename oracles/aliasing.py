"""Which outputs share memory with inputs or with each other, and which are the same object."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle


@oracle(kinds=(Kind.ALIAS, Kind.IDENTITY), step=2)
def aliasing(evidence: Evidence) -> Iterator[Verdict]:
    """Pairs that overlap in memory, and pairs that are one object, must be eager's pairs.

    Results are what is returned, and what the call puts into its arguments.

    A compiled output that shares memory where eager's does not lets the caller write into
    what eager keeps apart (pytorch 195451, 197893); the reverse loses writes.
    """
    eager, compiled = evidence.eager, evidence.compiled
    if [s.name for s in eager.outputs] != [s.name for s in compiled.outputs]:
        return
    for kind, mine, theirs, verb in (
        (Kind.ALIAS, eager.aliases, compiled.aliases, "shares memory with"),
        (Kind.IDENTITY, eager.identities, compiled.identities, "is"),
    ):
        for out, other in sorted(mine ^ theirs):
            who, whom = ("eager", "compiled") if (out, other) in mine else ("compiled", "eager")
            yield Verdict(Status.FINDING, kind, out, f"in {who} {out} {verb} {other}, in {whom} not")
