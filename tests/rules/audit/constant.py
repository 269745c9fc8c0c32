"""Constants that were rounded: to float32, to some digits."""

import math

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
D = ("float64",)
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_third_in_seven_digits:
    """Divides by three by a product."""

    def before(x):
        return x / 3

    def after(x):
        return x * 0.3333333


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.EXACT_REAL, preserves=KEPT)
class constant_third_in_six_digits_single:
    """Divides by three by a product, in float32."""

    def before(x):
        return x / 3

    def after(x):
        return x * 0.333333


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_sixth_rounded_to_single:
    """Divides by six by the float32 nearest to a sixth."""

    def before(x):
        return x / 6

    def after(x):
        return x * 0.16666667163372040


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_tenth_rounded_to_single:
    """Multiplies by a tenth that went through float32."""

    def before(x):
        return x * 0.1

    def after(x):
        return x * 0.10000000149011612


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_deg2rad_nine_digits:
    """Converts degrees by pi to nine digits."""

    def before(x):
        return torch.deg2rad(x)

    def after(x):
        return x * (3.14159265 / 180)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_rad2deg_seven_digits:
    """Converts radians by 180 / pi to seven digits."""

    def before(x):
        return torch.rad2deg(x)

    def after(x):
        return x * 57.29578


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_exp_as_power_of_e:
    """Takes exp as a power of e to ten digits."""

    def before(x):
        return torch.exp(x)

    def after(x):
        return torch.pow(2.718281828, x)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, assumes=("nonneg", "nonzero", "finite"), preserves=KEPT)
class constant_log2_by_seven_digits:
    """Takes log2 by the natural logarithm and log(2) to seven digits."""

    def before(x):
        return torch.log2(x)

    def after(x):
        return torch.log(x) / 0.6931472


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_exp2_by_nine_digits:
    """Takes exp2 by exp and log(2) to nine digits."""

    def before(x):
        return torch.exp2(x)

    def after(x):
        return torch.exp(x * 0.693147181)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_gelu_by_erf_eight_digits:
    """Takes gelu by erf and the root of one half to eight digits."""

    def before(x):
        return F.gelu(x)

    def after(x):
        return x * 0.5 * (1 + torch.erf(x * 0.70710678))


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, assumes=("nonneg", "nonzero", "finite"), preserves=KEPT)
class constant_log10_by_seven_digits:
    """Takes log10 by the natural logarithm."""

    def before(x):
        return torch.log10(x)

    def after(x):
        return torch.log(x) * 0.4342945


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_gelu_tanh_eight_digits:
    """Takes the tanh form of gelu with sqrt(2 / pi) to eight digits."""

    def before(x):
        return F.gelu(x, approximate="tanh")

    def after(x):
        return x * 0.5 * (1 + torch.tanh((x + x * x * x * 0.044715) * 0.79788456))


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, assumes=("nonneg", "finite"), preserves=KEPT)
class constant_cube_root_rounded_exponent:
    """Takes the cube root with the exponent to eight digits."""

    def before(x):
        return torch.pow(x, 1 / 3)

    def after(x):
        return torch.pow(x, 0.33333333)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_pi_as_single_tensor:
    """Multiplies by pi held in a 0-dim float32 tensor."""

    def before(x):
        return x * math.pi

    def after(x):
        return x * torch.full((), math.pi, dtype=torch.float32, device=x.device)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_sigmoid_by_exp2:
    """Takes sigmoid by exp2, as GPU kernels do, with log2(e) to seven digits."""

    def before(x):
        return torch.sigmoid(x)

    def after(x):
        return 1 / (1 + torch.exp2(x * -1.442695))


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.EXACT_REAL, preserves=KEPT)
class constant_log_cosh_four_digits:
    """Takes log(cosh(x)) stably with log(2) to four digits."""

    def before(x):
        return torch.log(torch.cosh(x))

    def after(x):
        return x.abs() + F.softplus(x.abs() * -2) - 0.6931


@rule(args={"x": "... n"}, where=["n == 7"], dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_mean_of_seven:
    """Takes the mean of seven by a product with a seventh to six digits."""

    def before(x):
        return x.mean(-1)

    def after(x):
        return x.sum(-1) * 0.142857


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, assumes=("nonneg",), preserves=KEPT)
class constant_eps_rounded_to_single:
    """Adds an eps that went through float32."""

    def before(x):
        return torch.rsqrt(x + 1e-5)

    def after(x):
        return torch.rsqrt(x + 9.999999747378752e-06)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_sum_constant_in_single:
    """Adds the root of two from a float32 buffer."""

    def before(x):
        return x + math.sqrt(2)

    def after(x):
        return x + torch.full(x.shape, math.sqrt(2), dtype=torch.float32, device=x.device)


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_through_single_scale:
    """Folds the two scales 0.7 and 1/0.7 that come from float32 code."""

    def before(x):
        return x * 0.7 * 1.4285714626312256

    def after(x):
        return x * 1.0


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_third_in_twelve_digits:
    """Divides by three by a product with twelve digits of a third."""

    def before(x):
        return x / 3

    def after(x):
        return x * 0.333333333333


@rule(args={"x": "..."}, dtypes=D, claim=Level.EXACT_REAL, preserves=KEPT)
class constant_pi_in_twelve_digits:
    """Multiplies by pi to twelve digits."""

    def before(x):
        return x * math.pi

    def after(x):
        return x * 3.14159265359
