"""What stands where a pattern takes anything: values for the leaves of pattern expressions.

A leaf is filled by what is known of it: the argument's type and name in the operator's schema, the
name that the pattern gives it, the rank that the operator above it wants, and the tensors beside
it in the same call.  All sizes but the batch are equal, so that products of matrices fit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import torch

#: Channels, rows and columns; the batch is 2.
SIZE = 8
SHAPES: dict[int, tuple[int, ...]] = {
    0: (),
    1: (SIZE,),
    2: (SIZE, SIZE),
    3: (2, SIZE, SIZE),
    4: (2, SIZE, SIZE, SIZE),
    5: (2, SIZE, 4, 4, 4),
}
#: Scalars by the name of the argument, or that the pattern gives it.
SCALARS: dict[str, Any] = {
    "stride": [1, 1],
    "padding": [0, 0],
    "dilation": [1, 1],
    "output_padding": [0, 0],
    "groups": 1,
    "transposed": False,
    "is_transposed": False,
    "attr": "none",
    "scalars": [],
    "algorithm": "",
    "alpha": 1,
    "beta": 1,
    "keepdim": True,
    "negative_slope": 0.01,
    "min_value": -1.0,
    "max_value": 1.0,
    "to_float": torch.float32,
    "to_bf16": torch.bfloat16,
    "to_fp16": torch.float16,
    "scale": 0.1,
    "zero_point": 3,
    "quant_min": 0,
    "quant_max": 255,
    "x_scale": 0.1,
    "x_zp": 3,
    "x_quant_min": 0,
    "x_quant_max": 255,
    "x_dq_dtype": torch.uint8,
    "accum_scale": 0.2,
    "accum_zp": 2,
    "accum_dq_dtype": torch.uint8,
    "accum_zero_point": 2,
    "accum_after_dequant_dtype": torch.float32,
    "x2_scale": 0.2,
    "x2_zp": 2,
    "w_axis": 0,
    "w_quant_min": -128,
    "w_quant_max": 127,
    "w_dtype": torch.int8,
    "o_inv_scale": 0.1,
    "o_zp": 3,
    "o_qmin": 0,
    "o_qmax": 255,
    "o_dtype": torch.uint8,
    "output_scale": 1.0,
    "output_zero_point": 0,
    "postop_name": "none",
    "postop_args": [],
    "postop_algorithm": "",
    "post_op_name": "none",
    "post_op_args": [],
    "post_op_algorithm": "",
    "binary_op_name": "sum",
    "binary_attr": "sum",
    "unary_op_name": "none",
    "unary_op_args": [],
    "unary_op_algorithm": "",
    "permute_axes": [1, 0],
    "autocast_act_dtype": torch.bfloat16,
    "autocast_wgt_dtype": torch.bfloat16,
    "autocast_output_quant_dtype": torch.bfloat16,
    "convert_dtype_after_inplace_add": torch.bfloat16,
    "kernel_size": [2, 2],
    "ceil_mode": False,
    "window_size": [2, 2],
    "memory_format": torch.contiguous_format,
    "dtype_fp16": torch.float16,
    "dtype_fp32": torch.float32,
}
#: Tensors by name: dtype (None: the graph's own), how they are filled.
TENSORS: dict[str, tuple[torch.dtype | None, str]] = {
    "x": (torch.uint8, "normal"),
    "qx": (torch.uint8, "normal"),
    "accum": (torch.uint8, "normal"),
    "q_weight": (torch.int8, "normal"),
    "qw": (torch.int8, "normal"),
    "packed_weight": (torch.int8, "normal"),
    "w_scale": (torch.float32, "positive"),
    "w_zp": (torch.int64, "=0"),
    "w_zero_point": (torch.int64, "=0"),
    "scales": (torch.float32, "positive"),
    "zero_points": (torch.int64, "=0"),
    "x_scale": (torch.float32, "positive"),
    "x_zp": (torch.int64, "=1"),
    "scale": (torch.float32, "positive"),
    "zero_point": (torch.int64, "=1"),
    "a": (torch.int8, "normal"),
}
#: Names of arguments that are parameters of a frozen model.
PARAMETERS = frozenset(
    "weight W w B mat2 bias q_weight qw packed_weight w_scale w_zp w_zero_point scales zero_points b weight0 weight1 "
    "weight2 weight3".split()
)
_WEIGHTS = frozenset("weight W w q_weight qw packed_weight".split())
_VECTORS = frozenset("bias B b w_scale w_zp w_zero_point scales zero_points".split())
#: Rank that operators want of their tensor arguments.
RANKS = {
    "mm": 2,
    "addmm": 2,
    "_int_mm": 2,
    "bmm": 3,
    "baddbmm": 3,
    "convolution": 4,
    "_convolution_pointwise": 4,
    "_convolution_transpose_pointwise": 4,
    "qconv_pointwise": 4,
    "qconv2d_pointwise": 4,
    "max_pool2d_with_indices": 4,
    "_low_memory_max_pool_with_offsets": 4,
    "qlinear_pointwise": 2,
}
ARITHMETIC = frozenset("add sub mul div".split())
#: Operators whose result has the shape that an argument of theirs gives.
RESHAPING = frozenset("view reshape _unsafe_view expand".split())
#: Operators whose result has the shape of their tensor arguments.
SAME_SHAPE = frozenset(
    "convert_element_type dequantize_per_tensor dequantize_per_channel quantize_per_tensor clone relu "
    "add sub mul div neg exp erf tanh sigmoid clamp_min clamp_max where gt permute".split()
)


@dataclass(frozen=True)
class Place:
    """Where a leaf stands.

    ``op`` is the operator's name without namespace and overload, ``argument`` and ``type`` those of its
    schema, ``name`` what the pattern calls it, ``rank`` what is wanted of it, ``beside`` the values of
    the tensors already there in the same call.
    """

    op: str
    argument: str
    type: str
    name: str
    rank: int | None
    beside: tuple[torch.Tensor, ...]

    @property
    def is_tensor(self) -> bool:
        return self.type in ("Tensor", "Optional[Tensor]")

    @property
    def is_weight(self) -> bool:
        return self.argument in _WEIGHTS or self.name in _WEIGHTS

    @property
    def is_vector(self) -> bool:
        named = self.argument in _VECTORS or (self.name in _VECTORS and self.argument != "mat2")
        return named or (self.op, self.argument) == ("addmm", "self")

    @property
    def is_parameter(self) -> bool:
        return self.argument in PARAMETERS or self.name in PARAMETERS or self.is_vector


@dataclass(frozen=True)
class Choices:
    """What one attempt at a graph has decided beforehand.

    ``integer`` is the dtype of quantised activations, ``optional`` whether optional tensors are there,
    ``per_channel`` whether the other operand of arithmetic is a constant with one value a channel,
    ``computed`` whether it is a result and no input (what is written in place must be),
    ``readers`` how many nodes read the pattern's result (0: it is the graph's result).
    """

    dtype: torch.dtype
    rank: int
    integer: torch.dtype
    optional: bool
    per_channel: bool = False
    computed: bool = False
    readers: int = 0


def choices(rng: random.Random, attempt: int, frozen: bool) -> Choices:
    """Common choices first, then random ones; with ``frozen``, half of them scale by constants per channel."""
    if frozen:
        return replace(_choices(rng, attempt // 2), per_channel=attempt % 2 == 1)
    return _choices(rng, attempt)


def _choices(rng: random.Random, attempt: int) -> Choices:
    common = [
        Choices(torch.float32, 2, torch.uint8, True),
        Choices(torch.bfloat16, 2, torch.uint8, True),
        Choices(torch.float32, 4, torch.uint8, True),
        Choices(torch.bfloat16, 4, torch.uint8, True),
        Choices(torch.float32, 3, torch.uint8, True),
        Choices(torch.bfloat16, 3, torch.uint8, True),
        Choices(torch.float16, 2, torch.uint8, False),
        Choices(torch.float16, 4, torch.uint8, True),
        Choices(torch.float32, 3, torch.uint8, False),
    ]
    if attempt < 2 * len(common):
        return replace(common[attempt % len(common)], computed=attempt >= len(common), readers=2 * (attempt % 2))
    dtype = rng.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
    rank, integer = rng.choice((1, 2, 3, 4, 5)), rng.choice((torch.uint8, torch.int8))
    return Choices(dtype, rank, integer, rng.random() < 0.5, computed=rng.random() < 0.3, readers=rng.choice((0, 2)))


def tensor_shape(place: Place, chosen: Choices, rng: random.Random) -> tuple[int, ...]:
    """The shape of a tensor leaf."""
    if place.is_vector:
        return SHAPES[1]
    if place.name in ("x_scale", "x_zp") or place.argument in ("scale", "zero_point", "x_scale", "x_zp"):
        return ()
    rank = place.rank if place.rank is not None else chosen.rank
    if place.is_weight and (place.rank or 0) >= 4:
        return (SIZE, SIZE, *[rng.choice((1, 1, 3))] * (rank - 2))
    if place.is_weight:
        return SHAPES[2]
    if place.beside and place.op in SAME_SHAPE:
        shape = tuple(place.beside[0].shape)
        if chosen.per_channel and place.op in ARITHMETIC:
            return (SIZE, *[1] * (len(shape) - 2)) if len(shape) >= 4 else shape[-1:]
        return shape
    return SHAPES[rank]


def scalar(place: Place, chosen: Choices, rng: random.Random) -> Any:
    """A value for a leaf that is no tensor; raises ``KeyError`` for a type that has none."""
    if place.op.startswith("dequantize") and place.beside and not place.beside[0].is_floating_point():
        info = torch.iinfo(place.beside[0].dtype)
        known = {"dtype": place.beside[0].dtype, "quant_min": info.min, "quant_max": info.max}
        if place.argument in known:
            return known[place.argument]
    for name in (place.name, place.argument):
        if name in SCALARS:
            value = SCALARS[name]
            if place.rank == 5 and value in ([1, 1], [0, 0]):
                return [*value, value[0]]
            return list(value) if isinstance(value, list) else value
    if "dtype" in place.name or "dtype" in place.argument or "ScalarType" in place.type:
        return rng.choice((chosen.dtype, chosen.dtype, chosen.dtype, torch.float32, torch.bfloat16))
    if place.argument == "index":
        return rng.choice((0, 0, 1))
    if place.argument == "dim" and place.beside and place.type in ("int", "SymInt"):
        return rng.randrange(-place.beside[0].ndim, max(1, place.beside[0].ndim))
    if place.type.startswith("List") and place.beside:
        return sizes(place, place.beside[0], rng)
    if place.argument == "size":
        return list(SHAPES[chosen.rank])
    if place.type in ("int", "SymInt"):
        return rng.choice((0, 1, -1, 2))
    if place.type == "bool":
        return rng.random() < 0.5
    if place.type in ("float", "number"):
        return rng.choice((0.5, 2.0, 1, 3.0))
    if place.type == "str":
        return "none"
    if "Device" in place.type:
        return torch.device("cpu")
    if place.type.startswith("Optional"):
        return None
    raise KeyError(place.type)


def sizes(place: Place, beside: torch.Tensor, rng: random.Random) -> list[int]:
    """A list of integers: a shape, dimensions or axes that suit the tensor beside it."""
    shape = [int(s) for s in beside.shape]
    last = shape[-1] if shape else 1
    if place.op in RESHAPING - {"expand"}:
        rows = beside.numel() // max(1, last)
        if place.rank == 3 or (place.rank is None and len(shape) == 2):
            return [2, rows // 2, last] if rows % 2 == 0 else [1, rows, last]
        return [rows, last]
    if place.op == "expand":
        return [2, *shape] if len(shape) == 2 and place.rank == 3 else shape
    if place.op == "permute":
        return [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    if place.op in ("split_with_sizes",):
        half = shape[0] // 2
        return [half, shape[0] - half]
    if place.op in ("amax", "amin", "sum", "mean"):
        return [rng.choice((-1, len(shape) - 1))]
    return rng.choice((shape, [0], [-1], [1]))
