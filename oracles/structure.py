"""Number, nesting, types, shapes, dtypes and devices of what is returned, and of what was passed."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict
from fxmorph.oracle import Evidence, oracle, verdict_of
from fxmorph.programs.contents import Contents, differing, is_tensor
from fxmorph.programs.observe import Slot


@oracle(
    kinds=(
        Kind.STRUCTURE, Kind.SHAPE, Kind.DTYPE, Kind.DEVICE, Kind.REQUIRES_GRAD, Kind.MUTATION, Kind.VALUE,
    ),
    step=2,
)  # fmt: skip
def structure(evidence: Evidence) -> Iterator[Verdict]:
    """Exact, with no tolerance.

    Objects are compared by type and by what they hold, each tensor and plain value in its place; what has no
    equality of its own and holds nothing is no difference, and what cannot be looked into is not judged.

    Of arguments after the call too: what a list, a dict or an object holds then, and metadata (kind
    ``mutation``, but ``requires-grad`` where a call wrote what has a gradient, or what has none).
    """
    eager, compiled = evidence.eager, evidence.compiled
    if eager.structure != compiled.structure:
        text = f"eager returns {eager.structure}; compiled {compiled.structure}"
        yield Verdict(Status.FINDING, Kind.STRUCTURE, "outputs", text)
    yield from _forms(evidence, eager.objects, compiled.objects, Kind.STRUCTURE, "")
    for name, e, c in evidence.paired_outputs():
        if is_tensor(e.value) or is_tensor(c.value):
            yield from _metadata(name, e, c)
        else:
            yield from _plain(evidence, e, c, None, "")
    if eager.arguments != compiled.arguments:
        text = f"after the call eager leaves {eager.arguments}; compiled {compiled.arguments}"
        yield Verdict(Status.FINDING, Kind.MUTATION, "arguments", text)
    yield from _forms(evidence, eager.objects_after, compiled.objects_after, Kind.MUTATION, "after:")
    for name, e, c in evidence.paired_after():
        if not is_tensor(e.value) and not is_tensor(c.value):
            yield from _plain(evidence, e, c, Kind.MUTATION, "after:")
            continue
        for verdict in _metadata(name, e, c):
            kind = Kind.REQUIRES_GRAD if verdict.kind is Kind.REQUIRES_GRAD else Kind.MUTATION
            yield Verdict(Status.FINDING, kind, name, verdict.reason)


def _forms(evidence: Evidence, eager: Contents, compiled: Contents, kind: Kind, prefix: str) -> Iterator[Verdict]:
    for place, mine, theirs in differing(eager, compiled):
        if not evidence.excused(place):
            yield Verdict(Status.FINDING, kind, prefix + place, f"eager {mine}; compiled {theirs}")


def _plain(evidence: Evidence, e: Slot, c: Slot, kind: Kind | None, prefix: str) -> Iterator[Verdict]:
    got = evidence.compare_plain(e.name, e.value, c.value)
    if got.status is not Status.FINDING or not evidence.excused(e.name.removeprefix(prefix)):
        yield verdict_of(got, kind, e.name)


def _metadata(name: str, e: Slot, c: Slot) -> Iterator[Verdict]:
    if e.meta is None or c.meta is None:
        text = f"eager {type(e.value).__name__}; compiled {type(c.value).__name__}"
        yield Verdict(Status.FINDING, Kind.STRUCTURE, name, text)
        return
    for kind, mine, theirs in (
        (Kind.STRUCTURE, e.meta.type, c.meta.type),
        (Kind.SHAPE, e.meta.shape, c.meta.shape),
        (Kind.DTYPE, e.meta.dtype, c.meta.dtype),
        (Kind.DEVICE, e.meta.device, c.meta.device),
        (Kind.REQUIRES_GRAD, e.meta.requires_grad, c.meta.requires_grad),
    ):
        if mine != theirs:
            yield Verdict(Status.FINDING, kind, name, f"{kind} eager {_text(mine)}; compiled {_text(theirs)}")


def _text(value: object) -> str:
    return str(value).removeprefix("torch.")
