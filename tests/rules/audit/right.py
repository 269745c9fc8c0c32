"""Right rules: near twins of the wrong ones."""

import math

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
ANY = FLOATS + INTS + ("bool",)
B, E, I = Level.BIT_EXACT, Level.EXACT_REAL, Level.INDEX_EXACT
Z, U = Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION
KEPT = ("dtype", "mutation")
FIN = ("finite",)
SAME = ["x.shape == y.shape"]
IX = ("float32", "float64", "int64")
TAKES = ["x.dtype in ('float32', 'float64')", "i.dtype == 'int64'"]
NUM = ["type(c) in (int, float)"]


# kind 1


@rule(args={"x": "..."}, dtypes=("int16",), claim=B, preserves=KEPT)
class right_int16_square_in_int32:
    """Squares in int32 before the conversion."""

    def before(x):
        return x.to(torch.float32) * x.to(torch.float32)

    def after(x):
        return (x.to(torch.int32) * x.to(torch.int32)).to(torch.float32)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("uint8",), claim=B, preserves=KEPT)
class right_uint8_absolute_difference_in_int16:
    """Takes the difference of pixels in int16."""

    def before(x, y):
        return (x.to(torch.float32) - y.to(torch.float32)).abs()

    def after(x, y):
        return (x.to(torch.int16) - y.to(torch.int16)).abs().to(torch.float32)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("uint8",), claim=B, preserves=KEPT)
class right_uint8_average_in_int16:
    """Averages two images in int16."""

    def before(x, y):
        return torch.floor((x.to(torch.float32) + y.to(torch.float32)) / 2)

    def after(x, y):
        return ((x.to(torch.int16) + y.to(torch.int16)) >> 1).to(torch.float32)


@rule(args={"x": "..."}, dtypes=("int8",), claim=B, preserves=KEPT)
class right_int8_neg_in_int16:
    """Negates in int16."""

    def before(x):
        return -(x.to(torch.int32))

    def after(x):
        return (0 - x.to(torch.int16)).to(torch.int32)


@rule(args={"x": "..."}, dtypes=INTS, claim=B, preserves=KEPT)
class right_remainder_as_and:
    """Takes the remainder by eight as the lowest bits."""

    def before(x):
        return torch.remainder(x, 8)

    def after(x):
        return x & 7


@rule(args={"x": "..."}, dtypes=INTS, claim=B, preserves=KEPT)
class right_floor_division_by_shift:
    """Floors a quotient by four with a shift."""

    def before(x):
        return torch.div(x, 4, rounding_mode="floor")

    def after(x):
        return x >> 2


@rule(args={"x": "..."}, dtypes=("uint8",), claim=B, preserves=KEPT)
class right_zero_point_in_int16:
    """Subtracts the zero point in int16."""

    def before(x):
        return x.to(torch.float32) - 128

    def after(x):
        return (x.to(torch.int16) - 128).to(torch.float32)


@rule(args={"x": "... n", "y": "... n"}, where=SAME, dtypes=("int8",), claim=B, preserves=KEPT)
class right_int8_dot_in_int16:
    """Multiplies in int16, which holds the products of bytes."""

    def before(x, y):
        return (x.to(torch.int32) * y.to(torch.int32)).sum(-1)

    def after(x, y):
        return (x.to(torch.int16) * y.to(torch.int16)).to(torch.int64).sum(-1)


@rule(args={"x": "..."}, dtypes=WIDE, assumes=("no_nan",), claim=U, preserves=KEPT)
class right_clamp_before_uint8_cast:
    """Goes through int32 after the clamp."""

    def before(x):
        return x.clamp(0, 255).to(torch.uint8)

    def after(x):
        return x.clamp(0, 255).to(torch.int32).to(torch.uint8)


@rule(args={"x": "..."}, site="value", dtypes=("int8", "uint8"), claim=B, preserves=KEPT)
class right_byte_trip_through_half:
    """Converts a byte to float16 and back."""

    def after(x):
        return x.to(torch.float16).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=INTS, claim=B, preserves=KEPT)
