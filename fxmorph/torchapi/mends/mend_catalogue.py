"""All mends by name."""

from __future__ import annotations

from fxmorph.torchapi.mends import (
    addmm_checks,
    attention_key,
    clamp_bounds,
    copied_sources,
    cumsum_fill,
    decomposition_strides,
    deviation_precision,
    foreach_reads,
    neutral_results,
    overwritten_inputs,
    scatter_reinplacing,
    strided_bases,
)

MENDS = {
    mend.name: mend
    for mend in (
        addmm_checks.BIAS,
        addmm_checks.DTYPES,
        attention_key.MEND,
        clamp_bounds.MEND,
        copied_sources.MEND,
        cumsum_fill.MEND,
        decomposition_strides.MEND,
        deviation_precision.MEND,
        foreach_reads.MEND,
        neutral_results.MEND,
        overwritten_inputs.MEND,
        scatter_reinplacing.OVERLAP,
        scatter_reinplacing.OVERWRITTEN,
        scatter_reinplacing.RETURNED,
        strided_bases.MEND,
    )
}
