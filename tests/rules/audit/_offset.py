"""The strongest level that is true of each rule of offset.py, and arguments that show it."""

import torch

TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["offset_" + name] = {"level": level, "witness": witness, **more}


def a(n):
    return torch.arange(float(n))


R = "REFUTED"
w("same_view_from_zero", R, lambda: (a(5)[1:],))
w("transpose_by_shape", R, lambda: (a(6).reshape(3, 2).t(),))
w("drop_first_row", R, lambda: (a(12).reshape(4, 3)[1:],))
w("select_by_offset", R, lambda: (a(12).reshape(4, 3)[1:], 1))
w("diagonal_from_zero", R, lambda: (a(12).reshape(4, 3)[1:],))
w("flatten_dense", R, lambda: (a(6).reshape(3, 2).t(),))
w("window_of_unit_stride", R, lambda: (a(12).reshape(2, 6)[:, ::2],))
w("expand_by_zero_stride", R, lambda: (a(6)[::2],))
w("every_second_rounds_down", R, lambda: (a(6).reshape(2, 3),))
w("narrow_by_one_element", R, lambda: (a(6).reshape(3, 2).t(),))
w("row_by_width", R, lambda: (a(12).reshape(3, 4)[:, :3], 1))
w("scatter_row_from_start", R, lambda: (a(6).reshape(3, 2).t(), -a(3) - 1))
w("batch_transpose_from_zero", R, lambda: (a(12).reshape(3, 2, 2)[1:],))
w("first_row_of_contiguous", R, lambda: (a(12).reshape(3, 4)[:, 1:3],))
w("clone_keeps_strides", R, lambda: (a(12).reshape(2, 6)[:, ::2],))
w("tail_of_even_offset", R, lambda: (a(6)[1:],))
w("pairs_by_wider_view", R, lambda: (a(5)[1:],))
w("last_column_by_numel", R, lambda: (a(6).reshape(3, 2).t(),))
