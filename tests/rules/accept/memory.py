"""Right rules about writes, shared memory and strides: the order of writes, what is copied, what is a view."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

INF, NAN = float("inf"), float("nan")
ANY = (*FLOATS, *INTS, "bool")
NUMBERS = (*FLOATS, *INTS)
WRITES = ("dtype", "mutation", "alias")
KEEPS = ("dtype", "mutation", "alias", "gradient")


def count(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_addition_in_place_by_copy:
    """The sum is rounded once either way, and lands in x."""

    def before(x): return x.add_(1)
    def after(x): return x.copy_(x + 1)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_zeroed_by_filling:
    """+0.0 everywhere, whatever was there."""

    def before(x): return x.zero_()
    def after(x): return x.fill_(0)


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_write_through_a_narrowed_view:
    """The same rows are written, and are what is returned."""

    def before(x): return x[1:].add_(1)
    def after(x): return x.narrow(0, 1, x.shape[0] - 1).add_(1)


@rule(args={"x": "m n"}, where=["m >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class right_rows_shifted_from_the_end:
    """From the last row up, each row is read before it is overwritten."""

    def before(x): return x[1:].copy_(x[:-1].clone())

    def after(x):
        for i in range(x.shape[0] - 1, 0, -1):
            x[i].copy_(x[i - 1])
        return x[1:]


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=WRITES)
class right_first_row_added_last:
    """The first row is changed when nobody needs it any more."""

    def before(x): return x.add_(x[0].clone())

    def after(x):
        for i in range(x.shape[0] - 1, -1, -1):
            x[i].add_(x[0])
        return x


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class right_halves_swapped_through_a_copy:
    """The upper half is kept in memory of its own; a middle row stays."""

    def before(x): return x.copy_(x.flip(0))

    def after(x):
        m = x.shape[0]
        h = m // 2
        kept = x[:h].clone()
        x[:h].copy_(x[m - h :].flip(0))
        x[m - h :].copy_(kept.flip(0))
        return x


@rule(args={"x": "2 n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class right_two_rows_swapped_through_a_copy:
    """One row is saved before it is overwritten."""

    def before(x): return x.copy_(x.roll(1, 0))

    def after(x):
        kept = x[0].clone()
        x[0].copy_(x[1])
        x[1].copy_(kept)
        return x


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_write_into_an_intermediate:
    """The product is nobody else's, and its gradient does not need it."""

    def before(x): return x * 2 + 1
    def after(x): return (x * 2).add_(1)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_clamp_in_place_of_a_clone:
    """The clone may be overwritten; x may not."""

    def before(x): return x.clamp(min=0)
    def after(x): return x.clone().clamp_(min=0)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=WRITES)
class right_even_rows_filled_one_by_one:
    """range(0, m, 2) reaches the last row of an odd m."""

    def before(x): return x[::2].fill_(1)

    def after(x):
        for i in range(0, x.shape[0], 2):
            x[i].fill_(1)
        return x[::2]


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=WRITES)
class right_masked_fill_by_selection:
    """Where the mask holds nothing of x is left, NaN and infinity included."""

    def before(x): return x.masked_fill_(x < 0, 0)
    def after(x): return x.copy_(torch.where(x < 0, torch.zeros_like(x), x))


@rule(args={"x": "m n", "y": "n"}, where=["m >= 1"], dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=WRITES)
class right_row_added_by_index:
    """One index, so one addition to each element."""

    def before(x, y): return x[0].add_(y)

    def after(x, y):
        x.index_add_(0, torch.zeros(1, dtype=torch.int64), y[None])
        return x[0]


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_write_through_a_reshape_of_contiguous_memory:
    """Of contiguous memory a reshape is a view, so x itself is written."""

    def before(x): return x.reshape(-1).mul_(2)

    def after(x):
        x.mul_(2)
        return x.view(-1)


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_write_to_contiguous_of_contiguous:
    """contiguous() of a contiguous tensor is that tensor."""

    def before(x): return x.contiguous().add_(1)
    def after(x): return x.add_(1)


