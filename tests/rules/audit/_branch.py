"""The strongest level that is true of each rule of branch.py, and arguments that show it."""

import math

import torch

t = torch.tensor
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["branch_" + name] = {"level": level, "witness": witness, **more}


w("softplus_any_threshold", "REFUTED", lambda: (t([1.0]), 1.0, 0.5))
w("clamp_upper_first", "REFUTED", lambda: (t([0.0]), 2.0, 1.0))
w("hardshrink_open_interval", "REFUTED", lambda: (t([0.5]), 0.5))
w("softshrink_as_x_minus_sign", "REFUTED", lambda: (t([0.4]), 0.5))
w("threshold_as_clamp", "REFUTED", lambda: (t([0.7]), 0.5, 1.0))
w("elu_as_max_and_min", "REFUTED", lambda: (t([-1.0]), -1.0))
w("celu_as_elu", "REFUTED", lambda: (t([-1.0]), 2.0))
w("huber_as_smooth_l1", "REFUTED", lambda: (t([3.0]), t([0.0]), 2.0))
w(
    "smooth_l1_by_clamped_distance",
    "REFUTED",
    lambda: (t([3.0]), t([0.0]), 0.0),
    arguable=("EXACT_REAL",),
    why="at beta = 0 the result 3 becomes NaN; a quotient 0/0 that before does not have",
)
w("isclose_as_in_math", "REFUTED", lambda: (t([1.0]), t([1.25]), 0.125, 0.125))
w("nan_to_num_as_clamp", "REFUTED", lambda: (t([5.0]), 0.0, 1.0, -1.0))
w("bucketize_ignores_right", "REFUTED", lambda: (t([1.0]), t([0.0, 1.0, 2.0]), True))
w("round_decimals_away_from_zero", "REFUTED", lambda: (t([2.5, 0.5]), 0))
w("leaky_relu_as_maximum", "REFUTED", lambda: (t([1.0, -1.0]), 2.0))
w("integer_power_by_logarithm", "REFUTED", lambda: (t([-2.0]), 2))
w("logit_without_eps", "REFUTED", lambda: (t([0.001]), 0.01))
w("norm_of_any_order", "REFUTED", lambda: (t([1.0, 2.0]), math.inf))
w("normalize_adds_eps", "REFUTED", lambda: (t([1.0, 2.0]), 0.5))
w("lerp_one_formula", "EXACT_REAL", lambda: (t([0.1, 1e8]), t([0.7, 1.0]), 0.9))
w("hinge_margin_one", "REFUTED", lambda: (t([1.0]), t([0.0]), -0.5))
