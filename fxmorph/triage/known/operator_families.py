"""Operators that one defect is likely to show in: what shares a lowering, a decomposition or a kernel."""

from __future__ import annotations

from collections.abc import Iterable

_FAMILIES = (
    "matmul mm bmm addmm baddbmm addbmm linear einsum addmv mv dot tensordot outer inner scaled_mm int_mm",
    "min max amin amax argmin argmax minimum maximum fmin fmax aminmax cummax cummin clamp clamp_min clamp_max",
    "add sub mul neg abs div",
    "sum mean nansum nanmean prod", "std var std_mean var_mean welford_reduction", "cumsum cumprod logcumsumexp",
    "getitem index select slice narrow index_select gather take take_along_dim embedding",
    "setitem index_put index_add index_copy index_fill index_reduce put scatter scatter_add scatter_reduce "
    "slice_scatter select_scatter diagonal_scatter masked_fill masked_scatter copy fill zero as_strided_scatter",
    "empty zeros ones full empty_like zeros_like ones_like full_like empty_strided scalar_tensor tensor",
    "rand randn randint bernoulli dropout randperm normal uniform rrelu exponential multinomial",
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "fractional_max_pool2d fractional_max_pool3d max_unpool1d max_unpool2d max_unpool3d",
    "scaled_dot_product_attention softmax flex_attention", "log_softmax softmax logsumexp gumbel_softmax",
    "view transpose permute squeeze unsqueeze expand as_strided unfold diagonal movedim", "flip roll rot90",
    "cat stack split chunk unbind split_with_sizes hstack vstack dstack", "div floor_divide remainder",
    "batch_norm layer_norm group_norm rms_norm normalize local_response_norm",
    "eq ne lt le gt ge isclose equal sign signbit neg", "bitwise_left_shift bitwise_right_shift",
    "bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or logical_not",
    "cross_entropy nll_loss log_softmax binary_cross_entropy binary_cross_entropy_with_logits kl_div",
    "mse_loss l1_loss smooth_l1_loss huber_loss", "margin_ranking_loss hinge_embedding_loss cosine_embedding_loss "
    "multi_margin_loss multilabel_margin_loss triplet_margin_loss", "searchsorted bucketize", "sort argsort topk",
    "asin acos atan asinh acosh atanh sinh cosh tan atan2", "i0 i1 bessel_j0 bessel_y0 bessel_y1 special_i0 special_i1",
    "conv conv_transpose", "set resize detach requires_grad data", "norm vector_norm linalg_vector_norm dist cdist",
    "function autograd_function_apply", "view_as_real view_as_complex complex conj real imag",
)  # fmt: skip
_OF: dict[str, frozenset[int]] = {}
for _number, _names in enumerate(_FAMILIES):
    for _name in _names.split():
        _OF[_name] = _OF.get(_name, frozenset()) | {_number}


def families(operators: Iterable[str]) -> frozenset[int]:
    """Numbers of the families that these operators, in plain form, are of."""
    return frozenset().union(*(_OF.get(name, frozenset()) for name in operators))


def akin(operators: Iterable[str], others: frozenset[str]) -> frozenset[str]:
    """Those of ``operators`` that have one of their family among ``others``."""
    there = families(others)
    return frozenset(name for name in operators if _OF.get(name, frozenset()) & there)