class right_add_and_subtract:
    """Cancels an addition of integers, wrap or not."""

    def before(x, y):
        return x + y - y

    def after(x, y):
        return x.clone()


@rule(args={"x": "..."}, dtypes=INTS, claim=B, preserves=KEPT)
class right_product_by_shift:
    """Multiplies by sixteen by a shift; both wrap."""

    def before(x):
        return x * 16

    def after(x):
        return x << 4


# kind 2


@rule(
    args={"x": "..."},
    where=["type(lo) in (int, float)", "type(hi) in (int, float)"],
    scalars={"lo": None, "hi": None},
    dtypes=WIDE,
    claim=Z,
    preserves=KEPT,
)
class right_clamp_lower_first:
    """Clamps below, then above, in whatever order the bounds are."""

    def before(x, lo, hi):
        return torch.clamp(x, lo, hi)

    def after(x, lo, hi):
        return x.clamp(min=lo).clamp(max=hi)


@rule(
    args={"x": "..."},
    where=[*NUM, "type(v) in (int, float)"],
    scalars={"c": None, "v": None},
    dtypes=WIDE,
    claim=B,
    preserves=KEPT,
)
class right_threshold_as_where:
    """Takes threshold by a select at x <= c."""

    def before(x, c, v):
        return F.threshold(x, c, v)

    def after(x, c, v):
        return torch.where(x <= c, torch.full_like(x, v), x)


@rule(
    args={"x": "..."},
    where=["type(c) is float", "c > 0"],
    scalars={"c": None},
    dtypes=WIDE,
    assumes=FIN,
    claim=U,
    preserves=KEPT,
)
class right_hardshrink_closed_interval:
    """Takes hardshrink by a select with the bounds included."""

    def before(x, c):
        return F.hardshrink(x, c)

    def after(x, c):
        return torch.where((x >= -c) & (x <= c), torch.zeros_like(x), x)


@rule(args={"x": "..."}, where=["type(s) in (int, float)"], scalars={"s": None}, dtypes=WIDE, claim=B, preserves=KEPT)
class right_leaky_relu_as_where:
    """Takes leaky relu by a select, whatever the slope."""

    def before(x, s):
        return F.leaky_relu(x, s)

    def after(x, s):
        return torch.where(x > 0, x, x * s)


@rule(
    args={"x": "..."},
    where=["type(s) is float", "1e-3 < s < 1"],
    scalars={"s": None},
    dtypes=WIDE,
    claim=Z,
    preserves=KEPT,
)
class right_leaky_relu_as_maximum:
    """Takes leaky relu as a maximum where the slope is below 1."""

    def before(x, s):
        return F.leaky_relu(x, s)

    def after(x, s):
        return torch.maximum(x, x * s)


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, "type(d) is float", "1e-3 < d < 1e3"],
    scalars={"d": None},
    dtypes=WIDE,
    claim=E,
    preserves=KEPT,
)
class right_huber_as_scaled_smooth_l1:
    """Takes the Huber loss as delta times smooth L1."""

    def before(x, y, d):
        return F.huber_loss(x, y, reduction="none", delta=d)

    def after(x, y, d):
        return F.smooth_l1_loss(x, y, reduction="none", beta=d) * d


@rule(
    args={"x": "... n"},
    where=["type(e) is float", "1e-12 <= e <= 1", "n >= 1"],
    scalars={"e": None},
    dtypes=WIDE,
    claim=E,
    preserves=KEPT,
)
class right_normalize_clamps_norm:
    """Normalises by the norm clamped at eps."""

    def before(x, e):
        return F.normalize(x, dim=-1, eps=e)

    def after(x, e):
        return x / x.square().sum(-1, keepdim=True).sqrt().clamp(min=e)


