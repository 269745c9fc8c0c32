"""Identity insertions: reductions and scans over one element, products with an identity matrix."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class identity_sum_one:
    """Sums over a new dimension of size 1.

    Why equivalent: One term, exact but for -0.0.
    Provokes: Reductions of length 1 are turned into copies by Inductor.
    """

    def after(x): return x.unsqueeze(0).sum(0, dtype=x.dtype)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class identity_sum_one_last:
    """Sums over a new last dimension of size 1, kept and squeezed.

    Why equivalent: As identity_sum_one on the inner side.
    """

    def after(x): return x.unsqueeze(-1).sum(-1, keepdim=True, dtype=x.dtype).squeeze(-1)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "mean"))
class identity_mean_one:
    """Averages over a new dimension of size 1.

    Why equivalent: One element, divided by 1.
    Provokes: mean's decomposition divides by the count.
    """

    def after(x): return x.unsqueeze(-1).mean(-1)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("kc", "amax"))
class identity_amax_one:
    """Takes the maximum over a new dimension of size 1.

    Why equivalent: One element; NaN stays.
    Limits: The gradient at NaN differs.
    """

    def after(x): return x.unsqueeze(0).amax(0)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("kc", "min"))
class identity_min_one:
    """Takes the values of min(dim) over a new last dimension of size 1.

    Why equivalent: One element.
    Provokes: A two-output reduction of which one output is used.
    """

    def after(x): return x.unsqueeze(-1).min(-1).values


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "cumsum"))
class identity_cumsum_one:
    """Takes the running sum over a new dimension of size 1.

    Why equivalent: One term.
    Provokes: Scans of length 1.
    """

    def after(x): return x.unsqueeze(0).cumsum(0, dtype=x.dtype).squeeze(0)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "prod"))
class identity_prod_one:
    """Takes the product over a new dimension of size 1.

    Why equivalent: One factor.
    """

    def after(x): return x.unsqueeze(0).prod(0, dtype=x.dtype)


@rule(args={"x": "..."}, dtypes=("float32", "float64"), site="value", claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "logsumexp"))
class identity_logsumexp_one:
    """Takes logsumexp over a new dimension of size 1.

    Why equivalent: log(exp(x)) is x over the reals; the shifted form computes log(1) + x.
    Limits: Finite values only.
    """

    def after(x): return torch.logsumexp(x.unsqueeze(-1), -1)


@rule(args={"x": "..."}, site="value", claim=Level.UNDER_PRECONDITION, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "softmax"))
class identity_softmax_one:
    """Multiplies x by the softmax over a new dimension of size 1.

    Why equivalent: That softmax is 1 for finite x (NaN for infinite x).
    Provokes: Softmax of length-1 rows.
    """

    def after(x): return x * F.softmax(x.unsqueeze(-1), -1).squeeze(-1)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "sort"))
class identity_sort_one:
    """Sorts a new dimension of size 1 and takes the values.

    Why equivalent: One element.
    Provokes: sort of length-1 rows; fallback or bitonic sort.
    """

    def after(x): return x.unsqueeze(-1).sort(-1).values.squeeze(-1)


@rule(args={"x": "... m n"}, where=["x.numel > 0"], site="value", claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "mm"))
class identity_matmul_eye:
    """Multiplies by the identity matrix on the right.

    Why equivalent: Each sum has one nonzero term.
    Provokes: A template or extern matmul.
    Limits: 0 * inf would be NaN, so finite values only.
    """

    def after(x): return x @ torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


@rule(args={"x": "... n"}, where=["x.numel > 0"], site="value", claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "addmm"))
class identity_linear_eye:
    """Applies a linear layer with identity weight and zero bias.

    Why equivalent: Each sum has one nonzero term.
    Provokes: addmm with uniform bias.
    Limits: Finite values only.
    """

    def after(x):
        return F.linear(x, torch.eye(x.shape[-1], dtype=x.dtype, device=x.device), x.new_zeros(x.shape[-1]))


@rule(args={"x": "n c l"}, where=["x.numel > 0"], dtypes=("float32", "float64"), site="value",
      claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "conv", "ilp"))
class identity_conv_one:
    """Convolves each channel with a one-tap kernel of weight 1.

    Why equivalent: A depthwise convolution by 1.
    Provokes: Conv lowering with groups and its layout constraints.
    """

    def after(x): return F.conv1d(x, x.new_ones(x.shape[1], 1, 1), groups=x.shape[1])


@rule(args={"x": "n c h w"}, where=["x.numel > 0"], dtypes=("float32", "float64"), site="value",
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "avg_pool2d"))
class identity_avg_pool_one:
    """Average-pools with a 1x1 window.

    Why equivalent: Each window is one element.
    Provokes: Pooling lowering and its backward.
    """

    def after(x): return F.avg_pool2d(x, 1)


@rule(args={"x": "n c h w"}, where=["x.numel > 0"], dtypes=("float32", "float64"), site="value",
      claim=Level.EXACT_REAL, assumes=("no_nan",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "max_pool2d"))
class identity_max_pool_one:
    """Max-pools with a 1x1 window.

    Why equivalent: Each window is one element.
    Provokes: Low-memory max pool and its index arithmetic.
    """

    def after(x): return F.max_pool2d(x, 1)


@rule(args={"x": "n c h w"}, where=["x.numel > 0"], dtypes=("float32", "float64"), site="value",
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iod", "upsample_nearest2d"))
class identity_interpolate_same:
    """Resizes to its own size by nearest neighbour.

    Why equivalent: Each pixel maps to itself.
    Provokes: Index computation in floating point inside the kernel.
    """

    def after(x): return F.interpolate(x, size=x.shape[-2:], mode="nearest")
