"""The strongest level that is true of each rule of other.py, and arguments that show it."""

import torch

t = torch.tensor
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["other_" + name] = {"level": level, "witness": witness, **more}


R, E = "REFUTED", "EXACT_REAL"
w("low_sum_by_additions", E, lambda: (t([[2048.0, 1.0, 1.0]], dtype=torch.float16),))
w("population_variance", R, lambda: (t([1.0, 2.0]),))
w("variance_by_moments", E, lambda: (t([1e4, 1e4 + 1]),))
w("lost_keepdim", R, lambda: (t([[1.0, 2.0], [3.0, 5.0]]),))
w("unsqueeze_negative", R, lambda: (t([[1.0, 2.0, 3.0]]), -1))
w("sum_over_broadcast", R, lambda: (t([[1.0], [2.0]]), t([[1.0]])))
w("sum_keeps_dtype", R, lambda: (t([1, 2], dtype=torch.int32),))
w("sum_through_int32", R, lambda: (t([2**31 - 1, 1]),))
w(
    "abs_is_nonnegative",
    R,
    lambda: (t([-128], dtype=torch.int8),),
    arguable=("UNDER_PRECONDITION",),
    why="wrong for the least integer alone",
)
w("any_by_uint8_sum", R, lambda: (torch.ones(256, dtype=torch.bool),))
w("scalar_tensor_expanded", R, lambda: (t([1.0], dtype=torch.float16), t(2.0)))
w("floor_division_corrected", R, lambda: (t([-4]), t([1])))
w("mean_with_guarded_count", R, lambda: (torch.zeros(2, 0),))
w("relu_of_the_argument", R, lambda: (t([-1.0]),))
w("midpoint_of_halves", E, lambda: (t([60000.0], dtype=torch.float16), t([60000.0], dtype=torch.float16)))
w("angle_by_atan", R, lambda: (t([-1.0]), t([1.0])))
w("complex_square_modulus", R, lambda: (t([1.0]), t([2.0])))
w("average_pool_excludes_padding", R, lambda: (torch.ones(1, 1, 3, 3),))
w("compare_by_bits", R, lambda: (t([-1.0]), t([-2.0])))
w("uint8_neg_then_compare", R, lambda: (t([1], dtype=torch.uint8),))
w(
    "float_mean_of_integers",
    E,
    lambda: (t([2**24 + 1, 0]),),
    arguable=(R,),
    why="the conversion of an integer to float32 rounds",
)
w("flatten_of_permuted_view", R, lambda: (t([[1.0, 2.0], [3.0, 4.0]]),))
w(
    "sum_swapped_keeps_strides",
    "BIT_EXACT",
    lambda: (torch.zeros(3, 2).t(), torch.zeros(2, 3)),
    promise="stride",
    arguable=(R,),
)
w("reshape_copies", "INDEX_EXACT", lambda: (t([1.0]),), promise="alias", arguable=(R,))
w("relu_gradient_at_zero", "BIT_EXACT_MOD_ZERO_SIGN", lambda: (t([0.0]),), promise="gradient", arguable=(R,))