@rule(args={"x": "m n"}, where=["x.contiguous", "m >= 2", "n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=(*KEEPS, "stride"))
class right_contiguous_of_a_transpose_is_a_copy:
    """A transpose of more than one row and column is not contiguous, so contiguous() is new memory."""

    def before(x): return x.mT.contiguous()
    def after(x): return x.mT.clone(memory_format=torch.contiguous_format)


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=(*KEEPS, "stride"))
class right_contiguous_of_contiguous_is_x:
    """Of a contiguous tensor, contiguous() is no copy."""

    def before(x): return x.contiguous()
    def after(x): return x.view(x.shape)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=WRITES)
class right_addition_of_itself_in_place:
    """Each element is read before it is written; x + x is exactly 2 x, or infinite alike."""

    def before(x): return x.add_(x)
    def after(x): return x.mul_(2)


@rule(args={"x": "m 1"}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=(*WRITES, "stride"))
class right_write_through_a_squeezed_view:
    """Dropping a size-1 dimension shares memory."""

    def before(x): return x.squeeze(1).add_(1)

    def after(x):
        x.add_(1)
        return x[:, 0]


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=(*KEEPS, "stride"))
class right_cast_to_the_same_dtype_is_x:
    """A cast that changes nothing copies nothing."""

    def before(x): return x.to(x.dtype)
    def after(x): return x.view(x.shape)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16"), claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_cast_to_another_dtype_is_a_copy:
    """A cast that changes the dtype makes new memory, with or without copy=True."""

    def before(x): return x.to(torch.float32)
    def after(x): return x.to(torch.float32, copy=True)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=(*KEEPS, "stride"))
class right_clone_by_copying_into_empty:
    """empty_like takes the strides that clone takes."""

    def before(x): return x.clone()
    def after(x): return torch.empty_like(x).copy_(x)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_zeros_like_by_filling_empty:
    """Both take x's strides where x is dense."""

    def before(x): return torch.zeros_like(x)
    def after(x): return torch.empty_like(x).zero_()


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_doubling_keeps_strides:
    """Both results are laid out as x is."""

    def before(x): return x * 2
    def after(x): return x + x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "x.stride == y.stride"], dtypes=FLOATS,
      claim=Level.BIT_EXACT, preserves=(*KEEPS, "stride"))
class right_commuted_operands_of_one_layout:
    """Where both lie alike, the result lies alike whichever comes first."""

    def before(x, y): return x + y
    def after(x, y): return y + x


@rule(args={"x": "..."}, where=["x.contiguous", "x.numel > 0"], dtypes=FLOATS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "alias", "stride"))
class right_contiguous_memory_as_one_run:
    """Contiguous elements follow one another in memory in the order of their indices."""

    def before(x): return x * 3
    def after(x): return (x.as_strided((x.numel(),), (1,), x.storage_offset()) * 3).view(x.shape)


@rule(args={"x": "n"}, dtypes=("int64",), claim=Level.BIT_EXACT, preserves=WRITES)
class right_running_sum_in_place_of_integers:
    """Each element adds the one before it, which is final by then; integers wrap alike in any order."""

    def before(x): return x.cumsum_(0)

    def after(x):
        for i in range(1, x.shape[0]):
            x[i].add_(x[i - 1])
        return x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("float32", "float64"),
      claim=Level.EXACT_REAL, preserves=WRITES)
class right_fused_multiply_add_in_place:
    """One rounding or two; over the reals the same, and x holds it."""

    def before(x, y): return x.addcmul_(y, y)
    def after(x, y): return x.add_(y * y)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=(*KEEPS, "stride"))
class right_view_as_itself:
    """An index that takes everything is a view of everything."""

    def before(x): return x.view_as(x)
    def after(x): return x[...]


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "alias"), site="late")
class right_late_negated_twice:
    """Changing the sign twice is exact for every value; the sign of NaN is nobody's business."""

    def before(x): return x
    def after(x): return x.neg_().neg_()


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "alias"), site="late")
class right_late_added_and_subtracted_integers:
    """Wrapping forth and back ends where it began."""

    def before(x): return x
    def after(x): return x.add_(1).sub_(1)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "alias"), site="late")
class right_late_overwritten_and_restored:
    """The old values were saved in memory of their own."""

    def before(x): return x

    def after(x):
        kept = x.clone()
        x.fill_(1)
        return x.copy_(kept)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "alias"), site="late")
