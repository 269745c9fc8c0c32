"""What the reference run knows of operators: which round, how often, and by how much.

A name in none of these tables is that of an operator of one rounding, by ``DEFAULT_AMPLITUDE``.
"""

from __future__ import annotations

from fxmorph.judge.reference.kernels import VARIANCES, WRITTEN
from fxmorph.judge.reference.resizing import RESIZES
from fxmorph.programs.operators import COMPARISONS, EMPTY, MOVES

#: Discrete functions of one number.
ROUNDINGS = frozenset("floor ceil round trunc sign sgn".split())

#: Operators that move or select data, compare, or are exact in any binary format.
EXACT_OPS = (
    MOVES
    | EMPTY
    | COMPARISONS
    | ROUNDINGS
    | frozenset(
        """abs neg copy_ alias detach where relu relu_ clamp clamp_ clamp_min clamp_max clamp_min_ clamp_max_ maximum
        minimum max min amax amin fmax fmin aminmax scatter_ masked_fill masked_fill_ index_copy_ index_put_
        _index_put_impl_ tril_ triu_ floor_ ceil_ round_ trunc_ isnan isinf isfinite logical_and logical_or
        logical_xor logical_not zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full
        scalar_tensor arange eye fill fill_ zero_ zeros_ sort topk kthvalue median nanmedian mode cummax cummin
        argmax argmin argsort max_pool2d_with_indices max_pool3d_with_indices threshold threshold_backward heaviside
        copysign ldexp frexp nextafter nan_to_num bernoulli _to_copy to set_ resize_ new_tensor
        _local_scalar_dense view_as_real view_as_complex bitwise_and bitwise_or bitwise_xor bitwise_not hardtanh
        relu6 conj_physical _conj_physical native_dropout_backward put put_ nonzero one_hot bucketize searchsorted
        isin value_selecting_reduction_backward masked_select_backward real imag complex""".split()
    )
)

#: Sums: exact in integers while Σ|terms| stays in range; error grows with the number of terms.
SUMS = frozenset(
    """sum nansum mean mm bmm addmm baddbmm addbmm mv addmv dot vdot addr ger convolution convolution_backward cumsum
    index_add index_add_ scatter_add scatter_add_ scatter_reduce index_reduce embedding_dense_backward trace
    index_put index_put_ _index_put_impl_ _unsafe_index_put select_backward slice_backward unfold_backward
    embedding_bag _embedding_bag einsum linear matmul avg_pool2d _adaptive_avg_pool2d upsample_nearest2d_backward
    avg_pool2d_backward _adaptive_avg_pool2d_backward reflection_pad2d_backward replication_pad2d_backward
    reflection_pad1d_backward replication_pad1d_backward reflection_pad3d_backward replication_pad3d_backward
    _adaptive_avg_pool3d _adaptive_avg_pool3d_backward avg_pool3d_backward upsample_nearest1d_backward
    upsample_nearest3d_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d_backward _embedding_bag_per_sample_weights_backward bincount col2im
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward _segment_reduce_backward""".split()
)
#: Of SUMS, those whose result on absolute values is Σ|terms|.
ABSOLUTE = frozenset(
    """sum nansum mean mm bmm mv dot cumsum addmm baddbmm addbmm addmv trace convolution linear matmul
    index_add index_add_ scatter_add scatter_add_ embedding_dense_backward avg_pool2d _adaptive_avg_pool2d""".split()
)

#: Exact in integers while results fit: add, sub, mul (also in place and with scalars).
RING = frozenset(
    "add add_ sub sub_ mul mul_ rsub square addcmul addcmul_ "
    "_foreach_add _foreach_add_ _foreach_mul _foreach_mul_".split()
)

#: Logarithms of sums of exponentials, each of some more terms.
LOGARITHMS_OF_SUMS = "logcumsumexp"

ROUNDED_ONCE = (
    RING | SUMS | frozenset("div div_ true_divide sqrt sqrt_ reciprocal reciprocal_ _foreach_div _foreach_sqrt".split())
)

