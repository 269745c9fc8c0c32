"""The strongest level that is true of each rule of special.py, and arguments that show it."""

import math

import torch

t = torch.tensor
nan, inf = math.nan, math.inf
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["special_" + name] = {"level": level, "witness": witness, **more}


U, Z, E, R = "UNDER_PRECONDITION", "BIT_EXACT_MOD_ZERO_SIGN", "EXACT_REAL", "REFUTED"
w("self_difference", U, lambda: (t([nan, inf, 1.0]),))
w("product_with_zero", U, lambda: (t([nan, inf, -1.0]),))
w("equal_to_itself", U, lambda: (t([nan, 1.0]),))
w("maximum_by_select", U, lambda: (t([nan]), t([1.0])))
w("add_zero", Z, lambda: (t([-0.0]),))
w("neg_as_zero_minus", Z, lambda: (t([0.0]),))
w("not_less", U, lambda: (t([nan]), t([1.0])))
w("fmax_as_maximum", U, lambda: (t([nan]), t([1.0])))
w("masked_fill_as_product", U, lambda: (t([inf, nan]), t([True, True])))
w("abs_by_comparison", Z, lambda: (t([-0.0]),))
w("abs_as_root_of_square", E, lambda: (t([1e30, 1e-30]),))
w("guarded_row_maximum", U, lambda: (t([-inf, -inf]),))
w(
    "sign_times_abs",
    Z,
    lambda: (t([-0.0, 1.0, -inf, nan]),),
    why="0 * nan is NaN and sign(nan) * nan is NaN; the level turns on the sign of zero alone",
)
w("self_quotient", U, lambda: (t([inf, nan]),))
w("isfinite_below_limit", R, lambda: (t([3.402e38]),))
w("clamp_by_tensor_as_where", U, lambda: (t([1.0]), t([nan])))
w("relu_as_mask_product", U, lambda: (t([-inf, 1.0]),))
w("mask_by_large_negative", R, lambda: (t([-1e4, -2.0]), t([False, True])))
w("negated_difference", Z, lambda: (t([1.0]), t([1.0])))
w("relu_by_positive_select", U, lambda: (t([nan, 1.0]),))
w(
    "signbit_by_comparison",
    U,
    lambda: (t([-0.0]),),
    arguable=("REFUTED", "EXACT_REAL"),
    why="the result is a truth value: right where x is no -0.0 and no NaN with its sign set",
)