@rule(
    args={"x": "..."},
    where=["type(e) is float", "1e-6 <= e < 0.5"],
    scalars={"e": None},
    dtypes=WIDE,
    claim=E,
    assumes=FIN,
    preserves=KEPT,
)
class right_logit_of_clamped:
    """Takes logit with the clamp written out."""

    def before(x, e):
        return torch.logit(x, e)

    def after(x, e):
        c = x.clamp(e, 1 - e)
        return torch.log(c / (1 - c))


@rule(
    args={"x": "..."},
    where=["type(c) is float", "type(p) is float", "type(q) is float"],
    scalars={"c": None, "p": None, "q": None},
    dtypes=WIDE,
    claim=B,
    preserves=KEPT,
)
class right_nan_to_num_by_selects:
    """Replaces NaN and infinities by selects."""

    def before(x, c, p, q):
        return torch.nan_to_num(x, c, p, q)

    def after(x, c, p, q):
        x = torch.where(
            x == math.inf,
            torch.full_like(x, p),
            torch.where(x == -math.inf, torch.full_like(x, q), torch.where(x != x, torch.full_like(x, c), x)),
        )
        return x


@rule(
    args={"x": "..."},
    where=["type(a) is float", "0.1 < a < 10"],
    scalars={"a": None},
    dtypes=WIDE,
    claim=E,
    assumes=FIN,
    preserves=KEPT,
)
class right_celu_by_where:
    """Takes celu by its definition."""

    def before(x, a):
        return F.celu(x, a)

    def after(x, a):
        return torch.where(x > 0, x, torch.expm1(x / a) * a)


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, "type(r) is float", "0 <= r", "type(a) is float", "0 <= a"],
    scalars={"r": None, "a": None},
    dtypes=WIDE,
    assumes=FIN,
    claim=U,
    preserves=KEPT,
)
class right_isclose_by_formula:
    """Compares closeness by the formula, relative to the second."""

    def before(x, y, r, a):
        return torch.isclose(x, y, rtol=r, atol=a)

    def after(x, y, r, a):
        d = (x - y).abs()
        return (x == y) | (d.isfinite() & (d <= (y * r).abs() + a))


# kind 3


@rule(args={"x": "..."}, dtypes=("float64",), claim=E, preserves=KEPT)
class right_third_in_full:
    """Divides by three by a product with the nearest double."""

    def before(x):
        return x / 3

    def after(x):
        return x * (1.0 / 3.0)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_half:
    """Halves by a product."""

    def before(x):
        return x / 2

    def after(x):
        return x * 0.5


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_eighth:
    """Divides by eight by a product."""

    def before(x):
        return x / 8

    def after(x):
        return x * 0.125


@rule(args={"x": "..."}, dtypes=("float32",), claim=B, preserves=KEPT)
class right_tenth_of_single:
    """Writes the float32 tenth in all its digits, for float32."""

    def before(x):
        return x * 0.1

    def after(x):
        return x * 0.10000000149011612


@rule(args={"x": "..."}, dtypes=("float64",), claim=E, preserves=KEPT)
class right_deg2rad:
    """Converts degrees by the double pi."""

    def before(x):
        return torch.deg2rad(x)

    def after(x):
        return x * (math.pi / 180)


@rule(args={"x": "..."}, dtypes=("float64",), claim=E, assumes=("nonneg", "nonzero", "finite"), preserves=KEPT)
class right_log2_by_log:
    """Takes log2 by the natural logarithm."""

    def before(x):
        return torch.log2(x)

    def after(x):
        return torch.log(x) / math.log(2)


@rule(args={"x": "..."}, dtypes=("float64",), claim=E, preserves=KEPT)
class right_gelu_by_erf:
    """Takes gelu by erf."""

    def before(x):
        return F.gelu(x)

    def after(x):
        return x * 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))