#: Several roundings inside one kernel.
KERNELS = RESIZES.union(
    """_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data native_layer_norm
    native_layer_norm_backward native_group_norm native_group_norm_backward native_batch_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training native_batch_norm_backward batch_norm_backward
    _batch_norm_with_update cudnn_batch_norm cudnn_batch_norm_backward _cudnn_rnn _cudnn_rnn_backward
    _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell _thnn_fused_gru_cell_backward
    logsumexp var var_mean std std_mean norm linalg_vector_norm
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_attention_math _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_cudnn_attention scaled_dot_product_attention logcumsumexp cumprod prod renorm cdist
    _cdist_forward _cdist_backward _pdist_forward _pdist_backward _trilinear glu_backward segment_reduce
    _weight_norm_interface_backward multi_margin_loss multilabel_margin_loss_forward binary_cross_entropy_backward
    binary_cross_entropy_with_logits _fused_rms_norm _fused_rms_norm_backward rms_norm
    gru_cell lstm_cell nll_loss_forward binary_cross_entropy
    softmax log_softmax _safe_softmax
    affine_grid_generator affine_grid_generator_backward grid_sampler_2d grid_sampler_3d cudnn_grid_sampler
    layer_norm _weight_norm_interface ctc_loss _cudnn_ctc_loss dist pdist mse_loss huber_loss smooth_l1_loss
    remainder fmod
    grid_sampler_2d_backward grid_sampler_3d_backward remainder_ fmod_ avg_pool1d avg_pool3d _ctc_loss linalg_inv_ex
    linalg_cholesky_ex linalg_lu linalg_qr linalg_svd _linalg_svd linalg_ldl_factor_ex geqrf linalg_lstsq
    _linalg_solve_ex
    linalg_lu_factor_ex linalg_lu_solve linalg_solve_triangular triangular_solve cholesky_solve cholesky_inverse
    _linalg_eigh linalg_eig _linalg_eigvals _linalg_det _linalg_slogdet linalg_matrix_exp linalg_householder_product
    ormqr _fft_r2c _fft_c2r _fft_c2c
    """.split()
)

#: Of KERNELS, those that multiply the elements of a tensor.
FACTORS = frozenset({"prod", "cumprod"})
#: Of KERNELS, those whose perturbed lanes run steps of fxmorph's own, each operator of them rounded.
#: In the others the native kernel runs, inputs are perturbed too, and outputs absolutely.
STEPPED = VARIANCES | WRITTEN.keys()
#: Of KERNELS, those that may compute (x - mean) * scale as x * scale - mean * scale: the terms of that round.
SHIFTED = frozenset(
    """native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _batch_norm_with_update cudnn_batch_norm""".split()
)

#: Kernels of the form exp(x - logsumexp(x)) along a dimension.
SOFTMAXES = frozenset({"_softmax", "_safe_softmax", "softmax", "_log_softmax", "log_softmax"})

#: Of those, what may become part of fused attention.
ATTENTION_WEIGHTS = frozenset({"_softmax", "_safe_softmax", "softmax"})

