"""What one operator may round in a perturbed lane.

Each result is moved at random, up or down, by what the operator may round in its native dtype (Monte Carlo
arithmetic: Parker 1997; Denis et al. 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from typing import Any

import torch

from fxmorph.judge.reference.attention import with_logsumexp_rounded
from fxmorph.judge.reference.divisions import rounded_once
from fxmorph.judge.reference.exactness import rounds_nothing
from fxmorph.judge.reference.kernels import ATTENTION
from fxmorph.judge.reference.lanes import Lane, Loose
from fxmorph.judge.reference.losses import MEAN
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import (
    AMPLITUDE,
    DEFAULT_AMPLITUDE,
    NARROW,
    OWN_PRECISION,
    UNIT,
    WIDE,
    flushed,
    is_wide,
)
from fxmorph.judge.reference.recurrences import by_recurrence, steps_error
from fxmorph.judge.reference.resizing import COORDINATE_UNITS, RESIZES, off_by_coordinates
from fxmorph.judge.reference.sums import (
    INNER_DIMENSION,
    PLAIN,
    ROUNDED_ONCE_AMPLITUDE,
    rounded_terms,
    summed_units,
    terms_of,
)
from fxmorph.judge.reference.tables import (
    ABSOLUTE,
    ABSOLUTE_UNITS,
    ALPHAS,
    CASTS,
    COARSE_KERNELS,
    CONVERSION,
    CROSSING,
    CROSSING_UNITS,
    DISTANCE_UNITS,
    DISTANCES,
    EXACT_OPS,
    FACTORIES,
    FACTORS,
    INDEX_PUTS,
    INNER_PRODUCTS,
    KERNELS,
    LOGARITHMS_OF_SUMS,
    NARROW_UNITS,
    OPAQUE_UNITS,
    POWERS,
    POWERS_UNITS,
    ROUNDED_ONCE,
    SOFTMAXES,
    SUMS,
    UNITS,
    VANISHING_GATES,
    VANISHING_QUOTIENTS,
    functional_name,
)
from fxmorph.torchapi.dispatch import tensors_of, tree_map
from fxmorph.torchapi.storages import storage_key

#: Operands smaller than so many times what a GPU flushes to zero may lose themselves inside an operator.
NEAR_FLUSHED = 16.0


class Opaque(IntEnum):
    """How a lane has the result of an operator without an fp64 kernel; 0 of others."""

    NO = 0
    RUN = 1  #: of its own values, in the native dtypes
    TAKEN = 2  #: eager's


class Rounding:
    """What the operators of one run round, which hangs on those that came before."""

    def __init__(self) -> None:
        #: Matrices were multiplied: a softmax may become part of fused attention.
        self.multiplied = False
        #: What runs is the one kernel of a fused operator (flex attention), whose casts are its own: another kernel
        #: rounds elsewhere.
        self._in_kernel = False

    @contextmanager
    def of_kernel(self, fused: bool) -> Iterator[None]:
        """A context for what a higher-order operator calls, which is ``fused`` where that is no code of the program."""
        before, self._in_kernel = self._in_kernel, self._in_kernel or fused
        try:
            yield
        finally:
            self._in_kernel = before

    def note(self, name: str) -> None:
        self.multiplied |= name in INNER_DIMENSION

    def rounded(
        self, lane: Lane, call: OperatorCall, dtype: torch.dtype, shadow: torch.Tensor, opaque: Opaque = Opaque.NO,
        stepped: bool = False, place: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """What a call of the lane's own gives: ``shadow`` as rounding in ``dtype`` may have made it.

        ``stepped``: each step of a kernel has been rounded.  ``place`` counts the results of the call.
        """
        if dtype not in UNIT:
            return shadow
        name = functional_name(call.name)
        if name != call.name:
            call = replace(call, name=name)
        narrows = any(UNIT.get(t.dtype, 0.0) < UNIT.get(dtype, 0.0) for t in call.tensors)
        if self._in_kernel and lane.perturb is not None and narrows and name in (*CASTS, "to"):
            return jittered(lane, shadow, 1.0, dtype)
        if name in CASTS or (name == CONVERSION and dtype in NARROW):
            from_double = lane.perturb is not None and any(t.dtype == torch.float64 for t in call.tensors)
            # Kernels have 16-bit numbers in float32, and keep a cast to that where they drop those to fewer bits.
            if from_double and (dtype in AMPLITUDE or (dtype == torch.float32 and not lane.casts_round)):
                shadow = jittered(lane, shadow, 1.0, torch.float32)
            if not (lane.casts_round and dtype in WIDE and narrows):
                return shadow
            rounded = shadow.to(dtype).to(shadow.dtype)
            return torch.where(lane.noise(shadow) > 0, rounded, shadow) if isinstance(lane, Loose) else rounded
        if lane.perturb is None:
            return shadow
        if name in FACTORIES:
            return jittered(lane, shadow, FACTORIES[name], dtype, absolute=True)
        if name == POWERS:
            return _powers(lane, dtype, shadow)
        if opaque:
            units = NARROW_UNITS if opaque is Opaque.RUN else OPAQUE_UNITS
            return jittered(lane, shadow, _units(dtype, units, shadow), dtype, absolute=True)
        if call.decided:
            return rounded_once(lane, call, dtype, shadow)
        if stepped:
            return self._after_steps(lane, call, dtype, shadow)
        if rounds_nothing(call, dtype, shadow):
            return shadow
        accumulating = accumulates(call)
        if name in EXACT_OPS and not accumulating:
            return _stored(lane, call, dtype, shadow) if dtype in AMPLITUDE else shadow
        if accumulating and dtype not in AMPLITUDE:
            return shadow + _sum_error(lane, call, dtype, shadow, place)
        if name in ("mul", "mul_", "div", "div_") and _power_of_two(call.args[1]):
            return shadow
        shadow = _computed(lane, call, dtype, shadow)
        if name in RESIZES:
            shadow = shadow + _coordinate_error(lane, call, dtype, shadow, place)
        return shadow + _sum_error(lane, call, dtype, shadow, place) if accumulating else shadow

    def _after_steps(self, lane: Lane, call: OperatorCall, dtype: torch.dtype, shadow: torch.Tensor) -> torch.Tensor:
        inner = torch.float32 if dtype in AMPLITUDE else dtype
        if call.name in SOFTMAXES and (self.multiplied or "log" in call.name):
            shadow = with_logsumexp_rounded(lane, call.name, inner, shadow, call.args)
        # Each step has rounded; 16-bit types round the result once more, and attention's weights before it.
        return jittered(lane, shadow, 1.0, dtype, call.name in ATTENTION) if dtype in AMPLITUDE else shadow


def accumulates(call: OperatorCall) -> bool:
    """Whether the operator adds up what it is given."""
    if call.name in INDEX_PUTS or call.name in ("put", "put_"):
        return call.accumulates
    return functional_name(call.name) in SUMS or (call.name in ("scatter", "scatter_") and "reduce" in call.kwargs)


def _stored(lane: Lane, call: OperatorCall, dtype: torch.dtype, shadow: torch.Tensor) -> torch.Tensor:
    """What moves or selects 16-bit numbers, moved by what storing rounds of those that were computed.

    A kernel that computes them again beside the stored ones has them as they were.
    """
    if call.written or any(storage_key(t) == storage_key(shadow) for t in tensors_of((call.args, call.kwargs))):
        return shadow  # what is written is the lane's own memory, and a view is not stored
    exact = shadow.to(dtype).to(shadow.dtype) == shadow
    return torch.where(exact | ~shadow.isfinite(), shadow, jittered(lane, shadow, 1.0, dtype))


def jittered(lane: Lane, s: torch.Tensor, units: float, dtype: torch.dtype, absolute: bool = False) -> torch.Tensor:
    """``s`` with each element moved, up or down, by ``units`` of the dtype's roundoff.

    ``absolute``: by that of the largest element too.
    """
    size = UNIT[dtype] * units * OWN_PRECISION.get(dtype, 1.0)
    xi = lane.noise(s)
    # The parts of a complex number are off by its size.
    out = s + s.abs() * size * torch.complex(xi, lane.noise(s)) if s.is_complex() else (xi * size).add_(1).mul_(s)
    if absolute and s.numel():
        scale = torch.nan_to_num(s.abs(), nan=0.0, posinf=0.0).max()
        out = out + size * scale * lane.noise(s)
    tiny = torch.finfo(dtype).smallest_normal if dtype.is_floating_point else 1e-38
    # Zero over the reals is zero in any dtype.
    return torch.where(s == 0, out, torch.add(out, xi, alpha=tiny * UNIT[dtype] * 2))


def _units(dtype: torch.dtype, units: float, at: torch.Tensor) -> float:
    """Amplitude in units of ``dtype`` of an operator that is so many units off in its own arithmetic.

    16-bit types round the result of float32.  What is measured on the CPU is not less elsewhere.
    """
    if at.device.type != "cpu":
        units = max(units, DEFAULT_AMPLITUDE)
    if dtype in AMPLITUDE:
        return AMPLITUDE[dtype] + units * UNIT[torch.float32] / UNIT[dtype]
    return units


def _powers(lane: Lane, dtype: torch.dtype, shadow: torch.Tensor) -> torch.Tensor:
    exponents = _logarithms(shadow)
    steepest = float(exponents.max()) if exponents.numel() else 0.0
    return jittered(lane, shadow, POWERS_UNITS * max(1.0, steepest), dtype)


def _computed(lane: Lane, call: OperatorCall, dtype: torch.dtype, shadow: torch.Tensor) -> torch.Tensor:
    """The result of an operator of one rounding, and what else it rounds inside."""
    name, args, base = call.name, call.args, call.name.removesuffix("_")
    if name == DISTANCES:
        return _distances(lane, args[0], args[1], dtype, shadow)
    once = name in ROUNDED_ONCE and name not in KERNELS
    units = ROUNDED_ONCE_AMPLITUDE if once else _units(dtype, UNITS.get(base, DEFAULT_AMPLITUDE), shadow)
    shadow = jittered(lane, shadow, units, dtype, absolute=name in KERNELS and name != LOGARITHMS_OF_SUMS)
    inside = UNIT[torch.float32 if dtype in AMPLITUDE else dtype]
    if base in ABSOLUTE_UNITS:
        factor = _factor_of_exponential(args) if base in ALPHAS else 1.0
        shadow = shadow + ABSOLUTE_UNITS[base] * factor * inside * lane.noise(shadow)
    if name == LOGARITHMS_OF_SUMS:  # relative errors of sums are absolute ones of their logarithms
        terms = args[0].shape[args[1]] if args[0].ndim else 1
        shadow = shadow + (DEFAULT_AMPLITUDE + terms) * inside * lane.noise(shadow)
    if by_recurrence(base):
        shadow = shadow + inside * steps_error(base, args[0], args[1], shadow) * lane.noise(shadow)
    if base in COARSE_KERNELS:
        shadow = shadow + COARSE_KERNELS[base] * lane.noise(shadow)
    if name in CROSSING and isinstance(args[0], torch.Tensor):
        size = CROSSING_UNITS * inside * OWN_PRECISION.get(dtype, 1.0) * _incoming(name, args)
        shadow = shadow + size * lane.noise(shadow)
    if base == "pow" and not _small_exponent(args[1]):  # the exponent is rounded, or a product with a logarithm
        size = _logarithms(shadow)
        shadow = shadow * (1 + inside * size * lane.noise(shadow))
    if base in VANISHING_QUOTIENTS and (least := flushed(call.tensors[0])):
        shadow = torch.where(args[0].abs() < NEAR_FLUSHED * least, torch.nan, shadow)
    if base in VANISHING_GATES and (least := flushed(call.tensors[0])):
        shadow = shadow + least * args[0].abs().nan_to_num(posinf=0.0) * lane.noise(shadow)
    if name in FACTORS:
        shadow = torch.where(_leaves_on_the_way(call, dtype), torch.nan, shadow)
    if name in INNER_PRODUCTS:
        shadow = shadow + UNIT[dtype] * _inner_product(name, args, shadow) * lane.noise(shadow)
    return shadow


def _distances(lane: Lane, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype, d: torch.Tensor) -> torch.Tensor:
    """Roots of x² + y² - 2xy, of vectors along the last dimension, whose terms may cancel."""
    squares = x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :]
    size = UNIT[dtype] * OWN_PRECISION.get(dtype, 1.0) * DISTANCE_UNITS * (x.shape[-1] + 2) ** 0.5 * squares
    return (d.square() + size * lane.noise(d)).clamp(min=0.0).sqrt()


def _leaves_on_the_way(call: OperatorCall, dtype: torch.dtype) -> torch.Tensor:
    """Of each product of many factors, whether those that are taken first may overflow, or vanish, in another order."""
    x, *along = call.args
    inner = torch.finfo(torch.float32 if dtype in AMPLITUDE else dtype)
    add = torch.sum if call.name == "prod" else torch.cumsum
    places = x.abs().log2()
    low = add(places.clamp(max=0.0), *along, **call.kwargs)
    high = add(places.clamp(min=0.0), *along, **call.kwargs)
    vanishing = torch.isfinite(low) & (low < math.log2(inner.tiny)) & (low + high > math.log2(inner.tiny))
    return (high > math.log2(inner.max)) | vanishing


def _factor_of_exponential(args: tuple[Any, ...]) -> float:
    """What ``exp(x) - 1`` is multiplied by in ``elu`` (with a scale) and ``celu``."""
    return abs(math.prod(float(a) for a in args[1:3]))


def _incoming(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """The size of the gradient that comes into the derivative of a function of each element."""
    size: torch.Tensor = args[0].abs().nan_to_num(posinf=0.0)
    if name == "soft_margin_loss_backward":
        _, x, target, reduction = args
        size = size * target.abs() / (x.numel() if reduction == MEAN else 1)
    return size


def _logarithms(s: torch.Tensor) -> torch.Tensor:
    """The sizes of the logarithms of the elements' sizes."""
    return torch.nan_to_num(s.abs().log().abs(), nan=0.0, posinf=0.0)


