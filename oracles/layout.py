"""Strides and storage offsets of outputs."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict, VerdictCode
from fxmorph.oracle import Evidence, oracle


@oracle(kinds=(Kind.STRIDE, Kind.OFFSET), step=2)
def layout(evidence: Evidence) -> Iterator[Verdict]:
    """Strides should match eager's except under layout optimisation (pytorch 116433, 168381).

    Dimensions of size 0 and 1 are ignored; the ladder drops what ``layout_optimization=False``
    mends.  Inputs are included: a call may change their strides (``t_``, ``resize_``).
    Where a result begins in memory of its own, or in memory that results alone share, is promised by nobody: of those
    only where they lie in relation to each other.  Nor how a tensor that an object holds lies in memory of its own: it
    is read as the object reads it.
    """
    for name, e, c in [*evidence.paired_outputs(), *evidence.paired_after()]:
        if e.meta is None or c.meta is None or e.meta.shape != c.meta.shape:
            continue
        if not e.meta.stride and e.meta.shape:
            continue  # not strided
        own = name in evidence.eager.own_memory
        inside = own and name in evidence.eager.within
        if e.meta.visible_strides != c.meta.visible_strides:
            text = f"stride eager {e.meta.stride}; compiled {c.meta.stride} for shape {e.meta.shape}"
            if inside:
                text = f"not judged within an object: {text}"
                yield Verdict(Status.CLEAN, None, name, text, code=VerdictCode.NOT_JUDGED)
                continue
            yield Verdict(Status.FINDING, Kind.STRIDE, name, text)
        elif e.meta.stride != c.meta.stride and e.meta.numel and not inside:
            text = f"stride of a size-1 dimension: eager {e.meta.stride}; compiled {c.meta.stride}"
            yield Verdict(Status.EDGE_CASE, None, name, text, code=VerdictCode.ONE_SIZED_STRIDE)
        mine, theirs = evidence.eager.offset_of(e), evidence.compiled.offset_of(c)
        if mine != theirs and e.meta.numel and not own:
            text = f"storage offset eager {e.meta.offset}; compiled {c.meta.offset}"
            yield Verdict(Status.FINDING, Kind.OFFSET, name, text)
