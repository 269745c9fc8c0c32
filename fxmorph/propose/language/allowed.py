"""What bodies of proposals may name: functions, methods, attributes, constants.

Only operations that compute tensors from tensors, or write to one in place.  Nothing that reads or
writes files, compiles, loads, reaches storages or Python objects, draws random numbers, or hands a
tensor's values to Python.
"""

from __future__ import annotations

_POINTWISE = """
abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
clamp_min clip conj conj_physical copysign cos cosh deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fix
float_power floor floor_divide fmax fmin fmod frac gcd ge greater greater_equal gt heaviside hypot i0 igamma igammac
isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp le lerp less less_equal lgamma log log10 log1p log2
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum mul multiply
mvlgamma nan_to_num ne neg negative nextafter not_equal polygamma positive pow rad2deg reciprocal relu remainder
resolve_conj resolve_neg round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh softmax log_softmax sqrt square sub
subtract tan tanh threshold true_divide trunc where xlogy
"""
_REDUCTIONS = """
all amax amin aminmax any argmax argmin argsort cov corrcoef count_nonzero cummax cummin cumprod cumsum diff kthvalue
logcumsumexp logsumexp max mean median min mode msort nanmean nanmedian nanquantile nansum norm prod quantile renorm
sort std std_mean sum topk trace trapezoid var var_mean dist cumulative_trapezoid histc
"""
_SHAPES = """
adjoint atleast_1d atleast_2d atleast_3d broadcast_to chunk clone contiguous detach diag diag_embed diagonal
diagonal_scatter dsplit expand_as flatten flip fliplr flipud gather hsplit index_add index_copy index_fill index_put
index_select masked_scatter matrix_exp moveaxis movedim narrow permute ravel repeat_interleave reshape roll rot90
scatter scatter_add scatter_reduce select select_scatter slice_scatter split split_with_sizes squeeze swapaxes
swapdims t take take_along_dim tensor_split tile transpose tril triu unbind unflatten unsafe_chunk unsafe_split
unsqueeze view_as_complex view_as_real vsplit as_strided as_strided_scatter bucketize searchsorted
"""
_PRODUCTS = """
addbmm addmm addmv addr baddbmm bmm cdist chain_matmul cross dot einsum ger inner kron matmul mm mv outer tensordot
vdot
"""
_TORCH_ONLY = """
arange blackman_window block_diag broadcast_tensors bincount cartesian_prod cat column_stack combinations complex
concat concatenate cosine_similarity dstack
diagflat empty_like eye full full_like hstack linspace logspace meshgrid ones
ones_like pairwise_distance polar frexp empty empty_strided row_stack scalar_tensor stack tensor tril_indices
triu_indices vander vstack zeros zeros_like finfo iinfo addcmul addcdiv batch_norm layer_norm group_norm instance_norm
gradient index_reduce matrix_power nonzero_static logdet
native_layer_norm native_group_norm native_batch_norm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d pixel_shuffle
pixel_unshuffle channel_shuffle constant_pad_nd embedding grid_sampler affine_grid_generator celu selu rrelu prelu
isin result_type promote_types can_cast is_floating_point is_complex numel broadcast_shapes hardshrink hann_window
hamming_window bartlett_window bilinear cosine_embedding_loss ctc_loss kl_div margin_ranking_loss triplet_margin_loss
poisson_nll_loss hinge_embedding_loss binary_cross_entropy_with_logits nuclear_norm frobenius_norm rnn_tanh_cell
rnn_relu_cell gru_cell lstm_cell softmax log_softmax dequantize fake_quantize_per_tensor_affine
fake_quantize_per_channel_affine quantize_per_tensor real imag
"""
_METHODS_ONLY = """
bfloat16 bool byte char double expand fill_ float half int long new_empty new_full new_ones new_tensor new_zeros
repeat requires_grad_ reshape_as short size dim ndimension numel nelement stride storage_offset is_contiguous
is_floating_point is_complex element_size sum_to_size to to_dense type_as unfold view view_as put zero_ copy_ cfloat
cdouble squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_ masked_fill_ masked_scatter_ index_put_
index_add_ index_copy_ index_fill_ scatter_ scatter_add_ scatter_reduce_ put_ tril_ triu_ fill_diagonal_ detach_
logical_and_ logical_or_ logical_not_ logical_xor_ floor_divide_ true_divide_ xlogy_ nan_to_num_ clamp_ clamp_max_
clamp_min_ clip_ renorm_ cumsum_ cumprod_ index_reduce index_reduce_ addmm_ addmv_ addr_ addbmm_ baddbmm_ type
resolve_conj mH conj_physical_
"""
_FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d affine_grid avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
binary_cross_entropy_with_logits celu conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
cosine_embedding_loss cosine_similarity cross_entropy elu elu_ embedding embedding_bag fold gaussian_nll_loss gelu glu
grid_sample group_norm hardshrink hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss huber_loss
instance_norm interpolate kl_div l1_loss layer_norm leaky_relu leaky_relu_ linear local_response_norm log_softmax
logsigmoid lp_pool1d lp_pool2d margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d
max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle
channel_shuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm scaled_dot_product_attention selu selu_ sigmoid silu
smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold threshold_
triplet_margin_loss triplet_margin_with_distance_loss unfold upsample dropout
"""
_SPECIAL = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u hermite_polynomial_h
hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p
log_ndtr log_softmax logit logsumexp multigammaln ndtr ndtri polygamma psi round sinc softmax xlog1py xlogy zeta
"""
_LINALG = """
cross det diagonal inv matmul matrix_norm matrix_power multi_dot norm solve solve_triangular vecdot vector_norm cholesky
vander
"""
_FFT = "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift"


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split() if not word.startswith("_"))