def _power_of_two(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and abs(math.frexp(factor)[0]) == 0.5


def _small_exponent(exponent: Any) -> bool:
    """Whether a power is a product or a root."""
    return isinstance(exponent, (int, float)) and abs(exponent) <= 4 and float(exponent * 2).is_integer()


def _inner_product(name: str, args: tuple[Any, ...], like: torch.Tensor) -> torch.Tensor | float:
    """A bound of the products that the operator forms inside: elementwise where shapes allow it."""
    a, b = (args[i] for i in INNER_PRODUCTS[name])
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.numel() and b.numel():
        from_either_end = name.startswith("lerp")  # start + weight * (end - start)
        size = a.abs() + b.abs() if from_either_end else (a / b if "div" in name else a * b).abs()
        if name == "linalg_cross":
            return float(torch.nan_to_num(a.abs(), posinf=0.0).max() * torch.nan_to_num(b.abs(), posinf=0.0).max())
        return torch.nan_to_num(size, nan=0.0, posinf=0.0).expand_as(like)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):  # _foreach: the largest of all
        sizes = [float((x * y).abs().max()) for x, y in zip(a, b, strict=False) if x.numel()]
        return max(sizes, default=0.0)
    return 0.0


def _sum_error(lane: Lane, call: OperatorCall, dtype: torch.dtype, s: torch.Tensor, place: int) -> torch.Tensor:
    """Error of summing in another order, or one after the other; none of a sum with an infinite term, or of NaN."""
    error = _as_large(lane, call, place, s, lambda: _off_by_order(call, dtype, s)) * lane.noise(s)
    return torch.where(s.isfinite(), error, 0.0)


