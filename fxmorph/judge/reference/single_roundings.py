"""Which steps have one right result to the bit: they round once, or not at all.

IEEE 754 says what those give, in whatever way code computes them; of sums, exponentials and powers it does not.
"""

from __future__ import annotations

import torch

from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import AMPLITUDE, UNIT
from fxmorph.judge.reference.tables import EXACT_OPS

#: Beside exact ones; not ``sqrt``, which eager takes from a library that is off by one at times.
_ROUNDED_ONCE = frozenset("add sub rsub mul div true_divide reciprocal".split())
_EXACT = EXACT_OPS | {"any", "all"}
#: Exact ones that draw, or may multiply by powers that they compute.
_OTHERWISE = frozenset("bernoulli native_dropout_backward ldexp".split())


def _is_rounded_first(number: float, t: torch.Tensor) -> bool:
    """Whether a kernel of a 16-bit type may round a number of Python's before it computes: eager's ``add`` does, and
    not its ``mul``.
    """
    return t.dtype in AMPLITUDE and float(torch.tensor(number).to(t.dtype)) != number


def rounds_freely(call: OperatorCall) -> bool:
    """Whether right code may compute other bits than eager's for what this call gives, which is no view."""
    name, floats = call.name.removesuffix("_"), [t for t in call.tensors if t.dtype in UNIT]
    if any(t.is_complex() for t in floats) or name in _OTHERWISE:
        return True  # products of complex numbers round several times
    if call.name in _EXACT or name in _EXACT:
        return call.accumulates if "index_put" in name else call.kwargs.get("reduce") is not None
    if name not in _ROUNDED_ONCE or call.kwargs.get("rounding_mode") is not None:
        return True
    if call.kwargs.get("alpha", 1) != 1:
        return True  # eager fuses the product into the sum
    if any(_is_rounded_first(v, t) for v in call.args if isinstance(v, float) for t in floats):
        return True
    # A GPU's eager kernel multiplies by the reciprocal of a number.
    return name in ("div", "true_divide") and call.tensors[0].device.type != "cpu" and len(call.tensors) < 2
