"""The strongest level that is true of each rule of narrow.py, and arguments that show it."""

import torch

t = torch.tensor
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["narrow_" + name] = {"level": level, "witness": witness, **more}


w("trunc_via_int8", "REFUTED", lambda: (t([200.0]),))
w("trunc_via_int32", "REFUTED", lambda: (t([3e9], dtype=torch.float64),))
w("floor_via_int64", "REFUTED", lambda: (t([-0.5, -2.25]),))
w("int16_square_then_float", "REFUTED", lambda: (t([182], dtype=torch.int16),))
w("uint8_absolute_difference", "REFUTED", lambda: (t([1], dtype=torch.uint8), t([3], dtype=torch.uint8)))
w("uint8_average", "REFUTED", lambda: (t([200], dtype=torch.uint8), t([100], dtype=torch.uint8)))
w("int8_neg_then_float", "REFUTED", lambda: (t([-128], dtype=torch.int8),))
w("int8_abs_then_float", "REFUTED", lambda: (t([-128], dtype=torch.int8),))
w("fmod_as_percent", "REFUTED", lambda: (t([-7]), t([3])))
w("trunc_div_by_shift", "REFUTED", lambda: (t([-7]),))
w("shift_before_widening", "REFUTED", lambda: (t([17], dtype=torch.uint8),))
w(
    "shift_as_power_quotient",
    "REFUTED",
    lambda: (t([5], dtype=torch.int32), t([31], dtype=torch.int32)),
    arguable=("UNDER_PRECONDITION",),
    why="shifts of at most 30 agree; the divisor is INT_MIN at 31 and 0 from 32 on",
)
w("mean_by_integer_division", "REFUTED", lambda: (t([1, 2]),))
w("clamp_after_uint8_cast", "REFUTED", lambda: (t([300.0, -1.0]),))
w("floor_divide_as_floor_of_quotient", "EXACT_REAL", lambda: (t([1.0]), t([0.1])))
w(
    "int_floor_division_through_float32",
    "REFUTED",
    lambda: (t([16777217], dtype=torch.int32), t([1], dtype=torch.int32)),
    arguable=("EXACT_REAL",),
    why="over the reals the float division is exact and only its rounding is wrong",
)
w("zero_point_in_uint8", "REFUTED", lambda: (t([5], dtype=torch.uint8),))
w("int8_dot_product", "REFUTED", lambda: (t([16, 3], dtype=torch.int8), t([16, 4], dtype=torch.int8)))
w(
    "int16_trip_through_half",
    "REFUTED",
    lambda: (t([2049], dtype=torch.int16),),
    arguable=("EXACT_REAL",),
    why="the cast to float16 rounds",
)
w(
    "int64_trip_through_double",
    "REFUTED",
    lambda: (t([2**53 + 1]),),
    arguable=("EXACT_REAL",),
    why="the cast to float64 rounds",
)
w("average_by_shift", "REFUTED", lambda: (t([2**31 - 1], dtype=torch.int32), t([1], dtype=torch.int32)))
w("less_by_difference", "REFUTED", lambda: (t([-(2**63)]), t([1])))
w("distance_by_abs", "REFUTED", lambda: (t([-100], dtype=torch.int8), t([100], dtype=torch.int8)))
