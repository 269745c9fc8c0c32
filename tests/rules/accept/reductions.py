"""Right rules about sums, means, extremes, softmax and matrix products, with empty and size-1 dimensions."""

import torch

from fxmorph.model import INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "mutation", "gradient")
VALUE = ("dtype", "mutation")
FULL = ("float32", "float64")
ODD = (1.0, -0.0, 0.0, INF, NAN, -2.5, 3e38, 1e-45)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaf(*shape):
    return normal(*shape).requires_grad_()


@rule(args={"x": "m n"}, preserves=KEEPS)
class right_sum_of_unequal_parts:
    """Parts of any size add up; an empty part is 0."""

    def before(x): return x.sum(0)
    def after(x): return x[:1].sum(0) + x[1:].sum(0)


@rule(args={"x": "... n"}, dtypes=FULL, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_mean_is_sum_over_size:
    """In these dtypes mean is a sum and a division, of an empty dimension too (NaN)."""

    def before(x): return x.mean(-1)
    def after(x): return x.sum(-1) / x.shape[-1]


@rule(args={"x": "n"}, where=["n % 2 == 0", "n >= 2"], preserves=KEEPS)
class right_mean_of_equal_halves:
    """Halves of one size weigh alike."""

    def before(x): return x.mean()

    def after(x):
        h = x.shape[0] // 2
        return (x[:h].mean() + x[h:].mean()) / 2


@rule(args={"x": "m n"}, where=["n >= 1"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class right_maximum_as_negated_minimum:
    """Negation turns the order round, keeps NaN and shares gradient among ties alike."""

    def before(x): return x.amax(1)
    def after(x): return -(-x).amin(1)


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=("dtype",))
class right_integer_maximum_by_complement:
    """The complement turns the order round without overflow, of unsigned integers too."""

    def before(x): return x.amax(1)
    def after(x): return torch.bitwise_not(torch.bitwise_not(x).amin(1))


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class right_maximum_over_one_dimension_at_a_time:
    """The largest of the largest; gradients at ties are shared otherwise and not promised."""

    def before(x): return x.amax((0, 1))
    def after(x): return x.amax(1).amax(0)


@rule(args={"x": "m n"}, preserves=VALUE)
class right_product_of_parts:
    """An empty part is 1."""

    def before(x): return x.prod(0)
    def after(x): return x[:1].prod(0) * x[1:].prod(0)


@rule(args={"x": "... n"}, dtypes=FULL, assumes=("finite", "nonneg"), preserves=VALUE)
class right_product_by_logarithms:
    """log 0 is -inf and exp brings 0 back; nothing is negative."""

    def before(x): return x.prod(-1)
    def after(x): return x.log().sum(-1).exp()


@rule(args={"x": "... n"}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_all_by_counting:
    """All are true where the count is the size, of none too."""

    def before(x): return x.all(-1)
    def after(x): return x.sum(-1) == x.shape[-1]


@rule(args={"x": "... n"}, dtypes=("bool", "uint8"), claim=Level.BIT_EXACT)
class right_any_by_counting:
    """Nothing is negative, so nothing cancels; sums are int64 and do not wrap."""

    def before(x): return x.sum(-1) > 0
    def after(x): return (x != 0).any(-1)


@rule(args={"x": "... n"}, dtypes=FULL, preserves=KEEPS)
class right_variance_by_moments:
    """Mean square less squared mean, both over n."""

    def before(x): return x.var(-1, correction=0)
    def after(x): return x.square().mean(-1) - x.mean(-1).square()


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=FULL, preserves=VALUE)
class right_deviation_corrected_by_a_root:
    """The root of n / (n - 1) turns one deviation into the other."""

    def before(x): return x.std(-1)
    def after(x): return x.std(-1, correction=0) * (x.shape[-1] / (x.shape[-1] - 1)) ** 0.5


@rule(args={"x": "... n"}, where=["n >= 2"], preserves=KEEPS)
class right_logsumexp_of_parts:
    """Parts are added inside the logarithm."""

    def before(x): return x.logsumexp(-1)
    def after(x): return torch.logaddexp(x[..., :1].logsumexp(-1), x[..., 1:].logsumexp(-1))


@rule(args={"x": "... n"}, where=["n >= 1"], preserves=KEEPS)
class right_softmax_by_definition:
    """The maximum cancels, its gradient too."""

    def before(x): return x.softmax(-1)

    def after(x):
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)


@rule(args={"x": "... n"}, preserves=KEEPS)
class right_softmax_shifted:
    """A constant added to all cancels."""

    def before(x): return x.softmax(-1)
    def after(x): return (x + 3).softmax(-1)


@rule(args={"x": "... n"}, dtypes=FULL, preserves=KEEPS)
class right_softmax_of_twice_by_squares:
    """exp(2 x) is exp(x) squared, normalised anew."""

    def before(x): return (x * 2).softmax(-1)

    def after(x):
        s = x.softmax(-1).square()
        return s / s.sum(-1, keepdim=True)


@rule(args={"x": "k k"}, where=["k >= 1"], preserves=KEEPS)
class right_log_softmax_with_keepdim:
    """The kept dimension puts each row's sum beside its row."""

    def before(x): return x.log_softmax(1)
    def after(x): return x - x.logsumexp(1, keepdim=True)


@rule(args={"a": "m k", "b": "k n"}, preserves=KEEPS)
class right_matmul_split_inside:
    """The sum over k in two parts, of any sizes."""

    def before(a, b): return a @ b
    def after(a, b): return a[:, :1] @ b[:1] + a[:, 1:] @ b[1:]


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 2"], preserves=KEEPS)
class right_matmul_row_blocks:
    """Rows of the product come from rows of the left factor."""

    def before(a, b): return a @ b
    def after(a, b): return torch.cat([a[:1] @ b, a[1:] @ b], 0)


@rule(args={"a": "m k", "b": "k n", "c": "k n"}, preserves=KEEPS)
class right_matmul_distributes:
    """Multiplication is linear."""

    def before(a, b, c): return a @ (b + c)
    def after(a, b, c): return a @ b + a @ c


@rule(args={"a": "m k", "b": "k n", "c": "n p"}, preserves=KEEPS)
class right_matmul_associates:
    """Both ways are one double sum."""

    def before(a, b, c): return (a @ b) @ c
    def after(a, b, c): return a @ (b @ c)


@rule(args={"a": "m k", "b": "k n"}, preserves=KEEPS)
class right_matmul_as_product_and_sum:
    """The definition, with k in the middle."""

    def before(a, b): return a @ b
    def after(a, b): return (a[:, :, None] * b[None]).sum(1)


@rule(args={"a": "m k", "b": "k n"}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_integer_matmul_as_product_and_sum:
    """Wrapping sums do not depend on their order."""

    def before(a, b): return a @ b
    def after(a, b): return (a[:, :, None] * b[None]).sum(1).to(a.dtype)


@rule(args={"c": "n", "a": "m k", "b": "k n"}, preserves=KEEPS)
class right_addmm_unfused:
    """The bias is added to each row."""

    def before(c, a, b): return torch.addmm(c, a, b)
    def after(c, a, b): return a @ b + c


@rule(args={"a": "b m k", "c": "k n"}, where=["a.numel > 0", "c.numel > 0"], preserves=KEEPS)
class right_batch_merged_into_rows:
    """One right factor for all, so all rows may be multiplied at once."""

    def before(a, c): return a @ c
    def after(a, c): return (a.reshape(-1, c.shape[0]) @ c).reshape(a.shape[0], a.shape[1], c.shape[1])


@rule(args={"a": "m k", "b": "k m"}, preserves=KEEPS)
class right_trace_of_two_swapped:
    """Both traces sum a[i, j] b[j, i]."""

    def before(a, b): return (a @ b).trace()
    def after(a, b): return (b @ a).trace()


@rule(args={"v": "k", "a": "k n"}, preserves=KEEPS)
class right_diagonal_matrix_scales_rows:
    """A diagonal matrix on the left scales rows."""

    def before(v, a): return torch.diag(v) @ a
    def after(v, a): return v[:, None] * a


@rule(args={"x": "m k", "w": "n k"}, preserves=KEEPS)
class right_linear_transposes_its_weight:
    """Weights are stored by output."""

    def before(x, w): return F.linear(x, w)
    def after(x, w): return x @ w.mT


@rule(args={"x": "b c n", "w": "o c 1"}, where=["x.numel > 0", "w.numel > 0"], dtypes=FULL, preserves=KEEPS)
class right_convolution_of_width_one:
    """At each position a matrix product."""

    def before(x, w): return F.conv1d(x, w)
    def after(x, w): return w[:, :, 0] @ x


@rule(args={"x": "b 1 n", "w": "1 1 3"}, where=["b >= 1", "n >= 1"], dtypes=FULL, preserves=KEEPS)
class right_convolution_by_shifted_sums:
    """A correlation: w[0] meets the element before."""

    def before(x, w): return F.conv1d(x, w, padding=1)

    def after(x, w):
        p, n = F.pad(x, (1, 1)), x.shape[2]
        return sum(w[:, :, j : j + 1] * p[:, :, j : j + n] for j in range(3))


@rule(args={"x": "m n"}, preserves=KEEPS)
class right_sum_over_both_dimensions:
    """One dimension after the other."""

    def before(x): return x.sum(1).sum(0)
    def after(x): return x.sum((0, 1))


@rule(args={"x": "n"}, dtypes=("int64", "int32", "int8", "uint8"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_integer_sum_in_any_order:
    """Wrapping addition is associative and commutative."""

    def before(x): return x.sum()
    def after(x): return x.flip(0).cumsum(0)[-1:].sum()


@rule(args={"x": "n"}, preserves=KEEPS)
class right_cumulative_sum_as_matrix_product:
    """Row i of the lower triangle sums the first i + 1 elements."""

    def before(x): return x.cumsum(0)
    def after(x): return x.new_ones(x.shape[0], x.shape[0]).tril() @ x


@rule(args={"x": "n"}, dtypes=FULL, preserves=KEEPS)
class right_cumulative_sum_from_the_end:
    """What is not before an element, the element itself included."""

    def before(x): return x.flip(0).cumsum(0).flip(0)
    def after(x): return x.sum(0) - x.cumsum(0) + x


@rule(args={"x": "m n"}, where=["m >= 1"], claim=Level.BIT_EXACT, preserves=KEEPS)
class right_difference_of_neighbours:
    """The later less the earlier."""

    def before(x): return x.diff(dim=0)
    def after(x): return x[1:] - x[:-1]


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=FULL, claim=Level.BIT_EXACT, assumes=("no_nan",))
class right_first_maximum_by_comparison:
    """The first element that equals the maximum; NaN equals nothing and is assumed away."""

    def before(x): return x.argmax(-1)
    def after(x): return (x == x.amax(-1, keepdim=True)).to(torch.int8).argmax(-1)


@rule(args={"x": "... n"}, claim=Level.BIT_EXACT)
class right_count_of_what_is_not_zero:
    """NaN is not zero, -0.0 is."""

    def before(x): return x.count_nonzero(-1)
    def after(x): return (x != 0).sum(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=("dtype",))
class right_median_is_the_lower_middle:
    """Of an even number of elements median gives the lower of the two in the middle."""

    def before(x): return x.median(-1).values
    def after(x): return x.sort(-1).values[..., (x.shape[-1] - 1) // 2]


@rule(args={"x": "m n"}, where=["n >= 1", "m >= 1"], dtypes=FULL, preserves=KEEPS)
class right_layer_norm_by_definition:
    """The variance there divides by n."""

    def before(x): return F.layer_norm(x, x.shape[1:])

    def after(x):
        d = x - x.mean(1, keepdim=True)
        return d * (d.square().mean(1, keepdim=True) + 1e-5).rsqrt()


@rule(args={"x": "b c n"}, where=["n >= 2", "x.numel > 0"], dtypes=FULL, preserves=KEEPS)
class right_average_pool_without_the_remainder:
    """The odd element at the end is in no window."""

    def before(x): return F.avg_pool1d(x, 2)
    def after(x): return x[..., : x.shape[-1] // 2 * 2].unflatten(-1, (-1, 2)).mean(-1)


@rule(args={"x": "b c n"}, where=["n >= 2", "x.numel > 0"], dtypes=FULL, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=VALUE)
class right_maximum_pool_by_two_steps:
    """Even and odd elements side by side; both pass NaN on."""

    def before(x): return F.max_pool1d(x, 2)

    def after(x):
        h = x.shape[-1] // 2
        return torch.maximum(x[..., 0 : 2 * h : 2], x[..., 1 : 2 * h : 2])


@rule(args={"x": "... n"}, dtypes=FULL, preserves=VALUE)
class right_norm_by_squares:
    """The root of the sum of squares; gradients at 0 differ and are not promised."""

    def before(x): return torch.linalg.vector_norm(x, dim=-1)
    def after(x): return x.square().sum(-1).sqrt()


WITNESS = {
    "right_sum_of_unequal_parts": lambda: {"x": leaf(5, 3)},
    "right_mean_is_sum_over_size": lambda: {"x": normal(4, 37)},
    "right_mean_of_equal_halves": lambda: {"x": leaf(6)},
    "right_maximum_as_negated_minimum": lambda: {"x": torch.tensor([[1.0, 1.0, NAN], [2.0, 2.0, -INF]])},
    "right_integer_maximum_by_complement": lambda: {"x": torch.tensor([[-128, 5], [-128, -128]], dtype=torch.int8)},
    "right_maximum_over_one_dimension_at_a_time": lambda: {"x": torch.tensor([[1.0, 1.0], [1.0, 0.0]])},
    "right_product_of_parts": lambda: {"x": normal(0, 3)},
    "right_product_by_logarithms": lambda: {"x": normal(3, 4).abs()},
    "right_all_by_counting": lambda: {"x": torch.tensor([[True, False], [True, True]])},
    "right_any_by_counting": lambda: {"x": torch.full((2, 256), 255, dtype=torch.uint8)},
    "right_variance_by_moments": lambda: {"x": leaf(3, 5)},
    "right_deviation_corrected_by_a_root": lambda: {"x": normal(3, 2)},
    "right_logsumexp_of_parts": lambda: {"x": leaf(3, 5)},
    "right_softmax_by_definition": lambda: {"x": leaf(3, 1)},
    "right_softmax_shifted": lambda: {"x": leaf(3, 4)},
    "right_softmax_of_twice_by_squares": lambda: {"x": leaf(3, 4)},
    "right_log_softmax_with_keepdim": lambda: {"x": leaf(3, 3)},
    "right_matmul_split_inside": lambda: {"a": leaf(3, 4), "b": normal(4, 2)},
    "right_matmul_row_blocks": lambda: {"a": leaf(3, 4), "b": normal(4, 2)},
    "right_matmul_distributes": lambda: {"a": leaf(3, 4), "b": normal(4, 2), "c": normal(4, 2, seed=1)},
    "right_matmul_associates": lambda: {"a": leaf(3, 4), "b": normal(4, 2), "c": normal(2, 5)},
    "right_matmul_as_product_and_sum": lambda: {"a": leaf(3, 4), "b": normal(4, 2)},
    "right_integer_matmul_as_product_and_sum": lambda: {"a": torch.tensor([[2**62, 3]]), "b": torch.tensor([[4], [5]])},
    "right_addmm_unfused": lambda: {"c": normal(2), "a": leaf(3, 4), "b": normal(4, 2)},
    "right_batch_merged_into_rows": lambda: {"a": leaf(2, 3, 4), "c": normal(4, 2)},
    "right_trace_of_two_swapped": lambda: {"a": leaf(3, 4), "b": normal(4, 3)},
    "right_diagonal_matrix_scales_rows": lambda: {"v": leaf(3), "a": normal(3, 3)},
    "right_linear_transposes_its_weight": lambda: {"x": leaf(2, 3), "w": normal(3, 3)},
    "right_convolution_of_width_one": lambda: {"x": leaf(2, 3, 5), "w": normal(4, 3, 1)},
    "right_convolution_by_shifted_sums": lambda: {"x": leaf(2, 1, 5), "w": normal(1, 1, 3)},
    "right_sum_over_both_dimensions": lambda: {"x": leaf(3, 4)},
    "right_integer_sum_in_any_order": lambda: {"x": torch.tensor([2**62, 2**62, 2**62, -5])},
    "right_cumulative_sum_as_matrix_product": lambda: {"x": leaf(5)},
    "right_cumulative_sum_from_the_end": lambda: {"x": leaf(5)},
    "right_difference_of_neighbours": lambda: {"x": torch.tensor(ODD)[:, None]},
    "right_first_maximum_by_comparison": lambda: {"x": torch.tensor([[2.0, INF, INF], [0.0, -0.0, 0.0]])},
    "right_count_of_what_is_not_zero": lambda: {"x": torch.tensor(ODD)},
    "right_median_is_the_lower_middle": lambda: {"x": torch.tensor([[4, 1, 3, 2]])},
    "right_layer_norm_by_definition": lambda: {"x": leaf(3, 4)},
    "right_average_pool_without_the_remainder": lambda: {"x": leaf(1, 2, 5)},
    "right_maximum_pool_by_two_steps": lambda: {"x": torch.tensor([[[1.0, NAN, 2.0, 3.0, 9.0]]])},
    "right_norm_by_squares": lambda: {"x": normal(3, 4)},
}
