"""Wrong rules about sums, means, extremes, softmax and products: chunks, empty dimensions, wrong axes, bits."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "mutation", "gradient")
VALUE = ("dtype", "mutation")
FULL = ("float32", "float64")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@rule(args={"x": "n"}, where=["n >= 2"], preserves=KEEPS)
class wrong_mean_of_halves:
    """Halves of an odd n are of unequal size and weigh unequally; even sizes agree."""

    def before(x): return x.mean()

    def after(x):
        h = x.shape[0] // 2
        return (x[:h].mean() + x[h:].mean()) / 2


@rule(args={"x": "n"}, where=["n >= 3"], preserves=KEEPS)
class wrong_sum_by_threes_drops_a_single_tail:
    """Only where n % 3 is 1 a last element is left over that no part takes."""

    def before(x): return x.sum()

    def after(x):
        n = x.shape[0]
        m = n - n % 3
        tail = x[m : m + 2].sum() if n % 3 == 2 else x[:0].sum()
        return x[:m].reshape(-1, 3).sum() + tail


@rule(args={"x": "m n"}, dtypes=FULL, preserves=VALUE)
class wrong_sum_as_mean_times_size:
    """The mean of no rows is NaN, their sum is 0."""

    def before(x): return x.sum(0)
    def after(x): return x.mean(0) * x.shape[0]


@rule(args={"x": "m n"}, preserves=VALUE)
class wrong_product_of_at_most_one_row:
    """The product of no rows is 1 and not 0."""

    def before(x): return x.prod(0)
    def after(x): return x.sum(0) if x.shape[0] < 2 else x[0] * x[1:].prod(0)


@rule(args={"x": "... n"}, dtypes=FULL, preserves=VALUE)
class wrong_product_by_logarithms:
    """The signs of negative factors are lost."""

    def before(x): return x.prod(-1)
    def after(x): return x.abs().log().sum(-1).exp()


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=FULL, preserves=VALUE)
class wrong_variance_of_one_element:
    """With one element n - 1 is 0 and eager gives NaN; the guarded divisor gives 0."""

    def before(x): return x.var(-1)
    def after(x): return (x - x.mean(-1, keepdim=True)).square().sum(-1) / max(x.shape[-1] - 1, 1)


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=FULL, preserves=VALUE)
class wrong_deviation_corrected_like_a_variance:
    """Deviations differ by the root of n / (n - 1)."""

    def before(x): return x.std(-1)
    def after(x): return x.std(-1, correction=0) * (x.shape[-1] / (x.shape[-1] - 1))


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int64", "int32", "int8"), claim=Level.BIT_EXACT,
      preserves=("dtype",))
class wrong_integer_maximum_by_negation:
    """The least number is its own negative, so it is taken for the largest."""

    def before(x): return x.amax(-1)
    def after(x): return -(-x).amin(-1)


@rule(args={"x": "... n"}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT)
class wrong_any_as_sum_unlike_zero:
    """1 and -1 cancel."""

    def before(x): return (x != 0).any(-1)
    def after(x): return x.sum(-1) != 0


@rule(args={"x": "... n"}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT)
class wrong_all_as_product_unlike_zero:
    """2^32 times 2^32 wraps to 0."""

    def before(x): return (x != 0).all(-1)
    def after(x): return x.prod(-1) != 0


@rule(args={"x": "... n"}, dtypes=("bool",), claim=Level.BIT_EXACT)
class wrong_all_as_some:
    """All of none are true, and some of none are not; only an empty dimension shows it."""

    def before(x): return x.all(-1)
    def after(x): return torch.logical_not(torch.logical_not(x).any(-1)) & torch.tensor(x.shape[-1] > 0)


@rule(args={"x": "... n"}, where=["n >= 2"], preserves=KEEPS)
class wrong_logsumexp_of_parts_added:
    """Parts are added before the logarithm, not after it."""

    def before(x): return x.logsumexp(-1)
    def after(x): return x[..., :1].logsumexp(-1) + x[..., 1:].logsumexp(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=FULL, preserves=VALUE)
class wrong_softmax_of_twice_not_normalised:
    """Squares of a distribution do not add up to 1, except of one element."""

    def before(x): return (x * 2).softmax(-1)
    def after(x): return x.softmax(-1).square()


@rule(args={"x": "k k"}, preserves=VALUE)
class wrong_log_softmax_without_keepdim:
    """Without the kept dimension row sums are taken off columns; only a square x lets it through."""

    def before(x): return x.log_softmax(1)
    def after(x): return x - x.logsumexp(1)


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], dtypes=FULL, preserves=KEEPS)
class wrong_layer_norm_with_corrected_variance:
    """The variance of a layer norm divides by n."""

    def before(x): return F.layer_norm(x, x.shape[1:])
    def after(x): return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt()


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], dtypes=FULL, preserves=KEEPS)
class wrong_layer_norm_with_epsilon_outside:
    """The epsilon is added under the root; it shows on rows that hardly vary."""

    def before(x): return F.layer_norm(x, x.shape[1:])

    def after(x):
        d = x - x.mean(1, keepdim=True)
        return d / (d.square().mean(1, keepdim=True).sqrt() + 1e-5)


@rule(args={"a": "k k", "b": "k k", "c": "k k"}, preserves=KEEPS)
class wrong_elementwise_product_associated_with_matmul:
    """An elementwise product does not pass through a matrix product."""

    def before(a, b, c): return (a * b) @ c
    def after(a, b, c): return a * (b @ c)


@rule(args={"a": "k k", "b": "k k", "c": "k k"}, preserves=KEEPS)
class wrong_trace_of_three_swapped:
    """A trace may be turned round, and not reordered."""

    def before(a, b, c): return (a @ b @ c).trace()
    def after(a, b, c): return (a @ c @ b).trace()


@rule(args={"v": "k", "a": "k k"}, preserves=KEEPS)
class wrong_diagonal_matrix_scales_columns:
    """On the left it scales rows."""

    def before(v, a): return torch.diag(v) @ a
    def after(v, a): return v * a


@rule(args={"x": "m k", "w": "k k"}, preserves=KEEPS)
class wrong_linear_without_transpose:
    """Weights are stored by output; a square weight fits both ways."""

    def before(x, w): return F.linear(x, w)
    def after(x, w): return x @ w


@rule(args={"a": "b m k", "c": "b k n"}, where=["b >= 1"], preserves=KEEPS)
class wrong_one_right_factor_for_all:
    """Every batch has its own right factor; with one batch nobody notices."""

    def before(a, c): return a @ c
    def after(a, c): return a @ c[0]


@rule(args={"x": "b 1 n", "w": "1 1 3"}, where=["b >= 1", "n >= 1"], dtypes=FULL, preserves=KEEPS)
class wrong_convolution_with_a_flipped_kernel:
    """conv1d is a correlation; a symmetric kernel hides it."""

    def before(x, w): return F.conv1d(x, w, padding=1)
    def after(x, w): return F.conv1d(x, w.flip(-1), padding=1)


@rule(args={"a": "m k", "b": "k n"}, dtypes=("float32",), where=["k >= 2"], claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_matmul_split_inside_claimed_exact:
    """Partial sums are rounded in another order."""

    def before(a, b): return a @ b
    def after(a, b): return a[:, :1] @ b[:1] + a[:, 1:] @ b[1:]


@rule(args={"x": "n"}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_sum_in_another_order_claimed_exact:
    """Floating-point sums depend on their order."""

    def before(x): return x.sum()
    def after(x): return x.cumsum(0)[-1:].sum()


@rule(args={"x": "... n"}, dtypes=("float16", "bfloat16"), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_mean_is_sum_over_size_in_16_bits:
    """mean rounds to 16 bits once, at the end; the sum is rounded before it is divided."""

    def before(x): return x.mean(-1)
    def after(x): return x.sum(-1) / x.shape[-1]


@rule(args={"x": "n"}, dtypes=FULL, preserves=VALUE)
class wrong_cumulative_sum_from_the_end:
    """What remains after an element leaves the element itself out."""

    def before(x): return x.flip(0).cumsum(0).flip(0)
    def after(x): return x.sum(0) - x.cumsum(0)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=FULL, claim=Level.BIT_EXACT)
class wrong_first_maximum_by_comparison:
    """NaN is the maximum and equals nothing: eager gives its place, this gives 0."""

    def before(x): return x.argmax(-1)
    def after(x): return (x == x.amax(-1, keepdim=True)).to(torch.int8).argmax(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int64", "float32"), claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype",))
class wrong_median_is_the_upper_middle:
    """Of an even number of elements median gives the lower of the two in the middle."""

    def before(x): return x.median(-1).values
    def after(x): return x.sort(-1).values[..., x.shape[-1] // 2]


@rule(args={"x": "b c n"}, where=["n >= 2", "x.numel > 0"], dtypes=FULL, preserves=KEEPS)
class wrong_average_pool_of_the_last_elements:
    """Of an odd n the last element is in no window, not the first."""

    def before(x): return F.avg_pool1d(x, 2)
    def after(x): return x[..., x.shape[-1] % 2 :].unflatten(-1, (-1, 2)).mean(-1)


WITNESS = {
    "wrong_mean_of_halves": lambda: {"x": normal(5)},
    "wrong_sum_by_threes_drops_a_single_tail": lambda: {"x": normal(7)},
    "wrong_sum_as_mean_times_size": lambda: {"x": normal(0, 2)},
    "wrong_product_of_at_most_one_row": lambda: {"x": normal(0, 2)},
    "wrong_product_by_logarithms": lambda: {"x": torch.tensor([-1.0, 2.0])},
    "wrong_variance_of_one_element": lambda: {"x": normal(3, 1)},
    "wrong_deviation_corrected_like_a_variance": lambda: {"x": normal(3, 4)},
    "wrong_integer_maximum_by_negation": lambda: {"x": torch.tensor([5, -128], dtype=torch.int8)},
    "wrong_any_as_sum_unlike_zero": lambda: {"x": torch.tensor([1, -1])},
    "wrong_all_as_product_unlike_zero": lambda: {"x": torch.tensor([2**32, 2**32])},
    "wrong_all_as_some": lambda: {"x": torch.zeros(2, 0, dtype=torch.bool)},
    "wrong_logsumexp_of_parts_added": lambda: {"x": normal(3, 4)},
    "wrong_softmax_of_twice_not_normalised": lambda: {"x": normal(3, 4)},
    "wrong_log_softmax_without_keepdim": lambda: {"x": normal(3, 3)},
    "wrong_layer_norm_with_corrected_variance": lambda: {"x": normal(3, 4)},
    "wrong_layer_norm_with_epsilon_outside": lambda: {"x": normal(3, 4)},
    "wrong_elementwise_product_associated_with_matmul": lambda: {
        "a": normal(2, 2), "b": normal(2, 2, seed=1), "c": normal(2, 2, seed=2)
    },
    "wrong_trace_of_three_swapped": lambda: {
        "a": normal(2, 2), "b": normal(2, 2, seed=1), "c": normal(2, 2, seed=2)
    },
    "wrong_diagonal_matrix_scales_columns": lambda: {"v": normal(3), "a": normal(3, 3)},
    "wrong_linear_without_transpose": lambda: {"x": normal(2, 3), "w": normal(3, 3)},
    "wrong_one_right_factor_for_all": lambda: {"a": normal(2, 3, 4), "c": normal(2, 4, 2)},
    "wrong_convolution_with_a_flipped_kernel": lambda: {"x": normal(2, 1, 5), "w": normal(1, 1, 3)},
    "wrong_matmul_split_inside_claimed_exact": lambda: {"a": normal(9, 33), "b": normal(33, 7)},
    "wrong_sum_in_another_order_claimed_exact": lambda: {"x": normal(999)},
    "wrong_mean_is_sum_over_size_in_16_bits": lambda: {"x": normal(50, 37).half()},
    "wrong_cumulative_sum_from_the_end": lambda: {"x": normal(5)},
    "wrong_first_maximum_by_comparison": lambda: {"x": torch.tensor([1.0, NAN, 3.0])},
    "wrong_median_is_the_upper_middle": lambda: {"x": torch.tensor([4, 1, 3, 2])},
    "wrong_average_pool_of_the_last_elements": lambda: {"x": normal(1, 2, 5)},
}  # fmt: skip
