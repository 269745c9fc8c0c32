"""The strongest level that is true of each rule of tie.py, and arguments that show it."""

import torch

t = torch.tensor
TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["tie_" + name] = {"level": level, "witness": witness, **more}


R = "REFUTED"
w("round_half_up", R, lambda: (t([0.5, 2.5]),))
w("round_half_away", R, lambda: (t([0.5, 2.5]),))
w("argmax_of_flipped", R, lambda: (t([1.0, 3.0, 3.0]),))
w("argmax_as_topk", R, lambda: (t([1.0, 3.0, 3.0, 2.0, 3.0]),))
w("argmin_as_last_of_descending", R, lambda: (t([1.0, 1.0, 3.0]),))
w("heaviside_as_comparison", R, lambda: (t([0.0]), t([0.5])))
w("sign_by_one_comparison", R, lambda: (t([0.0]),))
w("relu6_gate", R, lambda: (t([0.0, 6.0]),))
w("bucketize_counts_equal", R, lambda: (t([1.0]), t([0.0, 1.0])))
w("median_upper", R, lambda: (t([1.0, 2.0]),))
w("mode_first_most_frequent", R, lambda: (t([2, 2, 1, 1]),))
w("within_strictly", R, lambda: (t([1.0]), t([0.5]), 0.5))
w("topk_mask_by_threshold", R, lambda: (t([3.0, 2.0, 2.0]),))
w("argsort_of_reverse", R, lambda: (t([1.0, 1.0]),))
w("ceil_as_floor_plus_one", R, lambda: (t([2.0]),))
w("histogram_open_at_the_end", R, lambda: (t([1.0]),))
w("cummax_first_index", R, lambda: (t([3.0, 3.0]),))
w("index_of_larger", R, lambda: (t([3.0]), t([3.0])))
w("one_hot_of_maximum", R, lambda: (t([3.0, 3.0]),))

ER = "EXACT_REAL"
ROUND = {"arguable": (R,), "why": "only a rounding decides the comparison"}
w("compare_with_tenth_in_double", ER, lambda: (t([0.1]),), **ROUND)
w("compare_scaled", ER, lambda: (t([0.3], dtype=torch.float64),), **ROUND)
w("compare_squares", ER, lambda: (t([1e-30]),), arguable=(R,), why="the square underflows")
w("equal_by_sum", ER, lambda: (t([1.0], dtype=torch.float16), t([4e-4], dtype=torch.float16)), **ROUND)
