"""Rules whose value is right and whose promised gradient is not, often at one point only."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
KEEPS = ("dtype", "gradient")
FULL = ("float32", "float64")


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class wrong_gradient_of_absolute_value:
    """At 0 abs has gradient 0, the selection 1."""

    def before(x): return x.abs()
    def after(x): return torch.where(x < 0, -x, x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_gradient_of_clamp_at_its_bounds:
    """At a bound clamp passes the gradient on, hardtanh does not."""

    def before(x): return x.clamp(-1, 1)
    def after(x): return F.hardtanh(x)


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class wrong_gradient_of_a_nested_maximum:
    """Over both dimensions three ties get a third each; one dimension after the other they get 1/4, 1/4 and 1/2."""

    def before(x): return x.amax((0, 1))
    def after(x): return x.amax(1).amax(0)


@rule(args={"x": "... n"}, dtypes=FULL, preserves=KEEPS)
class wrong_gradient_of_a_norm_at_zero:
    """At 0 the norm has gradient 0, the root of the sum of squares NaN."""

    def before(x): return torch.linalg.vector_norm(x, dim=-1)
    def after(x): return x.square().sum(-1).sqrt()


@rule(args={"x": "..."}, dtypes=FULL, preserves=KEEPS)
class wrong_gradient_of_a_root_of_a_square:
    """At 0 abs has gradient 0, the root NaN."""

    def before(x): return x.abs()
    def after(x): return x.square().sqrt()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_gradient_through_what_is_not_selected:
    """The unselected root of 0 has an infinite gradient, and 0 times that is NaN."""

    def before(x): return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0)
    def after(x): return torch.where(x > 0, x.sqrt(), 0.0)


@rule(args={"x": "..."}, dtypes=FULL, preserves=KEEPS)
class wrong_gradient_through_rounding:
    """Rounding has gradient 0; the value carried past it has gradient 1."""

    def before(x): return x.round()
    def after(x): return x + (x.round() - x).detach()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_gradient_of_half_a_sum:
    """One of the two terms is cut off."""

    def before(x): return x * 2
    def after(x): return x + x.detach()


@rule(args={"x": "n"}, where=["n >= 2"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class wrong_gradient_of_maximum_by_index:
    """amax shares the gradient among ties, max(0) gives it to one."""

    def before(x): return x.amax(0)
    def after(x): return x.max(0).values


@rule(args={"x": "..."}, dtypes=FULL, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_gradient_of_relu6_at_its_bounds:
    """At 6 clamp has gradient 1, relu6 none."""

    def before(x): return F.relu6(x)
    def after(x): return x.clamp(0, 6)


@rule(args={"x": "..."}, dtypes=FULL, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_gradient_needs_what_was_overwritten:
    """exp keeps its result for the backward pass, which then finds it overwritten and raises."""

    def before(x): return x.exp() * 2
    def after(x): return x.exp().mul_(2)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=KEEPS)
class wrong_gradient_of_larger_and_smaller:
    """Values agree, but beside a NaN maximum and minimum each pass the whole gradient on, so it counts twice."""

    def before(x, y): return x + y
    def after(x, y): return torch.maximum(x, y) + torch.minimum(x, y)


WITNESS = {
    "wrong_gradient_of_absolute_value": lambda: {"x": leaf(1.0, 0.0)},
    "wrong_gradient_of_clamp_at_its_bounds": lambda: {"x": leaf(0.5, 1.0)},
    "wrong_gradient_of_a_nested_maximum": lambda: {"x": leaf([1.0, 1.0], [1.0, 0.0])},
    "wrong_gradient_of_a_norm_at_zero": lambda: {"x": leaf([1.0, 2.0], [0.0, 0.0])},
    "wrong_gradient_of_a_root_of_a_square": lambda: {"x": leaf(1.0, 0.0)},
    "wrong_gradient_through_what_is_not_selected": lambda: {"x": leaf(1.0, 0.0)},
    "wrong_gradient_through_rounding": lambda: {"x": leaf(1.25, -0.75)},
    "wrong_gradient_of_half_a_sum": lambda: {"x": leaf(1.0, 2.0)},
    "wrong_gradient_of_maximum_by_index": lambda: {"x": leaf(1.0, 1.0)},
    "wrong_gradient_of_relu6_at_its_bounds": lambda: {"x": leaf(1.0, 6.0)},
    "wrong_gradient_needs_what_was_overwritten": lambda: {"x": leaf(1.0, 2.0)},
    "wrong_gradient_of_larger_and_smaller": lambda: {"x": leaf(1.0, float("nan")), "y": leaf(2.0, 1.0)},
}
