"""The reference run: eager, with fp64 shadows of every tensor carried beside it.

A dispatch mode runs each operator natively and once more in each *lane* on shadows of its
arguments.  Shadows belong to storages, not tensors: element i of a native storage has
element i of the lane's storage, so views, in-place writes, aliasing, saved tensors of
autograd and Python control flow are the native program's own, and only values differ.

Lanes:

``wide``     fp64 throughout: R_wide.  Casts do not round.
``cast``     fp64, but explicit casts round, and so do operands of discrete decisions: R_cast.
``wide:k``   ``wide`` with every rounding operation perturbed at random, up or down by what it may
             round in the native dtype (Monte Carlo arithmetic: Parker 1997; Denis et al. 2016), so
             that their spread around ``wide`` estimates each element's rounding error.  Kernels of
             several roundings run as steps of fxmorph's own, each perturbed: PyTorch's decompositions
             are what is compiled, and a wrong one would widen the spread by its error.
``cast:k``   the same around ``cast``.
``tie:±``    ``wide`` with ties at index-giving operators broken upwards, then downwards.

An operator that has no fp64 kernel (``opaque``) runs on each lane's own values in the native dtypes: rows and
indices among them are in the lane's own order.  Where that does not run, lanes take its native result.
The same run checks the gates: random numbers, uninitialised memory, duplicate indices in
non-accumulating scatters, writes into overlapping memory, overflow that only the native
dtype has; and whether the run was exact, so that no legal reordering could round.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import torch

from fxmorph.judge.reference.kernels import ATTENTION, VARIANCES, WRITTEN, kernel_steps, same_over_the_reals
from fxmorph.judge.reference.overflow import may_overflow
from fxmorph.judge.reference.sums import INNER_DIMENSION, ROUNDED_ONCE_AMPLITUDE, ordered_units, summed_units, terms_of
from fxmorph.judge.reference.welford import drift
from fxmorph.programs.bits import plain, unequal
from fxmorph.programs.inputs import flat_storage, is_float_dtype, storage_key
from fxmorph.programs.memory import overlap, overlaps_itself, same_elements
from fxmorph.torchapi.dispatch import (
    DispatchMode,
    OpOverload,
    is_random,
    mutated_arguments,
    no_dispatch,
    schema_of,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

#: Unit roundoff of the floats of 8 bits, of which releases have more and more.
_NARROW: dict[torch.dtype, float] = {
    getattr(torch, name): unit
    for name, unit in {
        "float8_e4m3fn": 2.0**-4, "float8_e4m3fnuz": 2.0**-4, "float8_e5m2": 2.0**-3, "float8_e5m2fnuz": 2.0**-3,
        "float8_e8m0fnu": 2.0**-2,
    }.items()
    if hasattr(torch, name)
}  # fmt: skip

WIDE: dict[torch.dtype, torch.dtype] = {
    **dict.fromkeys(_NARROW, torch.float64),
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

#: Unit roundoff of each dtype.
UNIT: dict[torch.dtype, float] = {
    **_NARROW,
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.complex64: 2.0**-24,
    torch.complex128: 2.0**-53,
    torch.complex32: 2.0**-11,
}
#: Units of roundoff by which one operator is perturbed, up or down: less where types of 16 and 8 bits
#: round the result of finer arithmetic.
AMPLITUDE: dict[torch.dtype, float] = {torch.float16: 2.0, torch.bfloat16: 2.0, **dict.fromkeys(_NARROW, 2.0)}
DEFAULT_AMPLITUDE = 8.0
#: The shadows of float64 are float64 too: eager's rounding is in the difference with the compiled one's.
OWN_PRECISION = {torch.float64: 2.0, torch.complex128: 2.0}

#: Perturbed lanes around each reference.
SPREAD = 4
#: Signs of the perturbed lanes (rows; the first half around ``wide``) at six roundings one after another:
#: columns of a Hadamard matrix.  Any two are orthogonal, so that up to six roundings of one element add
#: up by their squares exactly, not just on average; each has both signs, among the lanes of one kind too.
SIGNS = [[(-1.0) ** (row & column).bit_count() for column in (1, 2, 3, 5, 6, 7)] for row in range(8)]

#: Bits of significand: sums are exact while they stay below 2**p quanta.
PRECISION: dict[torch.dtype, int] = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
}
#: The common quantum of exact-arithmetic mode: all values are multiples of 2**-QUANTUM_BITS.
QUANTUM_BITS = 4

#: Operators that move or select data, compare, or are exact in any binary format.
EXACT_OPS = frozenset(
    """abs neg clone copy_ copy alias detach lift_fresh where relu relu_ clamp clamp_ clamp_min clamp_max
    clamp_min_ clamp_max_ maximum minimum max min amax amin fmax fmin aminmax cat stack gather index index_select
    slice_scatter select_scatter diagonal_scatter as_strided_scatter scatter scatter_ masked_fill masked_fill_
    masked_scatter masked_select index_fill index_copy index_copy_ index_put index_put_ _index_put_impl_ roll flip
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d tril triu tril_ triu_ repeat repeat_interleave embedding floor ceil round trunc sign sgn
    floor_ ceil_ round_ trunc_ eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_xor logical_not
    zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor arange eye fill fill_
    zero_ zeros_ empty empty_like new_empty empty_strided new_empty_strided sort topk kthvalue median nanmedian mode
    cummax cummin argmax argmin argsort max_pool2d_with_indices max_pool3d_with_indices threshold threshold_backward
    heaviside copysign ldexp frexp nextafter unfold_backward select_backward slice_backward im2col col2im
    channel_shuffle pixel_shuffle pixel_unshuffle rot90 bernoulli upsample_nearest1d upsample_nearest2d
    upsample_nearest3d _to_copy to diag_embed set_ resize_ new_tensor _local_scalar_dense view_as_real view_as_complex
    bitwise_and bitwise_or bitwise_xor bitwise_not hardtanh relu6 unbind_copy split_copy permute_copy conj_physical
    _conj_physical native_dropout_backward _reshape_copy put put_ take nonzero one_hot bucketize searchsorted isin
    value_selecting_reduction_backward cumsum_ masked_select_backward _unsafe_index _unsafe_index_put
    max_pool2d_with_indices_backward gather_backward lerp_0 real imag complex""".split()
)

#: Sums: exact in integers while Σ|terms| stays in range; error grows with the number of terms.
SUMS = frozenset(
    """sum nansum mean mm bmm addmm baddbmm addbmm mv addmv dot vdot addr ger convolution convolution_backward cumsum
    index_add index_add_ scatter_add scatter_add_ scatter_reduce index_reduce embedding_dense_backward trace
    index_put index_put_ _index_put_impl_ _unsafe_index_put select_backward slice_backward unfold_backward
    embedding_bag _embedding_bag einsum linear matmul avg_pool2d _adaptive_avg_pool2d upsample_nearest2d_backward
    avg_pool2d_backward _adaptive_avg_pool2d_backward reflection_pad2d_backward replication_pad2d_backward
    reflection_pad1d_backward replication_pad1d_backward""".split()
)
#: Of SUMS, those whose result on absolute values is Σ|terms|.
ABSOLUTE = frozenset(
    "sum mean mm bmm mv dot cumsum addmm baddbmm addmv convolution index_add scatter_add linear matmul".split()
)

#: Exact in integers while results fit: add, sub, mul (also in place and with scalars).
RING = frozenset(
    "add add_ sub sub_ mul mul_ rsub square addcmul addcmul_ "
    "_foreach_add _foreach_add_ _foreach_mul _foreach_mul_".split()
)

ROUNDED_ONCE = (
    RING | SUMS | frozenset("div div_ true_divide sqrt sqrt_ reciprocal reciprocal_ _foreach_div _foreach_sqrt".split())
)

#: Several roundings inside one kernel.
KERNELS = frozenset(
    """_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data native_layer_norm
    native_layer_norm_backward native_group_norm native_group_norm_backward native_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training native_batch_norm_backward batch_norm_backward
    _batch_norm_with_update logsumexp var var_mean std std_mean norm linalg_vector_norm
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_attention_math _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_cudnn_attention scaled_dot_product_attention logcumsumexp cumprod prod renorm cdist
    _cdist_forward _cdist_backward _fused_rms_norm rms_norm gru_cell lstm_cell nll_loss_forward binary_cross_entropy
    upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d grid_sampler_2d softmax log_softmax
    layer_norm _weight_norm_interface ctc_loss dist pdist mse_loss huber_loss smooth_l1_loss remainder fmod
    upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_linear1d_backward upsample_trilinear3d_backward
    grid_sampler_2d_backward remainder_ fmod_ avg_pool1d avg_pool3d _ctc_loss linalg_inv_ex linalg_cholesky_ex
    linalg_lu linalg_qr linalg_svd
    """.split()
)

#: Of KERNELS, those whose perturbed lanes run steps of fxmorph's own, each operator of them rounded.
#: In the others the native kernel runs, inputs are perturbed too, and outputs absolutely.
STEPPED = VARIANCES | WRITTEN.keys()
#: Units for exponentials inside of them: they are rescaled when a larger one comes (online softmax); and
#: where matrices were multiplied before, for those of fused attention, a shorter polynomial.
ONLINE_UNITS, FUSED_UNITS = 4.0, 8.0
#: Of those, kernels that may compute (x - mean) * scale as x * scale - mean * scale: the terms of that round.
SHIFTED = frozenset(
    """native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _batch_norm_with_update""".split()
)

#: Kernels of the form exp(x - logsumexp(x)) along a dimension.
SOFTMAXES = frozenset({"_softmax", "softmax", "_log_softmax", "log_softmax"})

#: Of those, what may become part of fused attention.
ATTENTION_WEIGHTS = frozenset({"_softmax", "softmax"})

#: Units of roundoff by which an operator is perturbed, where not DEFAULT_AMPLITUDE.  With
#: SPREAD_FACTOR that is at least twice what `bench/conformance.py` shows of eager and of compiled code.
UNITS = {
    "exp": 2.0, "exp2": 2.0, "log": 2.0, "log2": 2.0, "log10": 2.0, "log1p": 2.0, "rsqrt": 2.0, "sin": 4.0, "cos": 4.0,
    "tan": 4.0, "asin": 3.0, "acos": 3.0, "atan": 3.0, "atan2": 4.0, "sinh": 3.0, "cosh": 3.0, "tanh": 3.0,
    "asinh": 4.0, "acosh": 4.0, "atanh": 4.0, "expm1": 4.0, "elu": 3.0, "erf": 8.0, "erfc": 4.0, "erfinv": 4.0,
    "sigmoid": 3.0, "silu": 4.0, "hardswish": 3.0, "softplus": 4.0, "mish": 6.0, "log_sigmoid_forward": 4.0,
    "gelu": 6.0, "pow": 4.0,
    "gelu_backward": 128.0, "silu_backward": 64.0, "sigmoid_backward": 32.0, "tanh_backward": 32.0, "logit": 64.0,
    "lgamma": 2048.0, "digamma": 1.6e5, "polygamma": 1.6e5, "special_zeta": 1.6e5, "special_log_ndtr": 512.0,
    "special_ndtri": 512.0, "special_bessel_j0": 512.0, "special_bessel_j1": 512.0, "special_i0": 64.0,
    "special_i1": 64.0,
}  # fmt: skip
OPAQUE_UNITS, NARROW_UNITS = 128.0, 8.0
#: Units of roundoff of 1 by which code may be off, however small the result: it computes exp(x) - 1,
#: log((1+x)/(1-x))/2, 2/(1 + exp(-2x)) - 1, 1 + erf(x), a polynomial.  All stay inside torch's default tolerances.
ABSOLUTE_UNITS = dict.fromkeys(("expm1", "special_expm1", "elu", "atanh", "tanh"), 2.0) | {
    "erf": 8.0, "gelu": 4.0, "logaddexp": 1.0,
}  # fmt: skip
#: Factories that compute what they return, in the default dtype where none is given, and units of roundoff by which
#: they are off: of the largest value (a step is rounded, and taken many times), of each value and its logarithm.
RAMPS = {"linspace": 2.0, "logspace": 8.0}
#: Gradients of activations that have zeros, and units of the incoming gradient by which they are off there.
CROSSING = frozenset("gelu_backward silu_backward mish_backward".split())
CROSSING_UNITS = 8.0
#: (operator, factors whose product is rounded inside it).
INNER_PRODUCTS = {
    "addcmul": (1, 2), "addcmul_": (1, 2), "addcdiv": (1, 2), "addcdiv_": (1, 2), "linalg_cross": (0, 1),
    "_foreach_addcmul": (1, 2), "_foreach_addcmul_": (1, 2), "lerp": (0, 1), "lerp_": (0, 1),
}  # fmt: skip

#: Operators that may cast and do nothing else.  Inductor's own conversions are perturbed, as what it computes between
#: them is; not those to 8 bits, where that would be half the value.
CASTS, CONVERSION = frozenset({"_to_copy", "copy_", "copy"}), "convert_element_type"

INDEX_GIVING = frozenset(
    "argmax argmin max min sort topk kthvalue median nanmedian mode cummax cummin argsort "
    "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d "
    "fractional_max_pool2d fractional_max_pool3d".split()
)
DISCRETE = frozenset(
    "eq ne lt le gt ge floor ceil round trunc sign sgn floor_divide argmax argmin sort topk argsort max min median "
    "kthvalue mode cummax cummin bucketize searchsorted isin nonzero heaviside remainder fmod frac".split()
)
COMPARISONS = frozenset("eq ne lt le gt ge".split())
#: Quotients that are rounded down: the inner quotient may be rounded first, or not.
QUOTIENTS = frozenset("floor_divide floor_divide_ remainder remainder_ fmod fmod_ div div_".split())
#: Operators whose result depends on the sign of zero, which compiled code does not keep.
ZERO_SIGNS = frozenset("signbit copysign copysign_ atan2 atan2_ angle arctan2".split())
ROUNDINGS = frozenset("floor ceil round trunc sign sgn".split())
#: Operators that write their running mean and variance (arguments 3 and 4, in training) and do not say so.
RUNNING_STATISTICS = frozenset("native_batch_norm cudnn_batch_norm miopen_batch_norm".split())
#: Operators by which Python learns values.
TO_PYTHON = frozenset("_local_scalar_dense equal".split())
EMPTY = frozenset("empty empty_like new_empty empty_strided new_empty_strided empty_permuted".split())
#: (operator, position of the index argument, of the dimension or None).
SCATTERS = {"scatter": 2, "scatter_": 2, "index_copy": 2, "index_copy_": 2}
INDEX_PUTS = frozenset("index_put index_put_ _index_put_impl_ _unsafe_index_put".split())


@dataclass
class Lane:
    """One reference computation; ``bases`` maps (storage, dtype) to its wide 1-D memory."""

    name: str
    casts_round: bool = False
    #: Draws the same for all lanes: they differ by their row of SIGNS.
    perturb: torch.Generator | None = None
    row: int = 0
    roundings: int = 0
    tie: int = 0
    bases: dict[tuple[int, torch.dtype], torch.Tensor] = field(default_factory=dict)
    broken: str = ""


#: Gates that close what was computed from where they closed, and nothing beside it.
LOCAL = (
    "uninitialised", "duplicate_indices", "overlapping_write", "overflow", "bit_cast", "cast_out_of_range",
    "integer_overflow", "random_values",
)  # fmt: skip


@dataclass
class Gates:
    """What the run did that limits what may be said about it."""

    random: bool = False
    uninitialised: bool = False
    duplicate_indices: str = ""
    overlapping_write: str = ""
    overflow: bool = False
    bit_cast: bool = False
    #: A float was cast to a narrower one.
    narrowing_cast: bool = False
    #: A float was cast to an integer type that cannot hold it.
    cast_out_of_range: bool = False
    #: What may have made an integer that int32 or int64 cannot hold.
    integer_overflow: str = ""
    random_values: bool = False
    opaque: set[str] = field(default_factory=set)
    #: What Python learnt of a tensor (a truth value, an integer, a size) and rounding may decide otherwise.
    undecided: str = ""
    #: Python took a floating-point number that rounding reaches: what it does with it is not followed.
    number_taken: bool = False
    low_precision: bool = False
    exact: bool = True
    inexact_because: str = ""
    ops: int = 0

    def summary(self) -> str:
        """What the run was like, in a few words."""
        said = [f"{self.ops} operators", "exact arithmetic" if self.exact else f"not exact ({self.inexact_because})"]
        said += [word for word, on in (("random numbers", self.random), ("16-bit", self.low_precision)) if on]
        said += [f"no fp64 for {', '.join(sorted(self.opaque))}"] if self.opaque else []
        return ", ".join(said)

    def not_exact(self, why: str) -> None:
        if self.exact:
            self.exact, self.inexact_because = False, why

    def around(self, closed: frozenset[str]) -> Gates:
        """The gates for a value that of the :data:`LOCAL` ones only ``closed`` lie before."""
        return replace(self, **{name: type(getattr(self, name))() for name in LOCAL if name not in closed})


@dataclass(frozen=True)
class Shadows:
    """A native value, its shadow in each lane, and which of the :data:`LOCAL` gates lie before it."""

    native: torch.Tensor
    lanes: dict[str, torch.Tensor]
    closed: frozenset[str] = frozenset(LOCAL)


@dataclass(frozen=True)
class Taken:
    """A floating-point number that Python took from a tensor of ``dtype``, and what it is in each lane (0-d).

    ``hangs``: another was taken before, which rounding reaches too, so that the lanes do not tell all.
    """

    native: float
    dtype: torch.dtype
    lanes: dict[str, torch.Tensor]
    hangs: bool


#: How far two programs that are equal over the reals may differ in fp64, relative to the largest value.
FP64_TOLERANCE = 1e-7
#: What sums and kernels in fp64 round off, relative to the largest of the usual values, and what is beyond those.
FP64_ROUNDING, HUGE = 1e-13, 1e18


def differ_in_fp64(
    mine: Shadows | None, theirs: Shadows | None, lane: str = "wide", strict: bool = False
) -> bool | None:
    """Whether two programs that should be equal over the reals are not, on what no tie decides; None: cannot tell.

    ``lane`` ``cast`` has explicit casts round, ``wide`` has nothing round.  Differences are measured against
    the largest value; if ``strict`` each against its own element, but for what fp64 itself rounds.
    """
    if mine is None or theirs is None or not mine.lanes.keys() & theirs.lanes.keys() >= {lane, "tie:+", "tie:-"}:
        return None
    a, b = mine.lanes[lane], theirs.lanes[lane]
    if a.shape != b.shape:
        return True
    if not is_float_dtype(a.dtype) or not is_float_dtype(b.dtype):
        return _differ_in_decisions(mine, theirs, lane)
    firm = torch.isfinite(a) & torch.isfinite(b)
    for side in (mine, theirs):
        for tie in ("tie:+", "tie:-"):
            firm &= (side.lanes[tie] - side.lanes["wide"]).abs() <= FP64_TOLERANCE * side.lanes["wide"].abs()
    if not bool(firm.any()):
        return None
    if not strict:
        scale = float(a[firm].abs().max())
        return float((a - b)[firm].abs().max()) > FP64_TOLERANCE * max(scale, 1e-30)
    same = (a == b) | (a.isnan() & b.isnan())
    # Masks such as the least float32 say nothing of how large the rest is.
    usual = a[firm & (a.abs() < HUGE)].abs()
    floor = FP64_ROUNDING * (float(usual.max()) if usual.numel() else 0.0)
    near = (a - b).abs() <= FP64_TOLERANCE * a.abs() + floor
    return not bool((near | same).all())


def _differ_in_decisions(mine: Shadows, theirs: Shadows, lane: str) -> bool | None:
    """The same of truth values and integers: a difference has no size, and those of unsigned ones would wrap."""
    firm = torch.ones_like(mine.lanes[lane], dtype=torch.bool)
    for side in (mine, theirs):
        for tie in ("tie:+", "tie:-"):
            firm &= ~unequal(side.lanes[tie], side.lanes["wide"])
    return bool(unequal(mine.lanes[lane], theirs.lanes[lane])[firm].any()) if bool(firm.any()) else None


def widened(dtype: torch.dtype) -> torch.dtype:
    return WIDE.get(dtype, dtype)


def _native_memory(t: torch.Tensor) -> torch.Tensor:
    """A copy of the memory of ``t``, widened."""
    return flat_storage(t.detach()).to(widened(t.dtype)).clone()


def _name(func: OpOverload) -> str:
    return schema_of(func).name.split("::")[1]


def _in_native_dtypes(func: OpOverload, args: Any, kwargs: Any, tensors: list[torch.Tensor], out: Any) -> Any:
    """What an operator without an fp64 kernel makes of a lane's values, rounded to the dtypes of ``tensors``.

    What moved the values before it moves what comes after it too.  None where that does not run.
    """
    natives = iter(tensors)
    dtypes = {widened(t.dtype): t.dtype for t in tree_leaves(out) if isinstance(t, torch.Tensor)}

    def narrowed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(next(natives).dtype)
        return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

    try:
        lane_args, lane_kwargs = tree_map(narrowed, (args, kwargs))
        return func(*lane_args, **lane_kwargs)
    except Exception:
        return None


class Opaque(IntEnum):
    """How a lane has the result of an operator without an fp64 kernel; 0 of others."""

    NO = 0
    RUN = 1  #: of its own values, in the native dtypes
    TAKEN = 2  #: eager's


class _Elementary(DispatchMode):
    """Runs the steps of a kernel on a lane's values, each operator of them rounded in ``dtype``.

    A :class:`fxmorph.judge.reference.welford.RunningMean`.
    """

    def __init__(self, run: ReferenceRun, lane: Lane, dtype: torch.dtype) -> None:
        super().__init__()
        self._run, self._lane, self._dtype = run, lane, dtype

    def kernel(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Called with the mode on."""
        return kernel_steps(self, _name(func), *args, **kwargs)

    def seen(self, mean: torch.Tensor, terms: float) -> torch.Tensor:
        with no_dispatch():
            return self._run._jittered(self._lane, mean, ordered_units(terms), self._dtype)

    def drifted(
        self, x: torch.Tensor, dims: list[int], squares: torch.Tensor, mean: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same way in both: one mean drifts."""
        with no_dispatch():
            unit = UNIT[self._dtype] * OWN_PRECISION.get(self._dtype, 1.0)
            of_squares, of_mean = (t.reshape(mean.shape) for t in drift(x, dims, unit))
            way = self._run._noise(self._lane, mean)
            return squares + of_squares * way, mean + of_mean * way

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = _name(func)
        if name in STEPPED:
            with self:
                out = self.kernel(func, args, kwargs)
        else:
            out = func(*args, **kwargs)
        self._run.multiplied |= name in INNER_DIMENSION
        if name == "_to_copy":
            return out
        taken = {storage_key(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}

        def rounded(o: Any) -> Any:
            if not _wide(o) or storage_key(o) in taken:  # views and writes
                return o
            stepped = name in STEPPED
            o = self._run._rounded(self._lane, func, name, self._dtype, o, Opaque.NO, args, kwargs, stepped=stepped)
            if name != "exp":
                return o
            if not self._run.multiplied:
                return self._run._jittered(self._lane, o, ONLINE_UNITS, self._dtype)
            o = self._run._jittered(self._lane, o, FUSED_UNITS, self._dtype)
            # The shorter polynomial has no subnormal results.
            return o + torch.finfo(self._dtype).smallest_normal * self._run._noise(self._lane, o)

        return tree_map(rounded, out)


class ReferenceRun(DispatchMode):
    """Dispatch mode of the reference run; see the module's docstring.

    ``SPREAD`` lanes are perturbed around each of ``wide`` and ``cast``.  ``differentiated``: gradients
    are wanted, for which fused attention computes its scores once more.
    """

    def __init__(self, seed: int = 0, differentiated: bool = False) -> None:
        super().__init__()
        self.gates = Gates()
        self._differentiated = differentiated
        #: Relative errors of attention's weights by storage, when made again: of a row, of each.
        self._weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        #: Errors of those weights and of the gradient of their scores, in wide memory like theirs.
        self._remade: dict[int, torch.Tensor] = {}
        self._alive: dict[int, Any] = {}
        #: Matrices were multiplied: a softmax may become part of fused attention.
        self.multiplied = False
        #: Which LOCAL gates lie before what a storage holds, and before all that is to come.
        self._closed: dict[int, frozenset[str]] = {}
        self._closed_to_all: frozenset[str] = frozenset()
        #: Floating-point numbers that Python took.
        self.taken: list[Taken] = []
        #: The dtype that a storage had when it was first viewed under another one.
        self._cast: dict[int, torch.dtype] = {}
        self.lanes = [Lane("wide"), Lane("cast", casts_round=True), Lane("tie:+", tie=1), Lane("tie:-", tie=-1)]
        for k in range(SPREAD):
            for kind in ("wide", "cast"):
                g = torch.Generator(device="cpu").manual_seed(seed)
                row = k + SPREAD * (kind == "cast")
                self.lanes.append(Lane(f"{kind}:{k}", kind == "cast", g, row))

    # -- shadows ---------------------------------------------------------------

    def _base(self, lane: Lane, t: torch.Tensor) -> torch.Tensor:
        key = (storage_key(t), t.dtype)
        base = lane.bases.get(key)
        if base is None or base.numel() < t.untyped_storage().nbytes() // t.element_size():
            self._alive[key[0]] = t.untyped_storage()
            base = lane.bases[key] = _native_memory(t)
        return base

    def _shadow(self, lane: Lane, t: torch.Tensor) -> torch.Tensor:
        s = self._base(lane, t).as_strided(t.shape, t.stride(), t.storage_offset())
        s = s.conj() if t.is_conj() else s
        return torch._neg_view(s) if t.is_neg() else s

    def _known(self, t: torch.Tensor) -> bool:
        return (storage_key(t), t.dtype) in self.lanes[0].bases

    def _holds_bits(self, t: torch.Tensor) -> bool:
        """Whether ``t`` shows the memory of a tensor of another dtype."""
        return self._cast.get(storage_key(t), t.dtype) != t.dtype

    def _bit_cast(self) -> None:
        """Bits are computed with: lanes start again from the native ones, and their spread is lost."""
        self.gates.bit_cast = True
        self.gates.not_exact("view.dtype")

    def _adopt(self, lane: Lane, native: torch.Tensor, shadow: torch.Tensor) -> None:
        """Make ``shadow`` the lane's values of the fresh tensor ``native``."""
        self._alive[storage_key(native)] = native.untyped_storage()
        n = native.untyped_storage().nbytes() // max(native.element_size(), 1)
        base = torch.zeros(n, dtype=widened(native.dtype), device=native.device)
        view = base.as_strided(native.shape, native.stride(), native.storage_offset())
        view.copy_(shadow.resolve_conj() if shadow.is_complex() and not native.is_conj() else shadow)
        lane.bases[(storage_key(native), native.dtype)] = base

    def _resync(self, t: torch.Tensor) -> None:
        self._alive[storage_key(t)] = t.untyped_storage()  # or its address would come to mean another tensor
        for lane in self.lanes:
            lane.bases[(storage_key(t), t.dtype)] = _native_memory(t)

    def keep(self, t: torch.Tensor) -> Shadows:
        """The shadows of ``t`` now, cloned; for :func:`fxmorph.programs.observe.observe`."""
        if t.layout != torch.strided:
            return Shadows(t.detach().clone(), {})
        t = t.detach()
        known = self._known(t)
        if self._holds_bits(t):
            self._bit_cast()
        with no_dispatch():
            lanes = {lane.name: self._shadow(lane, t).clone() for lane in self.lanes if not lane.broken and known}
            return Shadows(t.clone(), lanes, self._closed.get(storage_key(t), frozenset()) | self._closed_to_all)

    # -- one operator ----------------------------------------------------------

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        before = {name: getattr(self.gates, name) for name in LOCAL}
        self.gates = self.gates.around(frozenset())
        out = self._dispatched(func, args, kwargs)
        closed = frozenset(name for name in LOCAL if getattr(self.gates, name))
        for name in LOCAL:
            setattr(self.gates, name, before[name] or getattr(self.gates, name))
        self._note_closed(func, closed, args, kwargs, out)
        return out

    def _note_closed(self, func: OpOverload, closed: frozenset[str], args: Any, kwargs: Any, out: Any) -> None:
        """What an operator gives or writes has behind it what its operands have, and what it closed itself."""
        keys = [storage_key(t) for t in tree_leaves((args, kwargs)) if _strided(t)]
        for key in keys:
            closed |= self._closed.get(key, frozenset())
        if not closed:
            return
        if _name(func) in TO_PYTHON:
            self._closed_to_all |= closed
        for t in (*tree_leaves(out), *self._written(func, args, kwargs)):
            if _strided(t):
                self._alive[storage_key(t)] = t.untyped_storage()
                self._closed[storage_key(t)] = self._closed.get(storage_key(t), frozenset()) | closed

    def _dispatched(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = _name(func)
        flat, spec = tree_flatten((args, kwargs))
        tensors = [t for t in flat if isinstance(t, torch.Tensor)]
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in tensors):
            self.gates.opaque.add(name)
            self.gates.not_exact(name)
            return func(*args, **kwargs)
        self.gates.ops += 1
        self.multiplied |= name in INNER_DIMENSION
        written = self._written(func, args, kwargs)
        for t in tensors:
            for lane in self.lanes:
                self._base(lane, t)
        self._gate_before(func, name, args, kwargs, written)
        natives_before = self._exact_operands(name, tensors)
        random = is_random(func, args, kwargs)
        common = _narrowed_to(func, tensors)
        lane_args = [self._lane_arguments(lane, name, flat, spec, common) for lane in self.lanes]
        generator = torch.get_rng_state() if random else None

        out = func(*args, **kwargs)

        if name in TO_PYTHON:
            self._note_taken(func, tensors, lane_args, out)
            return out
        outs = [o for o in tree_leaves(out) if isinstance(o, torch.Tensor) and o.layout == torch.strided]
        if name in EMPTY:
            self.gates.uninitialised = True
        if name in ("set_", "resize_"):
            for t in written:
                self._resync(t)
            return out
        fresh = [o for o in outs if not self._known(o)]
        if func is torch.ops.aten.view.dtype:
            self._cast.setdefault(storage_key(args[0]), args[0].dtype)
        if not fresh and not written:
            return out  # a view
        if func is not torch.ops.aten.view.dtype and any(map(self._holds_bits, tensors)):
            self._bit_cast()
        if name in EMPTY or func is torch.ops.aten.view.dtype:
            for t in (*fresh, *written):
                self._resync(t)
            return out
        if random:
            self.gates.random = True
            self.gates.not_exact(name)
            self._draw_again(func, name, generator, lane_args, out, fresh, written, tensors)
            return out
        if name in COMPARISONS or name in ROUNDINGS or _rounds_quotient(name, kwargs):
            self._shift_decisions(name, args, lane_args)
        if name in ZERO_SIGNS:
            self._sign_zeros(name, tensors, lane_args)
        stepped = name in STEPPED and same_over_the_reals(func, name, *lane_args[0])
        for lane, (a, k) in zip(self.lanes, lane_args, strict=True):
            self._run_lane(lane, func, name, a, k, out, written, tensors, stepped)
        if self._differentiated and self.multiplied and name in ATTENTION_WEIGHTS and args[0].ndim:
            self._note_weights(args[0], args[1], out)
        if name == "_softmax_backward_data" and storage_key(args[1]) in self._weights:
            self._into_scores(args[0], args[1], args[2], out)
        if self._remade and name in ("mul", "div", "mm", "bmm"):
            self._follow_remade(name, args, out)
        self._drop_other_dtypes(written)
        self._gate_after(name, [*fresh, *written], tensors, natives_before)
        return out

    def _written(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        out: list[torch.Tensor] = []
        for i, name in mutated_arguments(func):
            value = args[i] if i < len(args) else kwargs.get(name)
            out += [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
        if _name(func) in RUNNING_STATISTICS and len(args) > 5 and args[5]:
            out += [t for t in args[3:5] if isinstance(t, torch.Tensor)]
        return out

    def _lane_arguments(
        self, lane: Lane, name: str, flat: list[Any], spec: Any, common: torch.dtype | None
    ) -> tuple[Any, Any]:
        rounding = lane.casts_round and name in DISCRETE

        def convert(value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return widened(value)
            if not isinstance(value, torch.Tensor):
                return value
            s = self._shadow(lane, value)
            if rounding and value.dtype in WIDE:
                s = s.to(value.dtype).to(s.dtype)
            if common is not None and value.ndim == 0 and value.dtype in UNIT:
                s = s.to(common).to(s.dtype)
            return s

        return tree_unflatten([convert(v) for v in flat], spec)

    def _run_lane(
        self, lane: Lane, func: OpOverload, name: str, args: Any, kwargs: Any, out: Any, written: list[torch.Tensor],
        tensors: list[torch.Tensor], stepped: bool = False,
    ) -> None:  # fmt: skip
        """``stepped``: perturbed lanes run the kernel's steps."""
        run: Callable[..., Any] = func
        if lane.perturb is not None and name in KERNELS:
            run = self._kernel(lane, func, name, tensors, written, stepped)
        if name in RAMPS:
            kwargs = {**kwargs, "dtype": widened(out.dtype)}
        try:
            result = self._tie_broken(lane, func, args, kwargs) if lane.tie and name in INDEX_GIVING else None
            result = run(*args, **kwargs) if result is None else result
            opaque = Opaque.NO
        except Exception:
            self.gates.opaque.add(name)
            self.gates.not_exact(name)
            for t in written:
                lane.bases[(storage_key(t), t.dtype)] = _native_memory(t)
            narrow = None if written else _in_native_dtypes(func, args, kwargs, tensors, out)
            opaque = Opaque.TAKEN if narrow is None else Opaque.RUN
            narrow = out if narrow is None else narrow
            result = tree_map(lambda o: o.to(widened(o.dtype)) if isinstance(o, torch.Tensor) else o, narrow)
        written_keys = {(storage_key(t), t.dtype) for t in written}
        for native, shadow in zip(tree_leaves(out), tree_leaves(result), strict=False):
            if not isinstance(native, torch.Tensor) or not isinstance(shadow, torch.Tensor):
                continue
            key = (storage_key(native), native.dtype)
            if key in written_keys or (key in lane.bases and key[0] in self._alive and not self._is_new(native, lane)):
                continue
            if shadow.shape != native.shape:
                lane.broken = f"{name}: data-dependent shape"
                self.gates.undecided = self.gates.undecided or f"the size of what {name} returns"
                shadow = native
            self._adopt(
                lane,
                native,
                self._rounded(
                    lane, func, name, native.dtype, shadow, opaque, args, kwargs, _narrows(tensors, native), stepped
                ),
            )
        for t in written:
            view = self._shadow(lane, t)
            with torch.no_grad():
                new = self._rounded(
                    lane, func, name, t.dtype, view, opaque, args, kwargs, _narrows(tensors, t), stepped
                )
                if new is not view:
                    view.copy_(new)

    def _is_new(self, native: torch.Tensor, lane: Lane) -> bool:
        return (storage_key(native), native.dtype) not in lane.bases

    def _kernel(
        self, lane: Lane, func: OpOverload, name: str, tensors: list[torch.Tensor], written: list[torch.Tensor],
        stepped: bool,
    ) -> Callable[..., Any]:  # fmt: skip
        """A kernel of several roundings, as a perturbed lane computes it."""
        # Kernels compute in float32 at least.
        fine = all(t.dtype in (torch.float64, torch.complex128) for t in tensors if t.dtype in UNIT)
        inside = torch.float64 if fine else torch.float32
        # What is written to must stay the lane's own memory.
        kept = {(storage_key(t), t.dtype) for t in written}
        own = {storage_key(base) for key, base in lane.bases.items() if key in kept}

        def moved(args: Any, size: float) -> Any:
            return tree_map(
                lambda s: self._jittered(lane, s, size, inside) if _wide(s) and storage_key(s) not in own else s, args
            )

        def whole(*args: Any, **kwargs: Any) -> Any:
            return func(*moved(args, 4 * DEFAULT_AMPLITUDE), **kwargs)

        def steps(*args: Any, **kwargs: Any) -> Any:
            with _Elementary(self, lane, inside) as elementary:
                return elementary.kernel(func, moved(args, 1.0) if name in SHIFTED else args, kwargs)

        return steps if stepped else whole

    def _rounded(
        self, lane: Lane, func: OpOverload, name: str, dtype: torch.dtype, shadow: torch.Tensor, opaque: Opaque,
        args: Any, kwargs: Any, narrows: bool = False, stepped: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """What ``func`` gives in this lane: ``shadow`` as rounding in ``dtype`` may have made it.

        ``narrows``: an operand has a finer dtype; ``stepped``: each step has been rounded.
        """
        if dtype not in UNIT:
            return shadow
        if name in CASTS or (name == CONVERSION and dtype in _NARROW):
            if lane.casts_round and dtype in WIDE and narrows:
                return shadow.to(dtype).to(shadow.dtype)
            return shadow
        if lane.perturb is None:
            return shadow
        if name == "linspace":
            return self._jittered(lane, shadow, RAMPS[name], dtype, absolute=True)
        if name == "logspace":
            powers = torch.nan_to_num(shadow.abs().log().abs(), nan=0.0, posinf=0.0)
            steepest = float(powers.max()) if powers.numel() else 0.0
            return self._jittered(lane, shadow, RAMPS[name] * max(1.0, steepest), dtype)
        if opaque:
            units = NARROW_UNITS if opaque is Opaque.RUN else OPAQUE_UNITS
            return self._jittered(lane, shadow, _units(dtype, units, shadow), dtype, absolute=True)
        if stepped:
            inner = torch.float32 if dtype in AMPLITUDE else dtype
            if name in SOFTMAXES and (self.multiplied or "log" in name):
                shadow = self._logsumexp_jitter(lane, name, inner, shadow, args)
            # Each step has rounded; 16-bit types round the result once more, and attention's weights before it.
            return self._jittered(lane, shadow, 1.0, dtype, name in ATTENTION) if dtype in AMPLITUDE else shadow
        accumulating = name in SUMS and not (name in INDEX_PUTS and not _accumulates(args, kwargs))
        if name in EXACT_OPS and not accumulating:
            return shadow
        if accumulating and dtype not in AMPLITUDE:
            return shadow + self._sum_jitter(lane, func, name, dtype, shadow, args, kwargs)
        base = name.removesuffix("_")
        once = name in ROUNDED_ONCE and name not in KERNELS
        if name in ("mul", "mul_", "div", "div_") and _power_of_two(args[1]):
            return shadow
        units = ROUNDED_ONCE_AMPLITUDE if once else _units(dtype, UNITS.get(base, DEFAULT_AMPLITUDE), shadow)
        shadow = self._jittered(lane, shadow, units, dtype, absolute=name in KERNELS)
        inside = UNIT[torch.float32 if dtype in AMPLITUDE else dtype]
        if base in ABSOLUTE_UNITS:
            shadow = shadow + ABSOLUTE_UNITS[base] * inside * self._noise(lane, shadow)
        if name in CROSSING and isinstance(args[0], torch.Tensor):
            size = CROSSING_UNITS * inside * OWN_PRECISION.get(dtype, 1.0) * args[0].abs().nan_to_num(posinf=0.0)
            shadow = shadow + size * self._noise(lane, shadow)
        if base == "pow" and not _small_exponent(args[1]):  # the exponent is rounded, or a product with a logarithm
            size = torch.nan_to_num(shadow.abs().log().abs(), nan=0.0, posinf=0.0)
            shadow = shadow * (1 + inside * size * self._noise(lane, shadow))
        if name in INNER_PRODUCTS:
            shadow = shadow + UNIT[dtype] * _inner_product(name, args, shadow) * self._noise(lane, shadow)
        if accumulating:
            shadow = shadow + self._sum_jitter(lane, func, name, dtype, shadow, args, kwargs)
        return shadow

    def _jittered(
        self, lane: Lane, s: torch.Tensor, units: float, dtype: torch.dtype, absolute: bool = False
    ) -> torch.Tensor:
        """``s`` with each element moved, up or down, by ``units`` of the dtype's roundoff."""
        size = UNIT[dtype] * units * OWN_PRECISION.get(dtype, 1.0)
        xi = self._noise(lane, s)
        # The parts of a complex number are off by its size.
        out = s + s.abs() * size * torch.complex(xi, self._noise(lane, s)) if s.is_complex() else s * (1 + size * xi)
        if absolute and s.numel():
            scale = torch.nan_to_num(s.abs(), nan=0.0, posinf=0.0).max()
            out = out + size * scale * self._noise(lane, s)
        tiny = torch.finfo(dtype).smallest_normal if dtype.is_floating_point else 1e-38
        return out + tiny * UNIT[dtype] * 2 * xi

    def _noise(self, lane: Lane, s: torch.Tensor) -> torch.Tensor:
        """1 or -1: of all errors up to 1 those that spread most, and one operator's spread hangs on no chance."""
        signs = torch.tensor(SIGNS[lane.row], dtype=torch.float64).roll(lane.roundings)
        lane.roundings += 1
        # Elements begin at different columns, so that the noise of a sum of them is not one draw for all lanes.
        first = torch.randint(0, 6, s.shape, generator=torch.Generator().manual_seed(0), dtype=torch.int32)
        flip = torch.randint(0, 2, s.shape, generator=lane.perturb, dtype=torch.int8, device="cpu")
        return (signs[first] * (flip.double() * 2 - 1)).to(s.device)

    def _logsumexp_jitter(self, lane: Lane, name: str, dtype: torch.dtype, s: torch.Tensor, args: Any) -> torch.Tensor:
        """Error of exp(x - logsumexp) with the logsumexp rounded, as fused attention computes it.

        A row's error is the roundoff of its logsumexp: large where every score is about -1e4.
        """
        x, dim = args[0], args[1]
        if not isinstance(x, torch.Tensor) or not isinstance(dim, int) or not x.numel() or x.ndim == 0:
            return s
        peak = torch.nan_to_num(x.logsumexp(dim, keepdim=True).abs(), nan=0.0, posinf=0.0)
        size = 2 * UNIT[dtype] * peak * self._noise(lane, peak)
        return s + size if "log" in name else s * (1 + size)

    def _note_weights(self, scores: torch.Tensor, dim: int, weights: torch.Tensor) -> None:
        """Attention's weights as its fused backward makes them again, from scores and their logsumexp.

        Those scores are rounded otherwise than the ones of the logsumexp, and the two errors do not cancel,
        however surely a row has decided.
        """
        unit = UNIT[torch.float64 if scores.dtype == torch.float64 else torch.float32]
        peak = self._shadow(self.lanes[0], scores).logsumexp(dim, keepdim=True).abs().nan_to_num(posinf=0.0)
        each, row = math.sqrt(2) * self._deviation(scores) + FUSED_UNITS * unit, 2 * unit * peak
        self._weights[storage_key(weights)] = (row, each)
        wide = self._shadow(self.lanes[0], weights)
        self._remake(weights, wide * (row.square() + each.square()).sqrt())
        self._spread(weights, wide * each)

    def _remake(self, native: torch.Tensor, errors: torch.Tensor) -> None:
        base = torch.zeros_like(flat_storage(native), dtype=torch.float64)
        base.as_strided(native.shape, native.stride(), native.storage_offset()).copy_(errors)
        self._remade[storage_key(native)] = base

    def _follow_remade(self, name: str, args: Any, out: torch.Tensor) -> None:
        """A product of what attention's backward makes again: the squares of the errors add up.

        In the lanes, errors of two terms that are most of a sum have opposite signs everywhere now and then.
        """
        for i, t in enumerate(args[:2]):
            if not isinstance(t, torch.Tensor) or storage_key(t) not in self._remade:
                continue
            errors = self._remade[storage_key(t)].as_strided(t.shape, t.stride(), t.storage_offset())
            other = args[1 - i]
            other = self._shadow(self.lanes[0], other) if isinstance(other, torch.Tensor) else other
            if name == "mul":
                self._remake(out, errors * other)
            elif name == "div" and i == 0:
                self._remake(out, errors / other)
            elif name in ("mm", "bmm"):
                squares = (errors.square(), other.square())
                self._spread(out, torch.matmul(*(squares if i == 0 else squares[::-1])).sqrt())

    def _into_scores(self, grad: torch.Tensor, weights: torch.Tensor, dim: int, out: torch.Tensor) -> None:
        """The gradient of the scores, weights * (grad - sum(weights * grad)), as fused attention's backward has it.

        Its sum is one of outputs times their gradients, whose rounding is not that of ``grad``.
        """
        row, each = self._weights[storage_key(weights)]
        wide, result = self._shadow(self.lanes[0], weights), self._shadow(self.lanes[0], out)
        error = self._deviation(grad)
        total = (wide * error).sum(dim, keepdim=True)
        squares = result.square() * (row.square() + each.square()) + wide.square() * (error.square() + total.square())
        size = squares.sqrt()
        self._remake(out, size)
        self._spread(out, size)

    def _spread(self, native: torch.Tensor, size: torch.Tensor) -> None:
        """Add an error of ``size`` to what perturbed lanes are off by, in squares.

        It has the sign of what is there: a draw of its own might cancel that.
        """
        centres = {lane.casts_round: self._shadow(lane, native).clone() for lane in self.lanes[:2]}
        size = size.nan_to_num(nan=0.0, posinf=0.0)
        for lane in self.lanes:
            if lane.perturb is not None:
                view, centre = self._shadow(lane, native), centres[lane.casts_round]
                off = view - centre
                sign = torch.where(off == 0, self._noise(lane, off), off.sign())
                with torch.no_grad():
                    view.copy_(centre + sign * (off.square() + size.square()).sqrt())

    def _sum_jitter(
        self, lane: Lane, func: OpOverload, name: str, dtype: torch.dtype, s: torch.Tensor, args: Any, kwargs: Any
    ) -> torch.Tensor:
        """Error of summing in another order, or one after the other."""
        terms = terms_of(name, args, s)
        total: torch.Tensor
        size: torch.Tensor | float
        try:
            if name not in ABSOLUTE:
                raise NotImplementedError
            total = func(*tree_map(_absolute, args), **tree_map(_absolute, kwargs))
        except Exception:
            total = torch.nan_to_num(s.abs(), nan=0.0, posinf=0.0).max() if s.numel() else s
        if terms is None:
            reads = sum(a.numel() for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor))
            size = 2 * max(reads / max(s.numel(), 1), 1.0) ** 0.5 + ROUNDED_ONCE_AMPLITUDE
        else:
            size = summed_units(name, args, kwargs, terms, total, UNIT[dtype])
        return UNIT[dtype] * OWN_PRECISION.get(dtype, 1.0) * size * total * self._noise(lane, s)

    def _tie_broken(self, lane: Lane, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """The operator on an input whose ties are broken by position; None where that changes nothing."""
        x = args[0]
        if not isinstance(x, torch.Tensor) or x.numel() < 2 or x.is_complex():
            return None
        whole = not x.is_floating_point()
        y = x.double()
        finite = torch.nan_to_num(y.abs(), nan=0.0, posinf=0.0)
        scale = 0.25 if whole else max(float(finite.max()), 1e-300) * 2.0**-40
        ramp = torch.arange(x.numel(), dtype=torch.float64, device=x.device).reshape(x.shape) / x.numel()
        shifted = func(y + lane.tie * scale * ramp, *args[1:], **kwargs)
        # Only indices are taken from there: the ramp is no error of the values.
        plain = func(*args, **kwargs)
        if isinstance(shifted, torch.Tensor):
            return plain if shifted.is_floating_point() else shifted
        return tuple(p if s.is_floating_point() else s for p, s in zip(plain, shifted, strict=True))

    def _draw_again(
        self, func: OpOverload, name: str, generator: Any, lane_args: list[tuple[Any, Any]], out: Any,
        fresh: list[torch.Tensor], written: list[torch.Tensor], tensors: list[torch.Tensor],
    ) -> None:  # fmt: skip
        """Run a random operator in the lanes from the same generator state.

        Where fp64 does not draw what the native dtype drew, or the device has a generator of its
        own, lanes take the native values; if those were computed from values, rounding is lost.
        """
        after = torch.get_rng_state()
        drawn = all(t.device.type == "cpu" for t in (*fresh, *written))
        if drawn:
            for lane, (args, kwargs) in zip(self.lanes, lane_args, strict=True):
                torch.set_rng_state(generator)
                self._run_lane(lane, func, name, args, kwargs, out, written, tensors)
            torch.set_rng_state(after)
            drawn = all(self._alike(t) for t in (*fresh, *written))
        if not drawn:
            self.gates.random_values |= any(t.dtype in UNIT for t in tensors)
            for t in (*fresh, *written):
                self._resync(t)

    def _alike(self, t: torch.Tensor) -> bool:
        wide, native = self._shadow(self.lanes[0], t).double(), t.detach().double()
        scale = float(torch.nan_to_num(native.abs(), nan=0.0, posinf=0.0).max()) if t.numel() else 0.0
        return torch.allclose(wide, native, rtol=1e-2, atol=1e-2 * scale, equal_nan=True)

    def _shift_decisions(self, name: str, args: tuple[Any, ...], lane_args: list[tuple[Any, Any]]) -> None:
        """In the tie lanes, move the operands of a decision by what rounding may have moved them.

        A few perturbed lanes miss some decisions on the edge by chance; these two do not.
        Operands of ``eq`` and ``ne`` that are closer than that are made equal in one lane and
        unequal in the other.
        """
        floats = [
            i for i, t in enumerate(args) if isinstance(t, torch.Tensor) and t.dtype in UNIT and not t.is_complex()
        ]
        if not floats:
            return
        reach = {i: 2 * self._deviation(args[i]) for i in floats}
        if name in QUOTIENTS:
            first = floats[0]
            least = 2 * UNIT[args[first].dtype] * self._shadow(self.lanes[0], args[first]).abs()
            reach[first] = torch.maximum(reach[first], least)
        for lane, (shifted, kwargs), slot in zip(self.lanes, list(lane_args), range(len(lane_args)), strict=True):
            if not lane.tie:
                continue
            new = list(shifted)
            if name in ("eq", "ne"):
                other = new[1] if len(new) > 1 else 0.0
                gap = new[0] - other
                total = sum(reach.values()) + torch.zeros_like(gap)
                near = (total > 0) & (gap.abs() <= total)  # equal data that nothing rounded stay equal
                away = torch.nextafter(new[0], torch.full_like(new[0], torch.inf))
                new[0] = torch.where(near, (other + torch.zeros_like(gap)) if lane.tie > 0 else away, new[0])
            else:
                for i in floats:
                    new[i] = new[i] + (lane.tie if i == 0 else -lane.tie) * reach[i]
            lane_args[slot] = (tuple(new), kwargs)

    def _sign_zeros(self, name: str, tensors: list[torch.Tensor], lane_args: list[tuple[Any, Any]]) -> None:
        """Zeros are +0 in one tie lane and -0 in the other."""
        if any(bool((t == 0).any()) for t in tensors if t.dtype in UNIT):
            self.gates.not_exact(f"{name} of zero")
        for slot, lane in enumerate(self.lanes):
            if lane.tie:
                zero = 0.0 if lane.tie > 0 else -0.0
                lane_args[slot] = tree_map(
                    lambda s, zero=zero: torch.where(s == 0, torch.full_like(s, zero), s) if _wide(s) else s,
                    lane_args[slot],
                )

    def _deviation(self, t: torch.Tensor) -> torch.Tensor:
        """Largest deviation of the perturbed lanes from ``wide``, element by element."""
        centre = self._shadow(self.lanes[0], t)
        out = torch.zeros_like(centre)
        for lane in self.lanes:
            if lane.perturb is not None and not lane.casts_round:
                out = torch.maximum(out, torch.nan_to_num((self._shadow(lane, t) - centre).abs(), nan=0.0, posinf=0.0))
        return out

    def _drop_other_dtypes(self, written: list[torch.Tensor]) -> None:
        """A storage that is seen under two dtypes (bit casts) and written: the other view re-syncs."""
        for t in written:
            for lane in self.lanes:
                for key in [k for k in lane.bases if k[0] == storage_key(t) and k[1] != t.dtype]:
                    del lane.bases[key]

    # -- what Python sees ------------------------------------------------------

    def _note_taken(
        self, func: OpOverload, tensors: list[torch.Tensor], lane_args: list[tuple[Any, Any]], out: Any
    ) -> None:
        """A number or a truth value leaves the tensors: whether all lanes agree on it.

        Lanes follow the native program's control flow, so where they do not agree, what comes after is one
        of two legal programs, and compiled code may have taken the other.
        """
        seen = [func(*a, **k) for lane, (a, k) in zip(self.lanes, lane_args, strict=True) if not lane.broken]
        if all(s == out or (s != s and out != out) for s in seen):
            return
        if isinstance(out, float):
            names = [lane.name for lane in self.lanes if not lane.broken]
            lanes = {n: torch.tensor(s, dtype=torch.float64) for n, s in zip(names, seen, strict=True)}
            self.taken.append(Taken(out, tensors[0].dtype, lanes, self.gates.number_taken))
        if isinstance(out, (float, complex)):
            self.gates.number_taken = True
        else:
            self.gates.undecided = self.gates.undecided or f"{out!r}, which Python takes from a tensor,"

    # -- gates -----------------------------------------------------------------

    def _gate_before(self, func: OpOverload, name: str, args: Any, kwargs: Any, written: list[torch.Tensor]) -> None:
        if any(
            t.dtype in AMPLITUDE
            for t in tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor)
        ):
            self.gates.low_precision = True
        if name in CASTS:
            source = args[1] if name == "copy_" or name == "copy" else args[0]
            wanted = args[0].dtype if name != "_to_copy" else kwargs.get("dtype")
            if isinstance(source, torch.Tensor) and wanted is not None:
                self.gates.cast_out_of_range |= _cannot_hold(source, wanted)
                self.gates.narrowing_cast |= _cast_rounds(source, wanted)
        if may_overflow(name, args, kwargs):
            self.gates.integer_overflow = name
        if any(overlaps_itself(t) or _meets_another(t, tree_leaves((args, kwargs))) for t in written):
            self.gates.overlapping_write = name
        if name in SCATTERS and kwargs.get("reduce") is None and len(args) > SCATTERS[name]:
            self._check_scatter(name, args)
        if name in INDEX_PUTS and not _accumulates(args, kwargs):
            self._check_index_put(name, args, kwargs)

    def _check_scatter(self, name: str, args: Any) -> None:
        x, dim, index = args[0], args[1], args[2]
        source = args[3] if len(args) > 3 else None
        if not isinstance(index, torch.Tensor) or not isinstance(source, torch.Tensor) or not index.numel():
            return
        if index.ndim == 0 or x.ndim == 0:
            return
        if "index_copy" in name:
            moved = source.movedim(dim, 0).reshape(index.numel(), -1)
            self._conflict(name, index.flatten(), moved)
            return
        d = dim % x.ndim
        source = source[tuple(slice(0, n) for n in index.shape)]
        rows = index.movedim(d, 0).reshape(index.shape[d], -1)
        values = source.movedim(d, 0).reshape(index.shape[d], -1)
        columns = torch.arange(rows.shape[1], device=rows.device).expand_as(rows)
        self._conflict(name, (rows * rows.shape[1] + columns).flatten(), values.reshape(-1, 1))

    def _check_index_put(self, name: str, args: Any, kwargs: Any) -> None:
        x, indices = args[0], args[1]
        values = args[2] if len(args) > 2 else kwargs.get("values")
        if not isinstance(values, torch.Tensor):
            return
        try:
            numbers = torch.arange(x.numel(), device=x.device).reshape(x.shape)
            places = torch.ops.aten.index(numbers, indices)
            self._conflict(name, places.flatten(), values.expand(places.shape).reshape(-1, 1))
        except Exception:
            return  # the operator itself will say what is wrong with its indices

    def _conflict(self, name: str, places: torch.Tensor, values: torch.Tensor) -> None:
        """Two different values written to one place: which one stays is undefined."""
        order = places.argsort(stable=True)
        p, v = places[order], values[order]
        same = p[1:] == p[:-1]
        differs = (v[1:] != v[:-1]).any(-1) if v.numel() else same
        if bool((same & differs).any()):
            self.gates.duplicate_indices = name

    def _exact_operands(self, name: str, tensors: list[torch.Tensor]) -> bool:
        if not self.gates.exact:
            return False
        return all(_on_grid(t) for t in tensors)

    def _gate_after(
        self, name: str, made: list[torch.Tensor], tensors: list[torch.Tensor], operands_on_grid: bool
    ) -> None:
        wide = self.lanes[0]
        for t in made:
            if t.dtype in UNIT and t.numel() and not self.gates.overflow:
                native_bad = ~torch.isfinite(plain(t))
                if bool(native_bad.any()) and bool((native_bad & torch.isfinite(self._shadow(wide, t))).any()):
                    self.gates.overflow = True
        if not self.gates.exact:
            return
        floating = [t for t in made if t.dtype in UNIT]
        if not floating:
            return
        if name not in EXACT_OPS and name not in SUMS and name not in RING:
            self.gates.not_exact(name)
            return
        if name == "mean" or not operands_on_grid:
            self.gates.not_exact(f"{name}: values off the grid")
            return
        for t in floating:
            s = self._shadow(wide, t)
            if t.dtype not in PRECISION or not bool((t.to(s.dtype) == s).all()) or not _on_grid(t):
                self.gates.not_exact(f"{name}: rounds")
                return
            limit = 2.0 ** (PRECISION[t.dtype] - QUANTUM_BITS - 1)
            total = _term_bound(name, tensors, t)
            if total >= limit:
                self.gates.not_exact(f"{name}: sums may pass 2^{PRECISION[t.dtype]}")
                return


def _strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _meets_another(written: torch.Tensor, operands: list[Any]) -> bool:
    """Whether another operand has a part of what is written: what it is when it is read hangs on the kernel."""
    key = storage_key(written)
    beside = [t for t in operands if _strided(t) and t is not written and storage_key(t) == key]
    return any(overlap(written, t) and not same_elements(written, t) for t in beside)


def _units(dtype: torch.dtype, units: float, at: torch.Tensor) -> float:
    """Amplitude in units of ``dtype`` of an operator that is so many units off in its own arithmetic.

    16-bit types round the result of float32.  What is measured on the CPU is not less elsewhere.
    """
    if at.device.type != "cpu":
        units = max(units, DEFAULT_AMPLITUDE)
    if dtype in AMPLITUDE:
        return AMPLITUDE[dtype] + units * UNIT[torch.float32] / UNIT[dtype]
    return units


def _power_of_two(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and abs(math.frexp(factor)[0]) == 0.5


def _small_exponent(exponent: Any) -> bool:
    """Whether a power is a product or a root."""
    return isinstance(exponent, (int, float)) and abs(exponent) <= 4 and float(exponent * 2).is_integer()


def _cannot_hold(source: torch.Tensor, wanted: torch.dtype) -> bool:
    """Whether floats are cast to an integer type that cannot hold all of them: C++ leaves that undefined."""
    if not source.is_floating_point() or wanted.is_floating_point or wanted.is_complex or wanted == torch.bool:
        return False
    info, x = torch.iinfo(wanted), source.detach().double()
    return bool((x.isnan() | (x.trunc() < info.min) | (x.trunc() > info.max)).any())


def _narrows(tensors: list[torch.Tensor], out: torch.Tensor) -> bool:
    return any(UNIT.get(t.dtype, 1.0) < UNIT.get(out.dtype, 0.0) for t in tensors)


def _cast_rounds(source: torch.Tensor, wanted: torch.dtype) -> bool:
    """Whether floats are cast to a narrower type that does not have all of them."""
    if UNIT.get(source.dtype, 1.0) >= UNIT.get(wanted, 0.0):
        return False
    return not bool(torch.isclose(source.to(wanted).to(source.dtype), source, rtol=0, atol=0, equal_nan=True).all())


def _rounds_quotient(name: str, kwargs: dict[str, Any]) -> bool:
    return name in QUOTIENTS and (not name.startswith("div") or kwargs.get("rounding_mode") is not None)


def _inner_product(name: str, args: Any, like: torch.Tensor) -> torch.Tensor | float:
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


def _narrowed_to(func: OpOverload, tensors: list[torch.Tensor]) -> torch.dtype | None:
    """What type promotion converts wider 0-dim operands to, where that rounds.

    On CUDA the conversion is part of the operator (pytorch 185605); on the CPU they stay wide.
    """
    if torch.Tag.pointwise not in func.tags:
        return None
    shaped = [t for t in tensors if t.ndim and t.is_floating_point()]
    single = [t for t in tensors if not t.ndim and t.is_floating_point() and t.is_cuda]
    if not shaped or not single:
        return None
    common = functools.reduce(torch.promote_types, [t.dtype for t in shaped])
    return common if any(UNIT[t.dtype] < UNIT[common] for t in single) else None


def _wide(s: Any) -> bool:
    return isinstance(s, torch.Tensor) and s.dtype in (torch.float64, torch.complex128)


def _absolute(s: Any) -> Any:
    return s.abs() if _wide(s) else s


def _accumulates(args: Any, kwargs: Any) -> bool:
    return bool(kwargs.get("accumulate", args[3] if len(args) > 3 else False))


def _on_grid(t: torch.Tensor) -> bool:
    """Whether all values are finite multiples of the quantum, small enough to be exact."""
    if t.dtype not in PRECISION:
        return t.dtype not in UNIT
    if not t.numel():
        return True
    scaled = t.detach().double() * 2.0**QUANTUM_BITS
    return bool(torch.isfinite(scaled).all() and (scaled == scaled.round()).all())


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
