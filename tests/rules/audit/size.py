"""Bodies that ask the size, and are wrong from some size on, or for sizes 0 and 1."""

import math

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
ANY = FLOATS + INTS + ("bool",)
WIDE = ("float32", "float64")
I = Level.INDEX_EXACT
E = Level.EXACT_REAL
KEPT = ("dtype", "mutation")


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, preserves=KEPT)
class size_iota_uint8:
    """Reads the last dimension at an arange of uint8."""

    def after(x):
        return x.index_select(-1, torch.arange(x.shape[-1], dtype=torch.uint8, device=x.device).to(torch.int64))


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, preserves=KEPT)
class size_iota_int8_wrapped:
    """Reads the last dimension at an arange of int8 taken modulo the length."""

    def after(x):
        n = x.shape[-1]
        place = torch.arange(n, dtype=torch.int8, device=x.device).to(torch.int64)
        return x.index_select(-1, place % max(n, 1))


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, preserves=KEPT)
class size_running_count_uint8:
    """Reads the last dimension at a running count in uint8 less one."""

    def after(x):
        count = torch.ones(x.shape[-1], dtype=torch.uint8, device=x.device).cumsum(0, dtype=torch.uint8)
        return x[..., count.to(torch.int64) - 1]


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, preserves=KEPT)
class size_iota_bfloat16:
    """Reads the last dimension at an arange of bfloat16 (position ids under autocast)."""

    def after(x):
        place = torch.arange(x.shape[-1], dtype=torch.bfloat16, device=x.device).to(torch.int64)
        return x.index_select(-1, place.clamp(max=max(x.shape[-1] - 1, 0)))


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, preserves=KEPT)
class size_positions_by_fraction:
    """Reads the last dimension at i / n * n in float32."""

    def after(x):
        n = x.shape[-1]
        place = torch.arange(n, dtype=torch.float32, device=x.device) / max(n, 1) * n
        return x.index_select(-1, place.to(torch.int64))


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_sum_of_halves_from_17:
    """Sums two halves where the dimension is long."""

    def before(x):
        return x.sum(-1)

    def after(x):
        n = x.shape[-1]
        if n < 17:
            return x[..., :n].sum(-1)
        h = n // 2
        return x[..., :h].sum(-1) + x[..., h : h * 2].sum(-1)


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_tree_sum_from_13:
    """Sums by a tree where the dimension is longer than twelve."""

    def before(x):
        return x.sum(-1)

    def after(x):
        if x.shape[-1] <= 12:
            return x.flip(-1).sum(-1)
        while x.shape[-1] > 1:
            h = x.shape[-1] // 2
            x = x[..., :h] + x[..., h : 2 * h]
        return x[..., 0]


@rule(args={"x": "... n"}, dtypes=WIDE, claim=Level.BIT_EXACT, assumes=("finite",), preserves=KEPT)
class size_maximum_in_blocks_of_eight:
    """Takes amax over whole blocks of eight, with the rest only where it is all there is."""

    def before(x):
        return x.amax(-1)

    def after(x):
        n = x.shape[-1]
        full = n - n % 8
        if n <= 32:
            return torch.stack([x, x]).amax(0).amax(-1)
        return x[..., :full].reshape(*x.shape[:-1], full // 8, 8).amax(-1).amax(-1)


@rule(args={"x": "... n"}, site="value", where=["n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class size_digits_of_the_size:
    """Rotates by the number of digits of the size and back, for sizes of one or two digits."""

    def after(x):
        k = len(str(x.shape[-1]))
        return x.roll(k, -1).roll(-min(k, 2), -1)


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_product_seeded_by_first:
    """Multiplies the first element with the product of the others."""

    def before(x):
        return x.prod(-1)

    def after(x):
        return x[..., :1].sum(-1) * x[..., 1:].prod(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_variance_with_guarded_count:
    """Divides by n - 1, at least 1."""

    def before(x):
        return x.var(-1)

    def after(x):
        return (x - x.mean(-1, keepdim=True)).square().sum(-1) / max(x.shape[-1] - 1, 1)


@rule(args={"x": "m n"}, dtypes=ANY, claim=I, preserves=KEPT)
class size_squeeze_everything:
    """Selects a row by a slice and a squeeze."""

    def before(x):
        return x.unsqueeze(0).select(0, 0)

    def after(x):
        return x.unsqueeze(0)[:1].squeeze()


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_square_blocks_from_33:
    """Sums by square blocks of the integer root."""

    def before(x):
        return x.sum(-1)

    def after(x):
        n = x.shape[-1]
        if n < 33:
            return x.cumsum(-1)[..., -1] if n else x.sum(-1)
        r = math.isqrt(n)
        k = n // r
        return x[..., : r * k].reshape(*x.shape[:-1], k, r).sum(-1).sum(-1)


@rule(args={"x": "n n"}, where=["n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class size_flat_index_int16:
    """Transposes a square by flat indices in int16."""

    def before(x):
        return x.t()

    def after(x):
        n = x.shape[0]
        i = torch.arange(n, dtype=torch.int16, device=x.device)
        return x.reshape(-1)[(i * n + i.unsqueeze(-1)).to(torch.int64)]


@rule(args={"a": "m k", "b": "k n"}, where=["k >= 1"], dtypes=WIDE, claim=E, assumes=("finite",), preserves=KEPT)
class size_matmul_in_tiles_of_16:
    """Multiplies in tiles of sixteen of the inner dimension."""

    def before(a, b):
        return a @ b

    def after(a, b):
        k = a.shape[1]
        out = a[:, :16] @ b[:16]
        for i in range(16, k - k % 16, 16):
            out = out + a[:, i : i + 16] @ b[i : i + 16]
        return out


@rule(args={"x": "... n"}, site="value", dtypes=ANY, claim=I, where=["n >= 1"], preserves=KEPT)
class size_first_sixteen_parts:
    """Splits in parts of 64 and concatenates the first sixteen."""

    def after(x):
        return torch.cat([p for p in x.split(64, -1)[:16]] + [x[..., 1024:1024]], -1)


@rule(
    args={"x": "m n"},
    where=["m * n > 0"],
    dtypes=("float32",),
    claim=Level.BIT_EXACT,
    assumes=("finite",),
    preserves=KEPT,
)
class size_amax_by_one_window:
    """Takes amax by the first window of a pooling of at most 128."""

    def before(x):
        return x.amax(-1)

    def after(x):
        return F.max_pool1d(x, min(x.shape[-1], 128)).select(-1, 0)


@rule(args={"x": "... n"}, site="value", where=["n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class size_parity_above_256:
    """Flips twice, or rolls back and forth where the size is odd."""

    def after(x):
        n = x.shape[-1]
        if n % 2 and n > 256:
            return x.roll(n // 2, -1).roll(n // 2, -1)
        return x.flip(-1).flip(-1)
