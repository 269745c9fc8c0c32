"""Bits under strict numerics."""

from collections.abc import Iterator

import torch

from fxmorph.model import Kind, Status, Verdict, VerdictCode
from fxmorph.oracle import Evidence, oracle, promises_bits
from fxmorph.programs.bits import other_numbers


@oracle(kinds=(Kind.VALUE, Kind.MUTATION, Kind.GRADIENT), step=6)
def bits(evidence: Evidence) -> Iterator[Verdict]:
    """Under strict numerics eager's own values, of all that is computed by steps of one rounding each."""
    if not evidence.strict:
        return
    gradients = evidence.paired(evidence.eager.gradients, evidence.compiled.gradients)
    for kind, pairs in (
        (Kind.VALUE, evidence.paired_outputs()), (Kind.MUTATION, evidence.paired_after()), (Kind.GRADIENT, gradients),
    ):  # fmt: skip
        for name, eager, compiled in pairs:
            a, b = eager.value, compiled.value
            if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.shape != b.shape:
                continue
            if not a.is_floating_point() or a.dtype != b.dtype or evidence.accused(name):
                continue
            differ = other_numbers(a, b)
            if not differ.any() or not promises_bits(evidence.reference, name):
                continue
            at = tuple(int(i) for i in differ.nonzero()[0])
            text = (
                f"{int(differ.sum())} of {a.numel()} elements are not eager's under strict numerics, where each step"
                f" rounds once: at {list(at)} eager {a[at].item():.9g}, compiled {b[at].item():.9g}"
            )
            yield Verdict(Status.FINDING, kind, name, text, code=VerdictCode.NOT_EAGERS_BITS)
