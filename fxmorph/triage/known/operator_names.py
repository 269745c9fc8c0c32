"""Operators under one name each, whoever calls them: ``add_``, ``torch.add`` and ``aten.add.Tensor`` are ``add``."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Other names of the same, in plain form.
_SAME = {
    "_softmax": "softmax", "_log_softmax": "log_softmax", "_safe_softmax": "softmax",
    "_to_copy": "to", "convert_element_type": "to", "type": "to",
    "type_as": "to", "float": "to", "double": "to", "half": "to", "bfloat16": "to", "int": "to", "long": "to",
    "bool": "to", "constant_pad_nd": "pad", "reflection_pad1d": "pad", "reflection_pad2d": "pad", "zeropad2d": "pad",
    "reflection_pad3d": "pad", "replication_pad1d": "pad", "replication_pad2d": "pad", "replication_pad3d": "pad",
    "truediv": "div", "true_divide": "div", "divide": "div", "floordiv": "floor_divide", "multiply": "mul",
    "subtract": "sub", "rsub": "sub", "negative": "neg", "absolute": "abs", "clip": "clamp", "mod": "remainder",
    "fmod": "remainder", "concat": "cat", "concatenate": "cat", "swapaxes": "transpose", "swapdims": "transpose",
    "t": "transpose", "mt": "transpose", "numpy_t": "transpose", "moveaxis": "movedim", "matrix_h": "transpose",
    "adjoint": "transpose", "reshape": "view", "_unsafe_view": "view", "view_as": "view", "reshape_as": "view",
    "flatten": "view", "expand_as": "expand", "broadcast_to": "expand", "get_item": "getitem", "set_item": "setitem",
    "convolution": "conv", "conv1d": "conv", "conv2d": "conv", "conv3d": "conv", "_convolution": "conv",
    "mkldnn_convolution": "conv", "conv_transpose1d": "conv_transpose", "conv_transpose2d": "conv_transpose",
    "conv_transpose3d": "conv_transpose", "native_batch_norm": "batch_norm", "_native_batch_norm_legit": "batch_norm",
    "_batch_norm_with_update": "batch_norm", "native_layer_norm": "layer_norm", "native_group_norm": "group_norm",
    "native_dropout": "dropout", "_fused_dropout": "dropout", "instance_norm": "batch_norm",
    "_fused_rms_norm": "rms_norm", "embedding_dense": "embedding", "_embedding_bag": "embedding_bag",
    "nll_loss_forward": "nll_loss", "nll_loss2d_forward": "nll_loss", "nll_loss_nd": "nll_loss",
    "scaled_dot_product_flash_attention": "scaled_dot_product_attention",
    "scaled_dot_product_efficient_attention": "scaled_dot_product_attention", "sdpa": "scaled_dot_product_attention",
    "interpolate": "upsample", "empty_permuted": "empty_strided", "new_empty": "empty", "new_full": "full",
    "new_zeros": "zeros", "new_ones": "ones", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "arctan2": "atan2", "special_expit": "sigmoid", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "not_equal": "ne", "row_stack": "vstack", "square": "pow", "randn_like": "randn",
    "rand_like": "rand", "randint_like": "randint", "_unsafe_index": "index", "_unsafe_index_put": "index_put",
    "_index_put_impl": "index_put", "masked_scatter": "masked_scatter", "__and__": "bitwise_and", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "scatter_reduce_two": "scatter_reduce", "linear_relu": "linear",
}  # fmt: skip
_OVERLOAD = re.compile(r"^(?:torch\.)?(?:ops\.)?(aten|prims|inductor_prims)\.(\w+)(?:\.\w+)?$")
#: Endings that say how an operator is computed, not which it is.
_ENDINGS = re.compile(r"_(?:backward|backward_data|with_indices|with_noise|functional|copy|forward|bicubic\d?d?|vec)$")
_UPSAMPLE = re.compile(r"^_?upsample_\w+$")
_INPLACE = re.compile(r"^i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|matmul)$")


def plain_name(name: str) -> str:
    """One name for all ways to call an operator, and for a family that has one lowering or backward."""
    found = _OVERLOAD.match(name)
    name = (found[2] if found else name.rpartition(".")[2]).lower()
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
    name = name.rstrip("_")
    inplace = _INPLACE.match(name)
    name = inplace[1] if inplace else name
    before = ""
    while before != name:
        before, name = name, _ENDINGS.sub("", _SAME.get(name, name))
    if _UPSAMPLE.match(name):
        name = "upsample"
    return name.lstrip("_")


def plain_names(names: Iterable[str]) -> frozenset[str]:
    """Those of all; nothing for ""."""
    return frozenset(filter(None, map(plain_name, names)))
