"""The strongest level that is true of each rule of constant.py, and arguments that show it."""

import torch

TRUTH = {}
D = torch.float64


def w(name, level, values, dtype=D, **more):
    TRUTH["constant_" + name] = {"level": level, "witness": lambda: (torch.tensor(values, dtype=dtype),), **more}


w("third_in_seven_digits", "REFUTED", [1.0])
w("third_in_six_digits_single", "REFUTED", [1.0], torch.float32)
w("sixth_rounded_to_single", "REFUTED", [1.0])
w("tenth_rounded_to_single", "REFUTED", [1.0])
w("deg2rad_nine_digits", "REFUTED", [180.0])
w("rad2deg_seven_digits", "REFUTED", [1.0])
w("exp_as_power_of_e", "REFUTED", [20.0])
w("log2_by_seven_digits", "REFUTED", [8.0])
w("exp2_by_nine_digits", "REFUTED", [30.0])
w("gelu_by_erf_eight_digits", "REFUTED", [1.0])
w("log10_by_seven_digits", "REFUTED", [1000.0])
w("gelu_tanh_eight_digits", "REFUTED", [1.0])
w("cube_root_rounded_exponent", "REFUTED", [1000.0])
w("pi_as_single_tensor", "REFUTED", [1.0])
w("sigmoid_by_exp2", "REFUTED", [-2.0])
w("log_cosh_four_digits", "REFUTED", [1.0], torch.float32)
w("mean_of_seven", "REFUTED", [1.0] * 7)
w("eps_rounded_to_single", "REFUTED", [0.0])
w("sum_constant_in_single", "REFUTED", [1.0])
w("through_single_scale", "REFUTED", [1.0])
w("third_in_twelve_digits", "REFUTED", [1.0], why="relative error 1e-12; no double nearest to 1/3")
w("pi_in_twelve_digits", "REFUTED", [1.0], why="relative error 7e-14, 300 units in the last place")
