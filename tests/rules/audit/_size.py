"""The strongest level that is true of each rule of size.py, and arguments that show it."""

import torch

TRUTH = {}


def w(name, level, *shapes, **more):
    def witness():
        out = []
        for s in shapes:
            n = 1
            for k in s:
                n *= k
            out.append(torch.arange(1.0, n + 1).reshape(s))
        return tuple(out)

    TRUTH["size_" + name] = {"level": level, "witness": witness, **more}


R = "REFUTED"
w("iota_uint8", R, (257,), why="from 257")
w("iota_int8_wrapped", R, (129,), why="from 129")
w("running_count_uint8", R, (257,), why="from 257")
w("iota_bfloat16", R, (258,), why="from 258")
w("positions_by_fraction", R, (22,), why="at 22, 44, ...")
w("sum_of_halves_from_17", R, (17,), why="odd from 17")
w("tree_sum_from_13", R, (13,), why="from 13, but for powers of two")
w("maximum_in_blocks_of_eight", R, (33,), why="from 33, but for multiples of 8")
w("digits_of_the_size", R, (100,), why="from 100")
w("product_seeded_by_first", R, (2, 0), why="at size 0")
w(
    "variance_with_guarded_count",
    R,
    (2, 1),
    why="at size 1: NaN becomes 0 (0/0 over the reals)",
    arguable=("EXACT_REAL",),
)
w("squeeze_everything", R, (1, 3), why="where an axis is 1")
w("square_blocks_from_33", R, (34,), why="from 33 where n % isqrt(n)")
w("flat_index_int16", R, (182, 182), why="from 182")
w("matmul_in_tiles_of_16", R, (1, 17), (17, 1), why="from 17, but for multiples of 16")
w("first_sixteen_parts", R, (1025,), why="from 1025")
w("amax_by_one_window", R, (1, 129), why="from 129")
w("parity_above_256", R, (257,), why="odd from 257")
