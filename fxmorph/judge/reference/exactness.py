"""Exact arithmetic: whether all that a run computes is a multiple of one quantum and fits, so that nothing rounds."""

from __future__ import annotations

import torch

from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.lanes import Lane
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import PRECISION, UNIT
from fxmorph.judge.reference.tables import EXACT_OPS, RING, SUMS, functional_name
from fxmorph.torchapi.dispatch import tensors_of

#: The common quantum of exact-arithmetic mode: all values are multiples of 2**-QUANTUM_BITS, and sums are exact while
#: they stay below 2**PRECISION quanta.
QUANTUM_BITS = 4
#: Sums of a tensor's own elements.  Products of matrices may be made of operands that were scaled before, which
#: round then (fused attention, folded batch norm); means are divided.
_OF_ELEMENTS = frozenset(
    """sum nansum cumsum trace index_add index_add_ scatter_add scatter_add_ index_put index_put_ _index_put_impl_
    _unsafe_index_put select_backward slice_backward unfold_backward""".split()
)
_IN_ANY_ORDER = _OF_ELEMENTS | RING


def on_grid(t: torch.Tensor) -> bool:
    """Whether all values are finite multiples of the quantum, small enough to be exact."""
    if t.dtype not in PRECISION:
        return t.dtype not in UNIT
    if not t.numel():
        return True
    scaled = t.detach().double() * 2.0**QUANTUM_BITS
    return bool(torch.isfinite(scaled).all() and (scaled == scaled.round()).all())


def check_exactness(
    gates: Gates, call: OperatorCall, operands_on_grid: bool, made: list[torch.Tensor], wide: Lane
) -> None:
    """Whether what a call ``made`` or wrote, beside the lane ``wide``, leaves the run exact."""
    if not gates.exact:
        return
    name, floating = functional_name(call.name), [t for t in made if t.dtype in UNIT]
    if not floating:
        if "::" in name and any(t.dtype in UNIT for t in call.tensors):  # who knows what it rounds before it decides
            gates.not_exact(name)
        return
    if name not in EXACT_OPS and name not in SUMS and name not in RING:
        gates.not_exact(name)
        return
    values = name != "mean"  # a quotient rounds whatever is summed
    if name == "mean" or not operands_on_grid:
        gates.not_exact(f"{name}: values off the grid", values)
        return
    for t in floating:
        s = wide.shadow(t)
        if t.dtype not in PRECISION or not bool((t.to(s.dtype) == s).all()) or not on_grid(t):
            gates.not_exact(f"{name}: rounds", values)
            return
        if not _fits(name, call.tensors, t, t.dtype):
            gates.not_exact(f"{name}: sums may pass 2^{PRECISION[t.dtype]}", values)
            return


def rounds_nothing(call: OperatorCall, dtype: torch.dtype, result: torch.Tensor) -> bool:
    """Whether a sum, or product of two elements, of a lane's own values is exact in ``dtype``, in whatever order.

    All of them are multiples of the quantum, and so few and so small that no partial sum leaves the dtype.
    """
    if call.name not in _IN_ANY_ORDER or dtype not in PRECISION:
        return False
    operands = tensors_of((call.args, call.kwargs))
    if any(t.dtype in UNIT and t.numel() and not on_grid(t[(0,) * t.ndim]) for t in operands):
        return False  # most are not, and one number tells
    factors = [v for v in (*call.args, *call.kwargs.values()) if isinstance(v, float)]
    if not all((v * 2.0**QUANTUM_BITS).is_integer() for v in factors) or (factors and call.name not in RING):
        return False
    if not all(map(on_grid, operands)) or not on_grid(result):
        return False
    return _fits(call.name, operands, result, dtype)


def _fits(name: str, tensors: list[torch.Tensor], result: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether no partial sum of what lies on the grid leaves ``dtype``."""
    return _term_bound(name, tensors, result) < 2.0 ** (PRECISION[dtype] - QUANTUM_BITS - 1)


def _term_bound(name: str, tensors: list[torch.Tensor], result: torch.Tensor) -> float:
    """An upper bound of Σ|terms| of any output element, from the largest operands."""
    peaks = [float(t.detach().abs().max()) if t.numel() and t.dtype in PRECISION else 0.0 for t in tensors]
    biggest = max(peaks, default=0.0)
    largest = float(result.detach().abs().max()) if result.numel() else 0.0
    if name in EXACT_OPS and name not in SUMS:
        return largest
    if name in RING:
        return max(largest, biggest * 2)
    reads = sum(t.numel() for t in tensors)
    terms = max(reads / max(result.numel(), 1), 1.0) + 1
    product = biggest * biggest if len([p for p in peaks if p]) > 1 else biggest
    return max(largest, terms * max(product, biggest))