@rule(args={"x": "..."}, dtypes=("float64",), claim=E, preserves=KEPT)
class right_exp2_by_exp:
    """Takes exp2 by exp."""

    def before(x):
        return torch.exp2(x)

    def after(x):
        return torch.exp(x * math.log(2))


# kind 4


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_sum_of_strided:
    """Adds through strided views."""

    def before(x, y):
        return x + y

    def after(x, y):
        both = torch.stack([x, y], -1)
        return both[..., 0] + both[..., 1]


@rule(args={"x": "m n"}, where=["1 <= n <= 16"], dtypes=FLOATS, claim=B, preserves=KEPT)
class right_square_by_columns:
    """Squares column by column."""

    def before(x):
        return x * x

    def after(x):
        return torch.stack([c * c for c in x.unbind(-1)], -1)


@rule(args={"x": "..."}, dtypes=WIDE, claim=E, preserves=KEPT)
class right_sigmoid_of_strided:
    """Takes sigmoid of a strided view, up to rounding."""

    def before(x):
        return torch.sigmoid(x)

    def after(x):
        return torch.sigmoid(torch.stack([x, x], -1)[..., 0])


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_sum_of_flipped:
    """Sums backwards, up to rounding."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.flip(-1).sum(-1)


@rule(args={"x": "... n"}, dtypes=INTS, claim=B, preserves=KEPT)
class right_integer_sum_of_flipped:
    """Sums integers backwards."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.flip(-1).sum(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=INTS, claim=B, preserves=KEPT)
class right_integer_maximum_of_flipped:
    """Takes the maximum of integers backwards."""

    def before(x):
        return x.amax(-1)

    def after(x):
        return x.flip(-1).amax(-1)


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 1"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_product_of_one_row:
    """Multiplies one row only, up to rounding."""

    def before(a, b):
        return (a @ b).select(0, 0)

    def after(a, b):
        return a.select(0, 0) @ b


# kind 5


