"""The strongest level that is true of each rule of mixed.py, and arguments that show it."""

import torch

t = torch.tensor
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["mixed_" + name] = {"level": level, "witness": witness, **more}


R = "REFUTED"
w("index_clamped_at_zero", R, lambda: (t([1.0, 2.0, 3.0]), t([-1])))
w("take_of_absolute_index", R, lambda: (t([1.0, 2.0, 3.0]), t([-1])))
w("power_of_mask", R, lambda: (t([3.0]), t([2])))
w("where_nonzero_as_product", R, lambda: (t([3.0]), t([2])))
w("positive_as_bool", R, lambda: (t([3.0]), t([-1])))
w("sum_in_dtype_of_first", R, lambda: (t([3.0], dtype=torch.float16), t([1.0], dtype=torch.bfloat16)))
w("add_integer_in_double", "EXACT_REAL", lambda: (t([1.0]), t([16777217])))
w("bool_add_then_int", R, lambda: (t([True]), t([True])))
w(
    "int_quotient_in_double",
    "EXACT_REAL",
    lambda: (torch.arange(2**24 + 1, 2**24 + 4000, 2), t([3]).expand(2000)[:1].expand(2000).clone()),
)
w("index_add_by_assignment", R, lambda: (t([0.0, 0.0]), t([1, 1]), t([1.0, 2.0])))
w("rows_by_one_hot_product", R, lambda: (t([[1.0], [2.0]]), t([-1])))
w("ldexp_by_shift", R, lambda: (t([3.0]), t([-1])))
w("uint8_index", R, lambda: (t([1.0, 2.0]), t([1, 1], dtype=torch.uint8)))
w("copysign_of_integer", R, lambda: (t([3.0]), t([0])))
w("remainder_by_truncation", R, lambda: (t([-7.0]), t([3])))
w(
    "product_in_low_precision",
    "EXACT_REAL",
    lambda: (t([3.0], dtype=torch.float16), t([0.1])),
    arguable=(R,),
    why="the cast to 16 bits rounds",
)
w("odd_by_fmod", R, lambda: (t([3.0]), t([-1])))
w("cross_entropy_by_gather", R, lambda: (t([[1.0, 2.0], [0.5, 3.0]]), t([-100, 1])))
w("mask_and_as_product", R, lambda: (t([2]), t([True])))
w("compare_in_int32", R, lambda: (t([5], dtype=torch.int32), t([2**31])))
