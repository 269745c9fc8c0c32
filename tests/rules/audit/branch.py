"""Parameters whose value chooses a branch."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
KEPT = ("dtype", "mutation")


@rule(
    args={"x": "..."},
    where=["type(b) in (int, float)", "b > 0", "type(t) in (int, float)"],
    scalars={"b": None, "t": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_softplus_any_threshold:
    """Takes softplus by log1p of exp, whatever the threshold."""

    def before(x, b, t):
        return F.softplus(x, b, t)

    def after(x, b):
        return torch.log1p(torch.exp(x * b)) / b


@rule(
    args={"x": "..."},
    where=["type(lo) in (int, float)", "type(hi) in (int, float)"],
    scalars={"lo": None, "hi": None},
    dtypes=WIDE,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    preserves=KEPT,
)
class branch_clamp_upper_first:
    """Clamps above, then below, without asking lo <= hi."""

    def before(x, lo, hi):
        return torch.clamp(x, lo, hi)

    def after(x, lo, hi):
        return x.clamp(max=hi).clamp(min=lo)


@rule(
    args={"x": "..."},
    where=["type(c) is float", "c > 0"],
    scalars={"c": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_hardshrink_open_interval:
    """Keeps what is at least lambda in absolute value."""

    def before(x, c):
        return F.hardshrink(x, c)

    def after(x, c):
        return torch.where(x.abs() >= c, x, torch.zeros_like(x))


@rule(
    args={"x": "..."},
    where=["type(c) is float", "c >= 0"],
    scalars={"c": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_softshrink_as_x_minus_sign:
    """Takes softshrink as x - c * sign(x) outside the half interval."""

    def before(x, c):
        return F.softshrink(x, c)

    def after(x, c):
        return torch.where(x.abs() > c / 2, x - c * torch.sign(x), torch.zeros_like(x))


@rule(
    args={"x": "..."},
    where=["type(c) in (int, float)", "type(v) in (int, float)", "c <= v"],
    scalars={"c": None, "v": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_threshold_as_clamp:
    """Takes threshold as a clamp at the replacement value."""

    def before(x, c, v):
        return F.threshold(x, c, v)

    def after(x, v):
        return x.clamp(min=v)


@rule(
    args={"x": "..."},
    where=["type(a) in (int, float)"],
    scalars={"a": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_elu_as_max_and_min:
    """Takes elu as max(0, x) + min(0, a * expm1(x)), as the documentation of celu does."""

    def before(x, a):
        return F.elu(x, a)

    def after(x, a):
        return x.clamp(min=0) + (a * torch.expm1(x)).clamp(max=0)


@rule(
    args={"x": "..."},
    where=["type(a) is float", "a > 0"],
    scalars={"a": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_celu_as_elu:
    """Takes celu by elu of the same alpha."""

    def before(x, a):
        return F.celu(x, a)

    def after(x, a):
        return torch.where(x > 0, x, a * torch.expm1(x))


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "type(d) is float", "d > 0"],
    scalars={"d": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_huber_as_smooth_l1:
    """Takes the Huber loss as smooth L1 with beta = delta."""

    def before(x, y, d):
        return F.huber_loss(x, y, reduction="none", delta=d)

    def after(x, y, d):
        return F.smooth_l1_loss(x, y, reduction="none", beta=d)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "type(b) in (int, float)", "b >= 0"],
    scalars={"b": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_smooth_l1_by_clamped_distance:
    """Takes smooth L1 from the distance clamped at beta (beta = 0 is allowed)."""

    def before(x, y, b):
        return F.smooth_l1_loss(x, y, reduction="none", beta=b)

    def after(x, y, b):
        d = (x - y).abs()
        c = d.clamp(max=b)
        return c * c * 0.5 / torch.full_like(c, b) + (d - c)


@rule(
    args={"x": "...", "y": "..."},
    where=["type(r) is float", "0 <= r", "type(a) is float", "0 <= a"],
    scalars={"r": None, "a": None},
    dtypes=WIDE,
    assumes=("finite",),
    claim=Level.UNDER_PRECONDITION,
    preserves=KEPT,
)
class branch_isclose_as_in_math:
    """Compares closeness symmetrically, as math.isclose does."""

    def before(x, y, r, a):
        return torch.isclose(x, y, rtol=r, atol=a)

    def after(x, y, r, a):
        return (x - y).abs() <= (torch.maximum(x.abs(), y.abs()) * r).clamp(min=a)


@rule(
    args={"x": "..."},
    where=["type(c) is float", "type(p) is float", "type(q) is float", "q < p"],
    scalars={"c": None, "p": None, "q": None},
    dtypes=WIDE,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class branch_nan_to_num_as_clamp:
    """Replaces NaN by a select and infinities by a clamp."""

    def before(x, c, p, q):
        return torch.nan_to_num(x, c, p, q)

    def after(x, c, p, q):
        return torch.where(torch.isnan(x), torch.full_like(x, c), x.clamp(min=q, max=p))


@rule(
    args={"x": "...", "b": "k"},
    where=["type(r) is bool"],
    scalars={"r": None},
    dtypes=WIDE,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class branch_bucketize_ignores_right:
    """Counts the boundaries below x, for both values of right."""

    def before(x, b, r):
        return torch.bucketize(x, b, right=r)

    def after(x, b):
        return (x.unsqueeze(-1) > b).sum(-1)


@rule(
    args={"x": "..."},
    where=["type(d) is int", "0 <= d <= 3"],
    scalars={"d": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_round_decimals_away_from_zero:
    """Rounds to decimals by scale, add one half and floor."""

    def before(x, d):
        return torch.round(x, decimals=d)

    def after(x, d):
        return torch.sign(x) * torch.floor(x.abs() * 10**d + 0.5) / 10**d


@rule(
    args={"x": "..."},
    where=["type(s) in (int, float)", "s > 0"],
    scalars={"s": None},
    dtypes=WIDE,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    preserves=KEPT,
)
class branch_leaky_relu_as_maximum:
    """Takes leaky relu as the maximum of x and s * x."""

    def before(x, s):
        return F.leaky_relu(x, s)

    def after(x, s):
        return torch.maximum(x, x * s)


@rule(
    args={"x": "..."},
    where=["type(c) is int", "c >= 1"],
    scalars={"c": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_integer_power_by_logarithm:
    """Takes an integer power by exp and log."""

    def before(x, c):
        return x**c

    def after(x, c):
        return torch.exp(torch.log(x) * c)


@rule(
    args={"x": "..."},
    where=["type(e) is float", "0 < e < 0.5"],
    scalars={"e": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_logit_without_eps:
    """Takes logit by logarithms and leaves the clamp out, since eps only guards against infinities."""

    def before(x, e):
        return torch.logit(x, e)

    def after(x):
        return torch.log(x) - torch.log1p(-x)


@rule(
    args={"x": "... n"},
    where=["type(p) in (int, float)", "p > 0"],
    scalars={"p": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_norm_of_any_order:
    """Takes the p-norm by powers, for p = inf too."""

    def before(x, p):
        return torch.linalg.vector_norm(x, p, -1)

    def after(x, p):
        return x.abs().pow(p).sum(-1).pow(1.0 / p)


@rule(
    args={"x": "... n"},
    where=["type(e) is float", "0 < e <= 1", "n >= 1"],
    scalars={"e": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_normalize_adds_eps:
    """Normalises by the norm plus eps instead of the norm clamped at eps."""

    def before(x, e):
        return F.normalize(x, dim=-1, eps=e)

    def after(x, e):
        return x / (x.square().sum(-1, keepdim=True).sqrt() + e)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "type(c) is float", "0 <= c <= 1"],
    scalars={"c": None},
    dtypes=WIDE,
    assumes=("finite",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class branch_lerp_one_formula:
    """Interpolates by x + c * (y - x) for every weight."""

    def before(x, y, c):
        return torch.lerp(x, y, c)

    def after(x, y, c):
        return torch.add(x, y - x, alpha=c)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "type(m) in (int, float)"],
    scalars={"m": None},
    dtypes=WIDE,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class branch_hinge_margin_one:
    """Takes the margin ranking loss with the target 1 and the margin clamped at 0."""

    def before(x, y, m):
        return (y - x + m).clamp(min=0)

    def after(x, y, m):
        return (y - x).clamp(min=-m) + m if m >= 0 else (y - x).clamp(min=0) + m
