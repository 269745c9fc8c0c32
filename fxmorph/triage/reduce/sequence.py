"""The passes of a reduction, in their order: what takes most away first."""

from __future__ import annotations

from fxmorph.triage.reduce.arguments import fewer_arguments, fewer_settings, plainer_constants
from fxmorph.triage.reduce.calls import (
    calls_by_ancestors,
    calls_by_operands,
    fewer_calls,
    fewer_inputs,
    fewer_modes,
    fewer_outputs,
    numbers_for_inputs,
)
from fxmorph.triage.reduce.tensors import (
    lower_ranks,
    no_gradients,
    plainer_dtypes,
    plainer_layouts,
    plainer_values,
    smaller_sizes,
)

#: Fewer outputs, modes, calls and inputs.
STRUCTURE = (
    fewer_outputs, fewer_modes, fewer_calls, calls_by_operands, calls_by_ancestors, fewer_inputs, numbers_for_inputs
)  # fmt: skip
#: Plainer inputs, arguments and settings.
DETAIL = (
    fewer_settings,
    no_gradients,
    smaller_sizes,
    lower_ranks,
    plainer_dtypes,
    plainer_layouts,
    fewer_arguments,
    plainer_constants,
    plainer_values,
)
