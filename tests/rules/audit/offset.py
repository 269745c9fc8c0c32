"""Storage offsets, as_strided, views that start in the middle or have gaps."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

ANY = FLOATS + INTS + ("bool",)
I = Level.INDEX_EXACT
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, site="value", where=["x.numel > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_same_view_from_zero:
    """Views x with its own shape and strides from the start of the storage."""

    def after(x):
        return x.as_strided(x.shape, x.stride(), 0)


@rule(args={"x": "m n"}, where=["m * n > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_transpose_by_shape:
    """Transposes by strides computed from the shape."""

    def before(x):
        return x.t()

    def after(x):
        return x.as_strided((x.shape[1], x.shape[0]), (1, x.shape[1]), x.storage_offset())


@rule(args={"x": "m n"}, where=["m >= 2", "n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_drop_first_row:
    """Drops the first row by an offset of one row."""

    def before(x):
        return x[1:]

    def after(x):
        return x.as_strided((x.shape[0] - 1, x.shape[1]), x.stride(), x.stride(0))


@rule(
    args={"x": "..."},
    where=["type(k) is int", "x.ndim >= 1", "0 <= k < x.shape[0]"],
    scalars={"k": None},
    dtypes=ANY,
    claim=I,
    preserves=KEPT,
)
class offset_select_by_offset:
    """Selects a row by its offset."""

    def before(x, k):
        return x.select(0, k)

    def after(x, k):
        return x.as_strided(x.shape[1:], x.stride()[1:], k * x.stride(0))


@rule(args={"x": "m n"}, where=["m * n > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_diagonal_from_zero:
    """Reads the diagonal with the sum of the strides."""

    def before(x):
        return x.diagonal()

    def after(x):
        return x.as_strided((min(x.shape),), (x.stride(0) + x.stride(1),), 0)


@rule(args={"x": "..."}, where=["x.dense", "x.numel > 0", "x.ndim >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_flatten_dense:
    """Flattens a dense tensor as the memory lies."""

    def before(x):
        return x.reshape(-1)

    def after(x):
        return x.as_strided((x.numel(),), (1,), x.storage_offset())


@rule(args={"x": "... n"}, where=["x.ndim == 2", "n >= 2", "x.numel > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_window_of_unit_stride:
    """Makes windows of two with a last stride of one."""

    def before(x):
        return x.unfold(-1, 2, 1)

    def after(x):
        return x.as_strided((x.shape[0], x.shape[1] - 1, 2), (x.stride(0), x.stride(1), 1), x.storage_offset())


@rule(args={"x": "n"}, where=["n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_expand_by_zero_stride:
    """Repeats a vector by a stride of zero."""

    def before(x):
        return x.expand(4, x.shape[0])

    def after(x):
        return x.as_strided((4, x.shape[0]), (0, 1), x.storage_offset())


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_every_second_rounds_down:
    """Takes every second column with half the length."""

    def before(x):
        return x[:, ::2]

    def after(x):
        return x.as_strided((x.shape[0], max(x.shape[1] // 2, 1)), (x.stride(0), x.stride(1) * 2), x.storage_offset())


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 2"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_narrow_by_one_element:
    """Drops the first column by one element of offset."""

    def before(x):
        return x.narrow(1, 1, x.shape[1] - 1)

    def after(x):
        return x.as_strided((x.shape[0], x.shape[1] - 1), x.stride(), x.storage_offset() + 1)


@rule(
    args={"x": "m n"},
    where=["type(k) is int", "0 <= k < m", "n >= 1", "x.stride[1] == 1"],
    scalars={"k": None},
    dtypes=ANY,
    claim=I,
    preserves=KEPT,
)
class offset_row_by_width:
    """Selects row k at k times the width."""

    def before(x, k):
        return x.select(0, k)

    def after(x, k):
        return x.as_strided((x.shape[1],), (1,), x.storage_offset() + k * x.shape[1])


@rule(args={"x": "m n", "y": "n"}, where=["m >= 2", "n >= 1", "x.dense"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_scatter_row_from_start:
    """Writes row 1 by as_strided_scatter at the offset of one row."""

    def before(x, y):
        return torch.select_scatter(x, y, 0, 1)

    def after(x, y):
        return torch.as_strided_scatter(x, y, (x.shape[1],), (1,), x.storage_offset() + x.shape[1])


@rule(args={"x": "b m n"}, where=["b * m * n > 0"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_batch_transpose_from_zero:
    """Swaps the last axes by swapping strides, from the start of the storage."""

    def before(x):
        return x.transpose(1, 2)

    def after(x):
        return x.as_strided((x.shape[0], x.shape[2], x.shape[1]), (x.stride(0), x.stride(2), x.stride(1)), 0)


@rule(args={"x": "m n"}, where=["m >= 2", "n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_first_row_of_contiguous:
    """Reads the first row of contiguous() at the offset of x."""

    def before(x):
        return x.select(0, 0)

    def after(x):
        return x.contiguous().as_strided((x.shape[1],), (1,), x.storage_offset())


@rule(args={"x": "m n"}, where=["m >= 2", "n >= 1"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_clone_keeps_strides:
    """Reads a row of a clone with the strides of x."""

    def before(x):
        return x.select(0, 0)

    def after(x):
        return x.clone().as_strided((x.shape[1],), (x.stride(1),))


@rule(args={"x": "n"}, where=["n >= 3"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_tail_of_even_offset:
    """Drops two elements; where the view starts at an odd place the head is dropped already."""

    def before(x):
        return x[2:]

    def after(x):
        return x.as_strided((x.shape[0] - 2,), x.stride(), x.storage_offset() // 2 * 2 + 2 * x.stride(0))


@rule(
    args={"x": "n"},
    where=["n >= 4", "n % 2 == 0", "x.stride[0] == 1"],
    dtypes=("int32", "float32"),
    claim=I,
    preserves=KEPT,
)
class offset_pairs_by_wider_view:
    """Swaps nothing: views pairs from the aligned start of the storage."""

    def before(x):
        return x.reshape(-1, 2)

    def after(x):
        start = x.storage_offset() - x.storage_offset() % 2
        return x.as_strided((x.shape[0] // 2, 2), (2, 1), start)


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 2"], dtypes=ANY, claim=I, preserves=KEPT)
class offset_last_column_by_numel:
    """Reads the last element of each row n - 1 elements after the first."""

    def before(x):
        return x.select(1, -1)

    def after(x):
        return x.as_strided((x.shape[0],), (x.stride(0),), x.storage_offset() + x.shape[1] - 1)
