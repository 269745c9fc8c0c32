"""Strides and storage offsets of outputs."""

from collections.abc import Iterator

from fxmorph.model import Kind, Status, Verdict
from fxmorph.observe import Meta
from fxmorph.oracle import Evidence, oracle


def visible_strides(meta: Meta) -> tuple[int, ...]:
    """Strides of the dimensions of size > 1; an empty tensor has none that can be seen."""
    if meta.numel == 0:
        return ()
    return tuple(st for st, sz in zip(meta.stride, meta.shape, strict=True) if sz > 1)


@oracle(kinds=(Kind.STRIDE, Kind.OFFSET), step=2)
def layout(evidence: Evidence) -> Iterator[Verdict]:
    """Strides should match eager's except under layout optimisation (pytorch 116433, 168381).

    Dimensions of size 0 and 1 are ignored; the ladder drops what ``layout_optimization=False``
    mends.  Inputs are included: a call may change their strides (``t_``, ``resize_``).
    """
    for name, e, c in [*evidence.paired_outputs(), *evidence.paired_after()]:
        if e.meta is None or c.meta is None or e.meta.shape != c.meta.shape:
            continue
        if not e.meta.stride and e.meta.shape:
            continue  # not strided
        if visible_strides(e.meta) != visible_strides(c.meta):
            text = f"stride eager {e.meta.stride}; compiled {c.meta.stride} for shape {e.meta.shape}"
            yield Verdict(Status.FINDING, Kind.STRIDE, name, text)
        elif e.meta.stride != c.meta.stride and e.meta.numel:
            text = f"stride of a size-1 dimension: eager {e.meta.stride}; compiled {c.meta.stride}"
            yield Verdict(Status.EDGE_CASE, None, name, text)
        if e.meta.offset != c.meta.offset and e.meta.numel:
            text = f"storage offset eager {e.meta.offset}; compiled {c.meta.offset}"
            yield Verdict(Status.FINDING, Kind.OFFSET, name, text)
