"""The strongest level that is true of each rule of lane.py, and arguments that show it."""

import torch

TRUTH = {}
f32, f64, f16, bf16 = torch.float32, torch.float64, torch.float16, torch.bfloat16


def w(name, level, *shapes, dtype=f32, shift=0.0, scale=2.0, seed=7, **more):
    def witness():
        g = torch.Generator().manual_seed(seed)
        return tuple((torch.randn(s, generator=g, dtype=f64) * scale + shift).to(dtype) for s in shapes)

    TRUTH["lane_" + name] = {"level": level, "witness": witness, **more}


E = "EXACT_REAL"
w("sigmoid_of_strided", E, (1000,))
w("sinh_by_columns", E, (100, 16))
w("exp2_first_alone", E, (37,), shift=2.3)
w("gelu_low_of_strided", E, (4000,), dtype=bf16)
w("rsqrt_low_of_strided", E, (1000,), dtype=f16)
w("gelu_tanh_one_by_one", E, (40,))
w("softplus_then_every_second", E, (1000,))
w("mish_then_column", E, (100, 4))
w("atan2_transposed_operand", E, (40, 50), (40, 50))
w("sum_of_flipped", E, (64, 97))
w("softmax_over_other_axis", E, (64, 97))
w("product_of_one_row", E, (64, 97), (97, 33))
w("mv_as_product_and_sum", E, (64, 97), (97,))
w("sum_of_transposed_copy", E, (64, 97))
w("axpy_low_of_strided", E, (1000,), (1000,), dtype=bf16)
w("logaddexp_by_element", E, (40,), (40,), seed=1)
w("addmm_in_two", E, (64, 33), (64, 97), (97, 33), dtype=f16)
w("prod_of_column_major", E, (64, 97), scale=1.0)
w("cosh_of_scalar", E, (40,), seed=8)
w("sum_of_first_columns", E, (64, 97))
w("atanh_of_repeated", E, (1000,), scale=0.2)
