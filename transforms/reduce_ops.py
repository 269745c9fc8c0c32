"""Reductions and scans, split, reordered or spelled otherwise."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
SINGLE = ("float32", "float64")
NUMBERS = FLOATS + INTS


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=NUMBERS, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class reduce_sum_split:
    """Sums two unequal parts of a dimension and adds them.

    Why equivalent: Addition is associative over the reals.
    Provokes: Split reductions and slices with an offset.
    """

    def before(x, d): return x.sum(d)

    def after(x, d):
        n = x.shape[d]
        return x.narrow(d, 0, 1).sum(d) + x.narrow(d, 1, n - 1).sum(d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=NUMBERS, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("kc", "flip"))
class reduce_sum_flipped:
    """Sums in reversed order.

    Why equivalent: Addition is commutative and associative over the reals.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.flip(d).sum(d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 2", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=NUMBERS, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class reduce_sum_permuted:
    """Moves the dimension to the end in a copy and sums there.

    Why equivalent: The same terms.
    Provokes: An inner instead of an outer reduction.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.movedim(d, -1).contiguous().sum(-1)


@rule(args={"x": "m n"}, where=["x.numel > 0"], claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "mm"))
class reduce_sum_as_matmul:
    """Sums rows by a product with ones.

    Why equivalent: 1 * x added up.
    Provokes: Uniform operand of a matmul.
    """

    def before(x): return x.sum(1)

    def after(x): return (x @ x.new_ones(x.shape[1], 1)).squeeze(1)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, dtypes=SINGLE + INTS, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "cumsum"))
class reduce_sum_as_cumsum:
    """Takes the last running sum.

    Why equivalent: The last prefix is the whole.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.cumsum(d).select(d, x.shape[d] - 1)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "mean"))
