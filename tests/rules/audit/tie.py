"""Ties: comparisons at equal values, extrema that occur twice, rounding of halves."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
B = Level.BIT_EXACT
E = Level.EXACT_REAL
FIN = ("finite",)
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class tie_round_half_up:
    """Rounds by adding one half."""

    def before(x):
        return torch.round(x)

    def after(x):
        return torch.floor(x + 0.5)


@rule(args={"x": "..."}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class tie_round_half_away:
    """Rounds by adding one half with the sign of x and truncating."""

    def before(x):
        return torch.round(x)

    def after(x):
        return torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x))


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=(*WIDE, "int64"), claim=B, assumes=FIN, preserves=KEPT)
class tie_argmax_of_flipped:
    """Takes argmax from the far end."""

    def before(x):
        return x.argmax(-1)

    def after(x):
        return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_argmax_as_topk:
    """Takes argmax as the index of topk(1)."""

    def before(x):
        return x.argmax(-1)

    def after(x):
        return x.topk(1, -1).indices.squeeze(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=(*WIDE, "int64"), claim=B, assumes=FIN, preserves=KEPT)
class tie_argmin_as_last_of_descending:
    """Takes argmin as the last index of a stable descending sort."""

    def before(x):
        return x.argmin(-1)

    def after(x):
        return torch.argsort(x, dim=-1, descending=True, stable=True)[..., -1]


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_heaviside_as_comparison:
    """Takes heaviside as x > 0."""

    def before(x, y):
        return torch.heaviside(x, y)

    def after(x):
        return (x > 0).to(x.dtype)


@rule(args={"x": "..."}, dtypes=(*WIDE, "int32"), claim=B, assumes=FIN, preserves=KEPT)
class tie_sign_by_one_comparison:
    """Takes the sign by x >= 0."""

    def before(x):
        return torch.sign(x)

    def after(x):
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_relu6_gate:
    """Says where relu6 lets x through by strict comparisons."""

    def before(x):
        return F.relu6(x) == x

    def after(x):
        return (x > 0) & (x < 6)


@rule(args={"x": "...", "b": "k"}, dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_bucketize_counts_equal:
    """Counts the boundaries not above x, of boundaries sorted first."""

    def before(x, b):
        return torch.bucketize(x, b.sort().values)

    def after(x, b):
        return (b <= x.unsqueeze(-1)).sum(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=(*WIDE, "int64"), claim=B, assumes=FIN, preserves=KEPT)
class tie_median_upper:
    """Takes the median as the element n // 2 of the sorted."""

    def before(x):
        return x.median(-1).values

    def after(x):
        return x.sort(-1).values.select(-1, x.shape[-1] // 2)


@rule(args={"x": "n"}, where=["n >= 1"], dtypes=("int64", "float32"), claim=B, assumes=FIN, preserves=KEPT)
class tie_mode_first_most_frequent:
    """Takes the mode as the first element that is most frequent."""

    def before(x):
        return x.mode(-1).values

    def after(x):
        return x.index_select(0, (x.unsqueeze(-1) == x).sum(-1).argmax(0, keepdim=True)).squeeze(0)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "type(c) in (int, float)", "c >= 0"],
    scalars={"c": None},
    dtypes=WIDE,
    claim=B,
    assumes=FIN,
    preserves=KEPT,
)
class tie_within_strictly:
    """Says whether two values are within c of each other."""

    def before(x, y, c):
        return (x - y).abs() <= c

    def after(x, y, c):
        return torch.sub(x, y).square() < c * c


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_topk_mask_by_threshold:
    """Keeps the two largest by a comparison with the second largest."""

    def before(x):
        top = x.topk(2, -1)
        return torch.zeros_like(x).scatter(-1, top.indices, top.values)

    def after(x):
        return torch.where(x >= x.topk(2, -1).values[..., -1:], x, torch.zeros_like(x))


@rule(args={"x": "... n"}, dtypes=(*WIDE, "int64"), claim=B, assumes=FIN, preserves=KEPT)
class tie_argsort_of_reverse:
    """Sorts stably by a flipped descending sort."""

    def before(x):
        return torch.argsort(x, dim=-1, stable=True)

    def after(x):
        return torch.argsort(x, dim=-1, descending=True, stable=True).flip(-1)


@rule(args={"x": "..."}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class tie_ceil_as_floor_plus_one:
    """Takes ceil as floor plus one."""

    def before(x):
        return torch.ceil(x)

    def after(x):
        return torch.floor(x) + 1


@rule(args={"x": "n"}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class tie_histogram_open_at_the_end:
    """Counts four bins of [0, 1] by floors."""

    def before(x):
        return torch.histc(x, 4, 0, 1)

    def after(x):
        return (torch.floor(x * 4).unsqueeze(-1) == torch.arange(4, device=x.device)).sum(0).to(x.dtype)


@rule(args={"x": "n"}, where=["n >= 1"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_cummax_first_index:
    """Says where the running maximum was first reached."""

    def before(x):
        return x.cummax(0).indices

    def after(x):
        v = x.cummax(0).values
        return (v.unsqueeze(-1) == x).to(torch.int64).argmax(-1)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=(*WIDE, "int64"),
    claim=B,
    assumes=FIN,
    preserves=KEPT,
)
class tie_index_of_larger:
    """Says which of two is larger, by argmax of the pair."""

    def before(x, y):
        return (x <= y).to(torch.int64)

    def after(x, y):
        return torch.stack([x, y]).argmax(0)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=(*WIDE, "int64"), claim=B, assumes=FIN, preserves=KEPT)
class tie_one_hot_of_maximum:
    """Marks the largest element by equality with amax."""

    def before(x):
        return F.one_hot(x.argmax(-1), x.shape[-1]).to(torch.bool)

    def after(x):
        return x == x.amax(-1, keepdim=True)


@rule(args={"x": "..."}, dtypes=("float32",), claim=B, assumes=FIN, preserves=KEPT)
class tie_compare_with_tenth_in_double:
    """Compares with 0.1 in float64 (0.1 is another number in float32)."""

    def before(x):
        return x > 0.1

    def after(x):
        return x.to(torch.float64) > 0.1


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_compare_scaled:
    """Compares three times x with 0.9."""

    def before(x):
        return x >= 0.3

    def after(x):
        return x * 3 >= 0.9


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class tie_compare_squares:
    """Says whether x is not zero by its square."""

    def before(x):
        return x != 0

    def after(x):
        return x * x > 0


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("float16", "bfloat16"),
    claim=B,
    assumes=FIN,
    preserves=KEPT,
)
class tie_equal_by_sum:
    """Compares x + y with 1 as x with 1 - y."""

    def before(x, y):
        return x + y == 1

    def after(x, y):
        return x == 1 - y