class right_late_flipped_twice:
    """flip reads a copy, so writing it back is safe, and twice is none."""

    def before(x): return x

    def after(x):
        x.copy_(x.flip(0))
        return x.copy_(x.flip(0))


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "alias"), site="late")
class right_late_complemented_twice:
    """Every bit is turned over twice."""

    def before(x): return x
    def after(x): return x.bitwise_not_().bitwise_not_()


LATE = ("def fn(x):\n    a = x.clone()\n    b = a * 2\n    c = a + b\n    return (c,)\n", "a>b")
ODD = (1.0, -0.0, 0.0, INF, -INF, NAN, -2.5, 3e38, 1e-45)
SMALL = torch.int8

WITNESS = {
    "right_addition_in_place_by_copy": lambda: {"x": torch.tensor(ODD)},
    "right_zeroed_by_filling": lambda: {"x": torch.tensor(ODD)},
    "right_write_through_a_narrowed_view": lambda: {"x": count(3, 2)},
    "right_rows_shifted_from_the_end": lambda: {"x": count(4, 2)},
    "right_first_row_added_last": lambda: {"x": count(3, 2) + 1},
    "right_halves_swapped_through_a_copy": lambda: {"x": count(5, 2)},
    "right_two_rows_swapped_through_a_copy": lambda: {"x": count(2, 3)},
    "right_write_into_an_intermediate": lambda: {"x": torch.tensor([1.0, -0.5], requires_grad=True)},
    "right_clamp_in_place_of_a_clone": lambda: {"x": torch.tensor([1.0, 0.0, -1.0], requires_grad=True)},
    "right_even_rows_filled_one_by_one": lambda: {"x": -count(5, 2)},
    "right_masked_fill_by_selection": lambda: {"x": torch.tensor(ODD)},
    "right_row_added_by_index": lambda: {"x": count(3, 2), "y": count(2) + 5},
    "right_write_through_a_reshape_of_contiguous_memory": lambda: {"x": count(3, 2)},
    "right_write_to_contiguous_of_contiguous": lambda: {"x": count(3, 2)},
    "right_contiguous_of_a_transpose_is_a_copy": lambda: {"x": count(3, 2)},
    "right_contiguous_of_contiguous_is_x": lambda: {"x": count(3, 2)},
    "right_addition_of_itself_in_place": lambda: {"x": torch.tensor(ODD)},
    "right_write_through_a_squeezed_view": lambda: {"x": count(3, 1)},
    "right_cast_to_the_same_dtype_is_x": lambda: {"x": count(3, 2).mT},
    "right_cast_to_another_dtype_is_a_copy": lambda: {"x": torch.tensor(ODD).half()},
    "right_clone_by_copying_into_empty": lambda: {"x": count(2, 3, 4).permute(1, 2, 0)},
    "right_zeros_like_by_filling_empty": lambda: {"x": count(3, 2).mT},
    "right_doubling_keeps_strides": lambda: {"x": count(3, 2).mT},
    "right_commuted_operands_of_one_layout": lambda: {"x": count(3, 2).mT, "y": -count(3, 2).mT},
    "right_contiguous_memory_as_one_run": lambda: {"x": count(4, 2)[1:]},
    "right_running_sum_in_place_of_integers": lambda: {"x": torch.tensor([2**62, 2**62, 5, -7])},
    "right_fused_multiply_add_in_place": lambda: {"x": count(3) / 3, "y": count(3) / 7},
    "right_view_as_itself": lambda: {"x": count(3, 2).mT},
    "right_late_negated_twice": lambda: {"x": torch.tensor(ODD)},
    "right_late_added_and_subtracted_integers": lambda: {"x": torch.tensor([127, -128, 0], dtype=SMALL)},
    "right_late_overwritten_and_restored": lambda: {"x": torch.tensor(ODD)},
    "right_late_flipped_twice": lambda: {"x": count(5)},
    "right_late_complemented_twice": lambda: {"x": torch.tensor([127, -128, 0], dtype=SMALL)},
}
PROGRAM = {name: LATE for name in WITNESS if name.startswith("right_late")}
PROGRAM["right_view_as_itself"] = ("def fn(x):\n    a = x.view_as(x)\n    b = a.add_(1)\n    return (b,)\n", "a")
