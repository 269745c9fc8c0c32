"""The strongest level that is true of each rule of shared.py, and arguments that show it."""

import torch

TRUTH = {}


def w(name, level, witness, **more):
    TRUTH["shared_" + name] = {
        "level": level,
        "witness": witness,
        "why": "wrong where the two arguments share memory",
        **more,
    }


def both(*values, dtype=torch.float32):
    def make():
        x = torch.tensor(values, dtype=dtype)
        return x, x

    return make


def overlap(dtype=torch.float32, n=5):
    def make():
        b = torch.arange(1, n + 1).to(dtype)
        return b[:-1], b[1:]

    return make


def square():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x, x


def turned():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x, x.t()


def falling():
    b = torch.tensor([5.0, 4.0, 3.0, 2.0])
    return b[:-1], b[1:]


R = "REFUTED"
w("subtract_in_place_and_undo", R, both(5, 7, dtype=torch.int64))
w("swap_by_two_copies", R, overlap())
w("xor_swap", R, both(5, 7, dtype=torch.int64))
w("scale_other_in_place", R, both(5.0, 7.0))
w("add_twice_in_place", R, both(5.0, 7.0))
w("two_extrema_in_place", R, both(5.0, 7.0))
w("add_identity_in_place", R, square)
w("complement_in_place", R, both(True, False, dtype=torch.bool))
w("negate_other_in_place", R, both(5.0, 7.0))
w("reverse_in_place", R, both(5.0, 7.0))
w("tril_in_place", R, turned)
w("increment_and_undo", R, lambda: (torch.arange(5).unfold(0, 3, 1),), why="wrong where x overlaps itself")
w("swap_rows_through_view", R, lambda: (torch.tensor([[1.0], [2.0]]),), why="the saved row is overwritten")
w("addcmul_then_add", R, both(5.0, 7.0))
w("clear_other_while_reading", R, falling)
w("prefix_of_overlapping", R, both(5, 7, dtype=torch.int64))
w("restore_in_other_order", R, both(5.0, 7.0))