def _coordinate_error(lane: Lane, call: OperatorCall, dtype: torch.dtype, s: torch.Tensor, place: int) -> torch.Tensor:
    """Error of rounding the coordinates that a resize reads at."""
    unit = COORDINATE_UNITS * UNIT[torch.float32 if dtype in AMPLITUDE else dtype]
    return unit * _as_large(lane, call, place, s, lambda: off_by_coordinates(call, s)) * lane.noise(s)


def _as_large(
    lane: Lane, call: OperatorCall, place: int, s: torch.Tensor, size: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """How far off the result ``s`` is: found in the first lane of a kind, and as large in the others."""
    key = lane.casts_round, place
    if key not in call.errors or call.errors[key].shape != s.shape:
        call.errors[key] = size()
    return call.errors[key]


def _off_by_order(call: OperatorCall, dtype: torch.dtype, s: torch.Tensor) -> torch.Tensor:
    """Of each element of the sum ``s`` what it is off by where its terms are added in another order."""
    terms = terms_of(call.name, call.args, s)
    finer = dtype in AMPLITUDE and terms is not None and (call.name in PLAIN or s.device.type == "cpu")
    unit = UNIT[torch.float32 if finer else dtype] * OWN_PRECISION.get(dtype, 1.0)
    total: torch.Tensor
    size: torch.Tensor | float
    try:
        if call.name not in ABSOLUTE:
            raise NotImplementedError
        total = call.func(*tree_map(_absolute, call.args), **tree_map(_absolute, call.kwargs))
    except Exception:
        total = torch.nan_to_num(s.abs(), nan=0.0, posinf=0.0).max() if s.numel() else s
    if terms is None:
        reads = sum(t.numel() for t in tensors_of((call.args, call.kwargs)))
        size = 2 * max(reads / max(s.numel(), 1), 1.0) ** 0.5 + ROUNDED_ONCE_AMPLITUDE
    else:
        whole = total * (terms if call.name == "mean" else 1)
        # In another order partial sums may leave the dtype; kernels, whose steps have no tensors of the program's,
        # choose one in which they do not.
        if not finer and dtype.is_floating_point and call.tensors:
            total = torch.where(whole > torch.finfo(dtype).max, torch.inf, total)
        size = summed_units(call.name, call.args, call.kwargs, terms, total, unit, s)
        if finer and call.name not in PLAIN:
            size = size + rounded_terms(call.name, call.args, terms) * (UNIT[dtype] / unit)
    return (unit * size * total).expand_as(s)


def _absolute(s: Any) -> Any:
    return s.abs() if is_wide(s) else s