_COMMON = _words(_POINTWISE, _REDUCTIONS, _SHAPES, _PRODUCTS)
#: Dotted path of a module of torch -> the functions of it that may be called.
FUNCTIONS: dict[str, frozenset[str]] = {
    "torch": _COMMON - {"contiguous", "expand_as"} | _words(_TORCH_ONLY),
    "torch.nn.functional": _words(_FUNCTIONAL),
    "torch.special": _words(_SPECIAL),
    "torch.linalg": _words(_LINALG),
    "torch.fft": _words(_FFT),
}
#: Methods of tensors; each pointwise one also in place.
METHODS = _COMMON | _words(_METHODS_ONLY) | frozenset(f"{name}_" for name in _words(_POINTWISE))
#: Attributes of tensors, of results with several parts, and of ``torch.finfo`` and ``torch.iinfo``.
TENSOR_ATTRIBUTES = frozenset("shape dtype device ndim T mT H mH real imag".split())
RESULT_ATTRIBUTES = frozenset("values indices mean std var".split())
LIMIT_ATTRIBUTES = frozenset("min max eps tiny smallest_normal bits".split())
#: Constants of torch.
CONSTANTS = frozenset(
    "float32 float64 float16 bfloat16 float double half int64 int32 int16 int8 uint8 long int short bool complex64 "
    "complex128 cfloat pi e inf nan contiguous_format channels_last channels_last_3d preserve_format".split()
)
BUILTINS = frozenset("len min max int float bool abs range enumerate zip sum tuple list round complex slice".split())
#: Keyword arguments that no call may have.
REFUSED_KEYWORDS = frozenset("generator pin_memory names layout async_op".split())
#: What ``where`` expressions may name besides sizes, scalars and arguments, and read of an argument.
CONDITION_NAMES = frozenset(
    "abs all any len max min sum range round zip enumerate sorted isinstance type int float bool tuple list set FLOATS "
    "INTS".split()
)
CONDITION_ATTRIBUTES = frozenset(
    "shape stride ndim dtype numel floating contiguous dense offset requires_grad device".split()
)