class reduce_sum_as_mean:
    """Takes the mean times the size.

    Why equivalent: By definition.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.mean(d) * x.shape[d]


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=SINGLE + INTS, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class reduce_sum_all_in_steps:
    """Sums the last dimension, then the rest.

    Why equivalent: Addition is associative over the reals.
    """

    def before(x): return x.sum()

    def after(x): return x.sum(-1).sum()


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=SINGLE + INTS, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class reduce_sum_all_transposed:
    """Sums the flattened transposed view.

    Why equivalent: The same terms in column-major order.
    """

    def before(x): return x.sum()

    def after(x): return x.transpose(0, -1).reshape(-1).sum(0)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("kc", "ilp"))
class reduce_sum_expanded:
    """Sums over an expanded copy of a new dimension and halves.

    Why equivalent: Each term is counted twice.
    Provokes: A reduction over a zero-stride dimension.
    """

    def before(x, d): return x.sum(d)

    def after(x, d):
        y = x.sum(d)
        return y.expand((2, *y.shape)).sum(0) * 0.5


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "mean"))
class reduce_mean_as_sum:
    """Takes the sum over the size.

    Why equivalent: By definition.
    """

    def before(x, d): return x.mean(d)

    def after(x, d): return x.sum(d) / x.shape[d]


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "mean"))
class reduce_mean_keepdim_as_sum:
    """Takes the mean without and restores the dimension.

    Why equivalent: By definition of keepdim.
    """

    def before(x, d): return x.mean(d, keepdim=True)

    def after(x, d): return x.mean(d).unsqueeze(d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=NUMBERS, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod",))
class reduce_sum_keepdim_as_unsqueeze:
    """Sums without the dimension and restores it by None indexing at the end.

    Why equivalent: By definition of keepdim.
    """

    def before(x, d): return x.sum(d, keepdim=True)

    def after(x, d): return x.movedim(d, 0).sum(0)[None].movedim(0, d)


@rule(args={"x": "m n"}, where=["x.numel > 0"], dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class reduce_mean_all_as_matmul:
    """Averages a matrix by two products with constant vectors.

    Why equivalent: 1/m sum 1/n sum.
    """

    def before(x): return x.mean()

    def after(x):
        row = x.new_full((1, x.shape[0]), 1.0 / x.shape[0])
        return (row @ x @ x.new_full((x.shape[1], 1), 1.0 / x.shape[1])).reshape(())


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "welford"))
class reduce_var_by_hand:
    """Computes the unbiased variance in two passes.

    Why equivalent: The definition.
    """

    def before(x, d): return x.var(d)

    def after(x, d):
        c = x - x.mean(d, keepdim=True)
        return (c * c).sum(d) / (x.shape[d] - 1)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("kc", "amax"))
class reduce_amax_split:
    """Takes the maximum of the maxima of two parts.

    Why equivalent: max is associative; NaN wins.
    Limits: The gradient of ties differs.
    """

    def before(x, d): return x.amax(d)

    def after(x, d):
        n = x.shape[d]
        return torch.maximum(x.narrow(d, 0, n - 1).amax(d), x.select(d, n - 1))


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("kc", "amax"))
class reduce_amax_as_max:
    """Takes the values of max(dim).

    Why equivalent: The same value.
    Limits: The gradient goes to one of the ties.
    """

    def before(x, d): return x.amax(d)

    def after(x, d): return x.max(d).values


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "amin"))
class reduce_amax_as_neg_amin:
    """Takes minus the minimum of the negatives.

    Why equivalent: Negation reverses the order.
    """

    def before(x, d): return x.amax(d)

    def after(x, d): return -((-x).amin(d))


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, dtypes=SINGLE + INTS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation"), targets=("kc", "iod", "sort"))
class reduce_amax_as_sort:
    """Takes the last of the sorted values.

    Why equivalent: NaN sorts last.
    """

    def before(x, d): return x.amax(d)

    def after(x, d): return x.sort(d).values.select(d, -1)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 2", "-x.ndim <= d < x.ndim", "x.numel > 0"],
      scalars={"d": None}, dtypes=SINGLE + INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("ilp", "kc", "argmax"))
class reduce_argmax_transposed:
    """Takes argmax over the first dimension of a transposed copy.

    Why equivalent: The order along the dimension is the same, so ties fall alike on the first.
    """

    def before(x, d): return x.argmax(d)

    def after(x, d): return x.transpose(0, d).contiguous().argmax(0, keepdim=True).transpose(0, d).squeeze(d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.numel > 0"],
      scalars={"d": None}, dtypes=SINGLE + INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("kc", "argmax"))
class reduce_argmax_as_max:
    """Takes the indices of max(dim).

    Why equivalent: Both give the first maximum on the CPU.
    Limits: Elsewhere ties are open.
    """

    def before(x, d): return x.argmax(d)

    def after(x, d): return x.max(d).indices


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.numel > 0"],
      scalars={"d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "logsumexp"))
class reduce_logsumexp_by_hand:
    """Computes logsumexp with a detached shift.

    Why equivalent: The shift cancels.
    """

    def before(x, d): return torch.logsumexp(x, d)

    def after(x, d):
        m = x.amax(d, keepdim=True).detach()
        return (x - m).exp().sum(d).log() + m.squeeze(d)


@rule(args={"x": "..."},
      where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.numel > 0", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "logsumexp"))
class reduce_logsumexp_split:
    """Combines logsumexp of two parts by logaddexp.

    Why equivalent: log(e^a + e^b).
    """

    def before(x, d): return torch.logsumexp(x, d)

    def after(x, d):
        n = x.shape[d]
        return torch.logaddexp(x.narrow(d, 0, 1).logsumexp(d), x.narrow(d, 1, n - 1).logsumexp(d))


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=SINGLE + INTS, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "cumsum", "flip"))
class reduce_cumsum_by_flip:
    """Takes the running sum as total plus x less the running sum from the end.

    Why equivalent: Prefix + suffix = total + own element.
    """

    def before(x, d): return torch.cumsum(x, d)

    def after(x, d): return x.sum(d, keepdim=True) + x - x.flip(d).cumsum(d).flip(d)


@rule(args={"x": "m n"}, where=["x.numel > 0"], dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "cumsum"))
class reduce_cumsum_as_matmul:
    """Takes the running sum of rows by a triangular matrix of ones.

    Why equivalent: Prefix sums are a triangular product.
    """

    def before(x): return torch.cumsum(x, 1)

    def after(x): return x @ torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).triu()


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=SINGLE + INTS, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "cumsum", "cat"))
class reduce_cumsum_split:
    """Takes running sums of two parts, the second with the carry of the first.

    Why equivalent: Addition is associative over the reals.
    """

    def before(x, d): return torch.cumsum(x, d)

    def after(x, d):
        h = x.shape[d] // 2
        low = x.narrow(d, 0, h).cumsum(d)
        return torch.cat([low, x.narrow(d, h, x.shape[d] - h).cumsum(d) + low.narrow(d, h - 1, 1)], d)


@rule(args={"x": "... n"}, dtypes=SINGLE + INTS + ("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "pointless_cumsum_replacement"))
class reduce_cumsum_through_mask_count:
    """Reads the last dimension at the running count of a full bool mask less one.

    Why equivalent: The count of trues up to position i is i + 1.
    Provokes: ``pointless_cumsum_replacement`` rewrites cumsum of a uniform tensor; the fill value 5 of a bool tensor
    means True, so it counts by one and not by five.
    """

    def after(x):
        count = torch.full((x.shape[-1],), 5, dtype=torch.bool, device=x.device).cumsum(0)
        return x.index_select(-1, count - 1)


@rule(args={"x": "... n"}, dtypes=SINGLE + INTS + ("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "pointless_cumsum_replacement"))
class reduce_cumsum_through_int_fill:
    """Reads the last dimension at half the running sum of an int64 fill of 2.7, less one.

    Why equivalent: The fill is truncated to 2, the sums are 2, 4, 6.
    Provokes: ``pointless_cumsum_replacement`` must truncate as well.
    """

    def after(x):
        count = torch.full((x.shape[-1],), 2.7, dtype=torch.int64, device=x.device).cumsum(0)
        return x.index_select(-1, count // 2 - 1)


@rule(args={"x": "... n"}, dtypes=SINGLE + INTS + ("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "pointless_cumsum_replacement"))
class reduce_cumsum_of_ones:
    """Reads the last dimension at the running sum of ones less one.

    Why equivalent: The sums are 1, 2, 3.
    Provokes: The usual position ids of language models.
    """

    def after(x):
        place = torch.ones(x.shape[-1], dtype=torch.int32, device=x.device).cumsum(0, dtype=torch.int64)
        return x[..., place - 1]


@rule(args={"x": "... n"}, where=["n < 256"], dtypes=SINGLE + INTS + ("bool",), site="value",
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "iot", "pointless_cumsum_replacement"))
class reduce_cumsum_of_uint8:
    """Reads the last dimension by a running sum of uint8 ones in uint8 (short dimensions).

    Why equivalent: Fewer than 256 ones do not overflow.
    """

    def after(x):
        place = torch.ones(x.shape[-1], dtype=torch.uint8, device=x.device).cumsum(0, dtype=torch.uint8)
        return x.index_select(-1, place.to(torch.int64) - 1)


@rule(args={"x": "... n"}, dtypes=SINGLE + INTS + ("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "iod", "fix_iota_device"))
class reduce_arange_by_nonoverflow:
    """Reads the last dimension at a floating arange converted to integers.

    Why equivalent: arange over float64 holds the integers exactly.
    """

    def after(x):
        place = torch.arange(0.0, float(x.shape[-1]), 1.0, dtype=torch.float64, device=x.device)
        return x.index_select(-1, place.to(torch.int64))


@rule(args={"x": "... n"}, dtypes=SINGLE + INTS + ("bool",), site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "sort", "index"))
class reduce_sort_permutation:
    """Permutes the last dimension by a reversal and undoes it by argsort of the permutation.

    Why equivalent: argsort inverts a permutation.
    """

    def after(x):
        order = torch.arange(x.shape[-1] - 1, -1, -1, device=x.device)
        return x.index_select(-1, order).index_select(-1, order.argsort())


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("iod", "kc", "norm"))
class reduce_norm_by_hand:
    """Computes the 2-norm by squares and root.

    Why equivalent: The definition.
    Limits: The gradient at 0 differs.
    """

    def before(x, d): return torch.linalg.vector_norm(x, 2, d)

    def after(x, d): return x.square().sum(d).sqrt()


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=(*SINGLE, "int64"), claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("kc", "prod"))
class reduce_prod_split:
    """Multiplies the product of a part with the last element.

    Why equivalent: Multiplication is associative over the reals.
    """

    def before(x, d): return x.prod(d)

    def after(x, d):
        n = x.shape[d]
        return x.narrow(d, 0, n - 1).prod(d) * x.select(d, n - 1)