@rule(args={"x": "n", "i": "k"}, where=[*TAKES, "n >= 1"], dtypes=IX, mixed=True, claim=I, preserves=KEPT)
class right_index_wrapped:
    """Wraps negative indices before it indexes."""

    def before(x, i):
        return x[i]

    def after(x, i):
        return x.index_select(0, torch.where(i < 0, i + x.shape[0], i))


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    assumes=FIN,
    claim=E,
    preserves=KEPT,
)
class right_where_nonzero_as_product:
    """Keeps x where the integer mask is set, by a product with its truth."""

    def before(x, i):
        return torch.where(i != 0, x, torch.zeros_like(x))

    def after(x, i):
        return x * i.bool()


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("bool",), claim=B, preserves=KEPT)
class right_bool_sum_as_or:
    """Adds masks by a disjunction."""

    def before(x, y):
        return x + y

    def after(x, y):
        return x | y


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, "x.dtype != y.dtype", "x.floating", "y.floating"],
    dtypes=("float16", "bfloat16"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class right_sum_of_low_pair:
    """Adds float16 and bfloat16 in float32."""

    def before(x, y):
        return x + y

    def after(x, y):
        return x.to(torch.float32) + y.to(torch.float32)


@rule(args={"x": "..."}, dtypes=INTS, claim=B, preserves=KEPT)
class right_odd_by_and:
    """Says whether an integer is odd by its lowest bit."""

    def before(x):
        return x % 2 == 1

    def after(x):
        return (x & 1) == 1


@rule(
    args={"x": "...", "m": "..."},
    where=["x.dtype in ('int32', 'int64')", "m.dtype == 'bool'", "x.shape == m.shape"],
    dtypes=("int32", "int64", "bool"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class right_mask_product_as_where:
    """Multiplies integers by a mask through a select."""

    def before(x, m):
        return x * m

    def after(x, m):
        return torch.where(m, x, torch.zeros_like(x))


@rule(
    args={"x": "...", "i": "..."},
    where=["x.dtype == 'int32'", "i.dtype == 'int64'", "x.shape == i.shape"],
    dtypes=("int32", "int64"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class right_compare_in_int64:
    """Compares int32 with int64 in int64."""

    def before(x, i):
        return x < i

    def after(x, i):
        return x.to(torch.int64) < i


# kind 6


@rule(args={"x": "..."}, site="value", dtypes=ANY, claim=I, preserves=(*KEPT, "stride", "alias"))
class right_same_view_at_its_offset:
    """Views x with its own shape, strides and offset."""

    def after(x):
        return x.as_strided(x.shape, x.stride(), x.storage_offset())


@rule(args={"x": "m n"}, where=["m >= 2", "n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class right_drop_first_row:
    """Drops the first row by one row more of offset."""

    def before(x):
        return x[1:]

    def after(x):
        return x.as_strided((x.shape[0] - 1, x.shape[1]), x.stride(), x.storage_offset() + x.stride(0))


@rule(args={"x": "..."}, where=["x.contiguous", "x.numel > 0", "x.ndim >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class right_flatten_contiguous:
    """Flattens a contiguous tensor as the memory lies."""

    def before(x):
        return x.reshape(-1)

    def after(x):
        return x.as_strided((x.numel(),), (1,), x.storage_offset())


@rule(args={"x": "m n"}, where=["m * n > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class right_diagonal_at_offset:
    """Reads the diagonal with the sum of the strides."""

    def before(x):
        return x.diagonal()

    def after(x):
        return x.as_strided((min(x.shape),), (x.stride(0) + x.stride(1),), x.storage_offset())


@rule(
    args={"x": "m n"},
    where=["type(k) is int", "0 <= k < m", "n >= 1"],
    scalars={"k": None},
    dtypes=ANY,
    claim=I,
    preserves=KEPT,
)
class right_row_by_stride:
    """Selects row k by strides."""

    def before(x, k):
        return x.select(0, k)

    def after(x, k):
        return x.as_strided((x.shape[1],), (x.stride(1),), x.storage_offset() + k * x.stride(0))


@rule(args={"x": "m n"}, dtypes=ANY, claim=I, preserves=KEPT)
class right_transpose_by_strides:
    """Transposes by swapping strides."""

    def before(x):
        return x.t()

    def after(x):
        return x.as_strided((x.shape[1], x.shape[0]), (x.stride(1), x.stride(0)), x.storage_offset())


# kind 7


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("bool",), claim=B, preserves=KEPT)
class right_complement_of_clone:
    """Complements a clone of y in place."""

    def before(x, y):
        return x & ~y

    def after(x, y):
        return x & y.clone().logical_not_()


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, "not x.requires_grad", "not y.requires_grad"],
    dtypes=WIDE,
    claim=B,
    preserves=KEPT,
)
class right_scale_clones:
    """Scales clones of both in place."""

    def before(x, y):
        return x * 0.5 - y * 2

    def after(x, y):
        return x.clone().mul_(0.5).sub_(y.clone().mul_(2))


@rule(args={"x": "m n"}, where=["m == 2"], dtypes=ANY, claim=I, preserves=KEPT)
class right_swap_rows_through_clone:
    """Swaps two rows of a clone through a cloned row."""

    def before(x):
        return x.flip(0)

    def after(x):
        out = x.clone()
        first = out[0].clone()
        out[0] = out[1]
        out[1] = first
        return out


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=INTS, claim=B, preserves=KEPT)
class right_xor_swap_of_clones:
    """Swaps clones by three exclusive ors."""

    def before(x, y):
        return torch.stack([y, x])

    def after(x, y):
        a, b = x.clone(), y.clone()
        a.bitwise_xor_(b)
        b.bitwise_xor_(a)
        a.bitwise_xor_(b)
        return torch.stack([a, b])


# kind 8


@rule(args={"x": "... n"}, site="value", where=["n <= 128"], dtypes=ANY, claim=I, preserves=KEPT)
class right_iota_int8_short:
    """Reads a short dimension at an arange of int8."""

    def after(x):
        return x.index_select(-1, torch.arange(x.shape[-1], dtype=torch.int8, device=x.device).to(torch.int64))


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_tree_sum_with_rest:
    """Sums by a tree that keeps the odd element."""

    def before(x):
        return x.sum(-1)

    def after(x):
        while x.shape[-1] > 1:
            h = x.shape[-1] // 2
            rest = x[..., 2 * h :]
            x = torch.cat([x[..., :h] + x[..., h : 2 * h], rest], -1)
        return x[..., 0]


@rule(args={"x": "... n"}, site="value", dtypes=ANY, where=["n >= 1"], claim=I, preserves=KEPT)
class right_all_parts:
    """Splits in parts of 64 and concatenates all."""

    def after(x):
        return torch.cat(x.split(64, -1), -1)


@rule(args={"a": "m k", "b": "k n"}, where=["k >= 1"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_matmul_in_tiles_with_rest:
    """Multiplies in tiles of sixteen of the inner dimension, the last one short."""

    def before(a, b):
        return a @ b

    def after(a, b):
        out = a[:, :16] @ b[:16]
        for i in range(16, a.shape[1], 16):
            out = out + a[:, i : i + 16] @ b[i : i + 16]
        return out


@rule(args={"x": "n n"}, dtypes=ANY, claim=I, preserves=KEPT)
class right_flat_index_int64:
    """Transposes a square by flat indices in int64."""

    def before(x):
        return x.t()

    def after(x):
        n = x.shape[0]
        i = torch.arange(n, device=x.device)
        return x.reshape(-1)[i * n + i.unsqueeze(-1)]


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_product_in_two:
    """Multiplies the products of two parts, either of which may be empty."""

    def before(x):
        return x.prod(-1)

    def after(x):
        return x[..., :1].prod(-1) * x[..., 1:].prod(-1)


# kind 9


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int64", "int32"), claim=B, preserves=KEPT)
class right_argmax_of_equality:
    """Takes argmax as the first place that equals the maximum."""

    def before(x):
        return x.argmax(-1)

    def after(x):
        return (x == x.amax(-1, keepdim=True)).to(torch.int64).argmax(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int64", "int32"), claim=B, preserves=KEPT)
class right_argmin_by_stable_sort:
    """Takes argmin as the first index of a stable sort."""

    def before(x):
        return x.argmin(-1)

    def after(x):
        return torch.argsort(x, dim=-1, stable=True).select(-1, 0)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_ceil_by_floor:
    """Takes ceil as minus the floor of minus x."""

    def before(x):
        return torch.ceil(x)

    def after(x):
        return -torch.floor(-x)


@rule(args={"x": "... n"}, where=["n >= 1", "x.contiguous"], dtypes=("int64", "int32"), claim=B, preserves=KEPT)
class right_median_lower:
    """Takes the median as the lower middle of the sorted."""

    def before(x):
        return x.median(-1).values

    def after(x):
        return x.sort(-1).values.select(-1, (x.shape[-1] - 1) // 2)


@rule(args={"x": "...", "b": "k"}, dtypes=WIDE, claim=U, assumes=FIN, preserves=KEPT)
class right_bucketize_counts_below:
    """Counts the boundaries below x, of boundaries sorted first."""

    def before(x, b):
        return torch.bucketize(x, b.sort().values)

    def after(x, b):
        return (b < x.unsqueeze(-1)).sum(-1)


@rule(args={"x": "..."}, dtypes=("int64", "int32", "int16", "int8"), claim=B, preserves=KEPT)
class right_sign_by_two_comparisons:
    """Takes the sign of integers as a difference of comparisons."""

    def before(x):
        return torch.sign(x)

    def after(x):
        return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("int64", "int32"), claim=B, preserves=KEPT)
class right_index_of_larger:
    """Says whether the second is larger, by argmax of the pair."""

    def before(x, y):
        return (x < y).to(torch.int64)

    def after(x, y):
        return torch.stack([x, y]).argmax(0)


@rule(args={"x": "..."}, dtypes=WIDE, claim=U, assumes=FIN, preserves=KEPT)
class right_relu6_gate_closed:
    """Says where relu6 lets x through, ends included."""

    def before(x):
        return F.relu6(x) == x

    def after(x):
        return (x >= 0) & (x <= 6)


# kind 10


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_power_zero:
    """Folds x ** 0 to ones, of NaN too."""

    def before(x):
        return x**0

    def after(x):
        return torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_trunc_by_where:
    """Truncates by ceil or floor."""

    def before(x):
        return torch.trunc(x)

    def after(x):
        return torch.where(x < 0, torch.ceil(x), torch.floor(x))


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_isnan_by_comparison:
    """Takes isnan as x != x."""

    def before(x):
        return torch.isnan(x)

    def after(x):
        return x != x


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_isfinite_by_difference:
    """Takes isfinite as x - x == 0."""

    def before(x):
        return torch.isfinite(x)

    def after(x):
        return (x - x) == 0


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=WIDE, assumes=("no_nan",), claim=U, preserves=KEPT)
class right_maximum_by_select_without_nan:
    """Takes the maximum by x > y, without NaN."""

    def before(x, y):
        return torch.maximum(x, y) + 0.0

    def after(x, y):
        return torch.where(x > y, x, y) + 0.0


@rule(args={"x": "..."}, site="value", dtypes=FLOATS, claim=B, preserves=KEPT)
class right_subtract_zero:
    """Subtracts 0.0."""

    def after(x):
        return x - 0.0


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class right_neg_as_product:
    """Negates by a product with -1."""

    def before(x):
        return -x

    def after(x):
        return x * -1


@rule(
    args={"x": "...", "m": "..."},
    where=["m.dtype == 'bool'", "x.floating", "x.shape == m.shape"],
    dtypes=("float32", "float64", "bool"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class right_masked_fill_as_where:
    """Zeroes by a select."""

    def before(x, m):
        return x.masked_fill(m, 0)

    def after(x, m):
        return torch.where(m, torch.zeros_like(x), x)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=FLOATS, assumes=("no_nan",), claim=U, preserves=KEPT)
class right_not_less_without_nan:
    """Turns a comparison round, without NaN."""

    def before(x, y):
        return ~(x < y)

    def after(x, y):
        return x >= y


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=FLOATS, claim=Z, preserves=KEPT)
class right_negated_difference:
    """Turns a negated difference round; the sign of zero may change."""

    def before(x, y):
        return -(x - y)

    def after(x, y):
        return y - x


# kind 11


@rule(args={"x": "... n"}, dtypes=("int32", "int16", "int8", "uint8"), claim=B, preserves=KEPT)
class right_sum_in_int64:
    """Sums integers after the conversion to int64."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.to(torch.int64).sum(-1)


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_sample_variance:
    """Takes the variance from squared deviations over n - 1."""

    def before(x):
        return x.var(-1)

    def after(x):
        return (x - x.mean(-1, keepdim=True)).square().sum(-1) / (x.shape[-1] - 1)


@rule(
    args={"x": "..."},
    where=["type(d) is int", "-x.ndim - 1 <= d <= x.ndim"],
    scalars={"d": None},
    dtypes=ANY,
    claim=I,
    preserves=KEPT,
)
class right_unsqueeze_negative:
    """Normalises a negative axis by adding the rank and one."""

    def before(x, d):
        return x.unsqueeze(d)

    def after(x, d):
        return x.unsqueeze(d if d >= 0 else d + x.ndim + 1)


@rule(args={"x": "... n"}, dtypes=("bool",), claim=B, preserves=KEPT)
class right_any_by_sum:
    """Takes any as a positive sum."""

    def before(x):
        return x.any(-1)

    def after(x):
        return x.sum(-1) > 0


@rule(args={"x": "... n"}, dtypes=("bool",), claim=B, preserves=KEPT)
class right_all_by_count:
    """Takes all as a full count."""

    def before(x):
        return x.all(-1)

    def after(x):
        return x.sum(-1) == x.shape[-1]


@rule(
    args={"x": "n", "y": ""},
    where=["x.dtype in ('float16', 'bfloat16')", "y.dtype == 'float32'"],
    dtypes=("float16", "bfloat16", "float32"),
    mixed=True,
    assumes=FIN,
    claim=E,
    preserves=KEPT,
)
class right_scalar_tensor_expanded:
    """Expands a 0-dim factor to the shape of x and converts the product back."""

    def before(x, y):
        return x * y

    def after(x, y):
        return (x * y.expand(x.shape)).to(x.dtype)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_mean_as_quotient:
    """Takes the mean as the sum divided by the length."""

    def before(x):
        return x.mean(-1)

    def after(x):
        return x.sum(-1) / x.shape[-1]


@rule(
    args={"x": "m n", "y": "... n"},
    where=["y.ndim == 2", "y.shape[0] in (1, m)"],
    dtypes=WIDE,
    claim=E,
    assumes=FIN,
    preserves=KEPT,
)
class right_sum_over_expanded:
    """Sums the operands of a sum each for itself, after the expansion."""

    def before(x, y):
        return (x + y).sum(0)

    def after(x, y):
        return x.sum(0) + y.expand(x.shape).sum(0)


@rule(
    args={"x": "n c h w"}, where=["h >= 3", "w >= 3", "x.numel > 0"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT
)
class right_average_pool_of_padded:
    """Pads first and averages without padding."""

    def before(x):
        return F.avg_pool2d(x, 3, 1, 1)

    def after(x):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("float16", "float32"), claim=E, assumes=FIN, preserves=KEPT)
class right_midpoint_of_halves:
    """Takes the midpoint as the sum of halves, up to rounding."""

    def before(x, y):
        return (x + y) * 0.5

    def after(x, y):
        return x * 0.5 + y * 0.5


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class right_real_part_of_square:
    """Takes the real part of z * z."""

    def before(x, y):
        return (torch.complex(x, y) * torch.complex(x, y)).real

    def after(x, y):
        return x * x - y * y


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=FLOATS, claim=B, preserves=KEPT)
class right_relu_of_clone:
    """Takes relu in place on a clone."""

    def before(x):
        return torch.where(x > 0, x, torch.zeros_like(x))

    def after(x):
        return x.clone().masked_fill_(~(x > 0), 0)


@rule(args={"x": "m n"}, dtypes=ANY, claim=I, preserves=KEPT)
class right_flatten_of_transposed:
    """Flattens the transposed view by a copy."""

    def before(x):
        return x.transpose(0, -1).reshape(-1)

    def after(x):
        return x.t().contiguous().view(-1)


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("int32", "int16", "int8"), claim=B, preserves=KEPT)
class right_average_by_carry:
    """Averages two integers without a wider type."""

    def before(x, y):
        return ((x.to(torch.int64) + y.to(torch.int64)) >> 1).to(x.dtype)

    def after(x, y):
        return (x & y) + ((x ^ y) >> 1)


@rule(args={"x": "..."}, dtypes=("float32",), claim=B, preserves=KEPT)
class right_compare_with_half_in_double:
    """Compares with 0.5 in float64."""

    def before(x):
        return x >= 0.5

    def after(x):
        return x.to(torch.float64) >= 0.5


@rule(args={"x": "...", "y": "..."}, where=SAME, dtypes=("float32", "float64"), claim=U, assumes=FIN, preserves=KEPT)
class right_less_by_difference:
    """Compares finite floats by the sign of the difference, which is exact near zero."""

    def before(x, y):
        return x < y

    def after(x, y):
        return (x - y) < 0