#: Units of roundoff by which an operator is perturbed, where not DEFAULT_AMPLITUDE.  With
#: SPREAD_FACTOR that is at least twice what `bench/conformance.py` shows of eager and of compiled code.
UNITS = {
    "exp": 2.0, "exp2": 2.0, "log": 2.0, "log2": 2.0, "log10": 2.0, "log1p": 2.0, "rsqrt": 2.0, "sin": 4.0, "cos": 4.0,
    "tan": 4.0, "asin": 3.0, "acos": 3.0, "atan": 3.0, "atan2": 4.0, "sinh": 3.0, "cosh": 3.0, "tanh": 3.0,
    "asinh": 4.0, "acosh": 4.0, "atanh": 4.0, "expm1": 4.0, "elu": 3.0, "erf": 8.0, "erfc": 4.0, "erfinv": 4.0,
    "sigmoid": 3.0, "silu": 4.0, "hardswish": 3.0, "softplus": 4.0, "mish": 6.0, "log_sigmoid_forward": 4.0,
    "gelu": 6.0, "pow": 4.0, "celu": 3.0,
    "gelu_backward": 128.0, "silu_backward": 64.0, "sigmoid_backward": 32.0, "tanh_backward": 32.0, "logit": 64.0,
    "lgamma": 2048.0, "digamma": 1.6e5, "polygamma": 1.6e5, "special_zeta": 1.6e5, "special_log_ndtr": 512.0,
    "special_ndtri": 512.0, "special_bessel_j0": 512.0, "special_bessel_j1": 512.0, "special_i0": 64.0,
    "special_i1": 64.0,
    # By recurrence; measured: 76.
    **dict.fromkeys(("special_hermite_polynomial_h", "special_hermite_polynomial_he"), 256.0),
    **{f"special_shifted_chebyshev_polynomial_{kind}": 256.0 for kind in "tuvw"},
}  # fmt: skip
OPAQUE_UNITS, NARROW_UNITS = 128.0, 8.0
#: Units of roundoff of 1 by which code may be off, however small the result: it computes exp(x) - 1,
#: log((1+x)/(1-x))/2, 2/(1 + exp(-2x)) - 1, 1 + erf(x), a polynomial, sin(pi x)/(pi x).  All stay inside torch's
#: default tolerances.
ABSOLUTE_UNITS = dict.fromkeys(("expm1", "special_expm1", "elu", "celu", "atanh", "tanh"), 2.0) | {
    "erf": 8.0, "gelu": 4.0, "logaddexp": 1.0, "logaddexp2": 2.0, "sinc": 2.0, "special_sinc": 2.0,
}  # fmt: skip
#: How far torch's own kernels are from the function, in float64 too: their polynomials have few terms, and compiled
#: code of a GPU calls another library.  Measured against 30 digits on [-30, 30] (Airy: [-15, 10]).
COARSE_KERNELS = {
    "special_bessel_j0": 4e-7, "special_bessel_j1": 4e-7, "special_bessel_y0": 1e-6, "special_bessel_y1": 1e-6,
    "special_airy_ai": 3e-6,
}  # fmt: skip
#: Of ABSOLUTE_UNITS, those with a factor of their own.
ALPHAS = frozenset({"elu", "celu"})
#: Factories that compute what they return, in the default dtype where none is given, and units of roundoff by which
#: they are off: of the largest value (a step is rounded, and taken many times; cosines of it are added up).
FACTORIES = {
    "linspace": 2.0, "bartlett_window": 2.0, "hann_window": 4.0, "hamming_window": 4.0, "blackman_window": 4.0,
    "kaiser_window": 64.0,
}  # fmt: skip
#: The same of powers: of each value and its logarithm.
POWERS, POWERS_UNITS = "logspace", 8.0
#: Gradients that have zeros or vanish, by a difference of what does not (``sigmoid(x) - 1``), and units of the incoming
#: gradient by which they are off there.
CROSSING = frozenset("gelu_backward silu_backward mish_backward tanh_backward soft_margin_loss_backward".split())
CROSSING_UNITS = 8.0
#: (operator, factors whose product is rounded inside it).
INNER_PRODUCTS = {
    "addcmul": (1, 2), "addcmul_": (1, 2), "addcdiv": (1, 2), "addcdiv_": (1, 2), "linalg_cross": (0, 1),
    "_foreach_addcmul": (1, 2), "_foreach_addcmul_": (1, 2), "lerp": (0, 1), "lerp_": (0, 1),
}  # fmt: skip

#: Quotients of two numbers that vanish together, of which a GPU may flush the one to zero.
VANISHING_QUOTIENTS = frozenset({"sinc", "special_sinc", "sgn_complex"})
#: Products of a number and a function of it that vanishes, which a GPU may flush to zero before it multiplies.
VANISHING_GATES = frozenset({"silu", "mish", "gelu"})
#: Distances by a product of matrices, and units of roundoff of what cancels there, for each root of the terms.
DISTANCES, DISTANCE_UNITS = "_euclidean_dist", 2.0

#: Operators that may cast and do nothing else.  Inductor's own conversions are perturbed, as what it computes between
#: them is; not those to 8 bits, where that would be half the value.
CASTS, CONVERSION = frozenset({"_to_copy", "copy_", "copy"}), "convert_element_type"
#: What compiled code computes where it is used, beside what torch calls pointwise.
COMPUTED_ANEW = (MOVES - frozenset("scatter index_put _unsafe_index_put masked_select".split())) | CASTS | {CONVERSION}
INDEX_PUTS = frozenset("index_put index_put_ _index_put_impl_ _unsafe_index_put".split())

_TOLD = EXACT_OPS | SUMS | KERNELS | ROUNDED_ONCE | UNITS.keys() | INNER_PRODUCTS.keys()


def functional_name(name: str) -> str:
    """The name under which these tables tell of an operator: its own, or that of what it does in place."""
    base = name.removesuffix("_")
    return base if name not in _TOLD and base in _TOLD else name
