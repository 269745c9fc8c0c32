"""Wrong rules about writes, shared memory and strides: the order of writes, views saved instead of copies."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

INF, NAN = float("inf"), float("nan")
ANY = (*FLOATS, *INTS, "bool")
NUMBERS = (*FLOATS, *INTS)
WRITES = ("dtype", "mutation", "alias")


def count(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=WRITES)
class wrong_zeroed_by_product:
    """NaN and infinity stay NaN, and negative numbers leave -0."""

    def before(x): return x.zero_()
    def after(x): return x.mul_(0)


@rule(args={"x": "m n"}, where=["m >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class wrong_rows_shifted_from_the_start:
    """From the first row down each row reads what was just written: row 0 spreads; with two rows it is right."""

    def before(x): return x[1:].copy_(x[:-1].clone())

    def after(x):
        for i in range(1, x.shape[0]):
            x[i].copy_(x[i - 1])
        return x[1:]


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=WRITES)
class wrong_first_row_added_first:
    """Row 0 is doubled before the others get it."""

    def before(x): return x.add_(x[0].clone())

    def after(x):
        for i in range(x.shape[0]):
            x[i].add_(x[0])
        return x


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class wrong_halves_swapped_through_a_view:
    """What was kept is a view, overwritten before it is read."""

    def before(x): return x.copy_(x.flip(0))

    def after(x):
        m = x.shape[0]
        h = m // 2
        kept = x[:h]
        x[:h].copy_(x[m - h :].flip(0))
        x[m - h :].copy_(kept.flip(0))
        return x


@rule(args={"x": "2 n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=WRITES)
class wrong_two_rows_swapped_through_a_view:
    """The saved row is the row itself, so both rows end alike."""

    def before(x): return x.copy_(x.roll(1, 0))

    def after(x):
        kept = x[0]
        x[0].copy_(x[1])
        x[1].copy_(kept)
        return x


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=WRITES)
class wrong_even_rows_but_the_last:
    """Of an odd number of rows the last one is left out."""

    def before(x): return x[::2].fill_(1)

    def after(x):
        for i in range(0, x.shape[0] - 1, 2):
            x[i].fill_(1)
        return x[::2]


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=WRITES)
class wrong_masked_fill_by_product:
    """-inf times 0 is NaN, and -1 times 0 is -0."""

    def before(x): return x.masked_fill_(x < 0, 0)
    def after(x): return x.mul_(torch.logical_not(x < 0))


@rule(args={"x": "m n"}, where=["x.numel > 0"], dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class wrong_write_through_a_reshape:
    """A reshape of a transpose is a copy, and the write to it does not reach x."""

    def before(x): return x.reshape(-1).mul_(2)

    def after(x):
        x.mul_(2)
        return x.reshape(-1)


@rule(args={"x": "m n"}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class wrong_write_to_contiguous:
    """contiguous() of a transpose is a copy; x itself should stay as it is."""

    def before(x): return x.contiguous().add_(1)
    def after(x): return x.add_(1)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_contiguous_is_always_a_copy:
    """Of a contiguous tensor it is that tensor."""

    def before(x): return x.contiguous()
    def after(x): return x.clone(memory_format=torch.contiguous_format)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_reshape_is_always_a_copy:
    """Where strides allow it a reshape is a view."""

    def before(x): return x.reshape(-1)
    def after(x): return x.flatten().clone()


@rule(args={"x": "n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_flat_view_of_steps_made_contiguous:
    """A one-dimensional tensor with gaps can be viewed flat; contiguous() copies it. Without gaps they agree."""

    def before(x): return x.reshape(-1)
    def after(x): return x.contiguous().view(-1)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_cast_to_the_same_dtype_copies:
    """A cast that changes nothing returns x itself unless copy=True."""

    def before(x): return x.to(x.dtype)
    def after(x): return x.to(x.dtype, copy=True)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_float_is_a_new_tensor:
    """float() of a float32 tensor is that tensor; of other dtypes it is new."""

    def before(x): return x.float()
    def after(x): return torch.empty_like(x, dtype=torch.float32).copy_(x)


@rule(args={"x": "m n"}, claim=Level.BIT_EXACT, preserves=("dtype", "stride"))
class wrong_strides_lost_by_contiguous:
    """A product is laid out as its operand is, which was transposed before contiguous()."""

    def before(x): return x * 2
    def after(x): return x.contiguous() * 2


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=("dtype", "stride"))
class wrong_strides_commuted:
    """Where layouts differ the first operand decides that of the sum."""

    def before(x, y): return x + y
    def after(x, y): return y + x


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=("dtype", "stride"))
class wrong_strides_of_new_zeros:
    """zeros_like takes x's strides, new_zeros is contiguous."""

    def before(x): return torch.zeros_like(x)
    def after(x): return x.new_zeros(x.shape)


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 2", "n >= 2", "k >= 1"], preserves=("dtype", "gradient", "stride"))
class wrong_strides_of_a_transposed_product:
    """The product is right and lies transposed in memory."""

    def before(a, b): return a @ b
    def after(a, b): return (b.mT @ a.mT).mT


@rule(args={"x": "n"}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=WRITES)
class wrong_running_sum_in_place_of_floats:
    """Eager sums up in float64 and rounds each result once; the loop rounds each partial sum."""

    def before(x): return x.cumsum_(0)

    def after(x):
        for i in range(1, x.shape[0]):
            x[i].add_(x[i - 1])
        return x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FLOATS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class wrong_result_written_over_an_operand:
    """The sum is right, and y is no longer what it was."""

    def before(x, y): return x + y
    def after(x, y): return y.add_(x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "alias"))
class wrong_operand_returned_where_it_was_copied:
    """x * 1 is a tensor of its own; x is not."""

    def before(x): return x * 1
    def after(x): return x.view_as(x)


@rule(args={"x": "n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation"))
class wrong_expansion_left_uncopied:
    """The copy has memory of its own; the expanded view has x's, each element of it twice."""

    def before(x): return x.expand(2, x.shape[0]).clone()
    def after(x): return x.expand(2, x.shape[0])


@rule(args={"x": "m n"}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "stride"))
class wrong_strides_of_a_clone_with_gaps:
    """A clone keeps the strides of dense memory alone: gaps are closed, and a stride of 0 is written out."""

    def before(x): return x.clone()
    def after(x): return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_one_added_and_taken_off:
    """A tiny number is lost in the sum: 1e-9 + 1 - 1 is 0."""

    def before(x): return x
    def after(x): return x.add_(1).sub_(1)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_doubled_and_halved:
    """Exact but above half of the largest number, where doubling overflows."""

    def before(x): return x
    def after(x): return x.mul_(2).div_(2)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_halved_and_doubled:
    """Exact but for the last bit of subnormals."""

    def before(x): return x
    def after(x): return x.div_(2).mul_(2)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_restored_from_a_view:
    """What was saved is x itself, so there is nothing to restore from."""

    def before(x): return x

    def after(x):
        kept = x.detach()
        x.fill_(1)
        return x.copy_(kept)


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_tripled_and_divided:
    """Tripling wraps beyond a third of the range."""

    def before(x): return x
    def after(x): return x.mul_(3).floor_divide_(3)


LATE = ("def fn(x):\n    a = x.clone()\n    b = a * 2\n    c = a + b\n    return (c,)\n", "a>b")

WITNESS = {
    "wrong_zeroed_by_product": lambda: {"x": torch.tensor([1.0, NAN])},
    "wrong_rows_shifted_from_the_start": lambda: {"x": count(3, 2)},
    "wrong_first_row_added_first": lambda: {"x": count(3, 2) + 1},
    "wrong_halves_swapped_through_a_view": lambda: {"x": count(5, 2)},
    "wrong_two_rows_swapped_through_a_view": lambda: {"x": count(2, 3)},
    "wrong_even_rows_but_the_last": lambda: {"x": -count(5, 2)},
    "wrong_masked_fill_by_product": lambda: {"x": torch.tensor([1.0, -INF])},
    "wrong_write_through_a_reshape": lambda: {"x": count(3, 2).mT},
    "wrong_write_to_contiguous": lambda: {"x": count(3, 2).mT},
    "wrong_contiguous_is_always_a_copy": lambda: {"x": count(3, 2)},
    "wrong_reshape_is_always_a_copy": lambda: {"x": count(3, 2)},
    "wrong_flat_view_of_steps_made_contiguous": lambda: {"x": count(6)[::2]},
    "wrong_cast_to_the_same_dtype_copies": lambda: {"x": count(3)},
    "wrong_float_is_a_new_tensor": lambda: {"x": count(3)},
    "wrong_strides_lost_by_contiguous": lambda: {"x": count(3, 2).mT},
    "wrong_strides_commuted": lambda: {"x": count(3, 2).mT, "y": count(2, 3)},
    "wrong_strides_of_new_zeros": lambda: {"x": count(3, 2).mT},
    "wrong_strides_of_a_transposed_product": lambda: {"a": count(2, 3), "b": count(3, 4)},
    "wrong_running_sum_in_place_of_floats": lambda: {"x": 1 / (count(50) + 1)},
    "wrong_result_written_over_an_operand": lambda: {"x": count(3) + 1, "y": count(3)},
    "wrong_operand_returned_where_it_was_copied": lambda: {"x": count(3)},
    "wrong_expansion_left_uncopied": lambda: {"x": count(3)},
    "wrong_strides_of_a_clone_with_gaps": lambda: {"x": count(2, 6)[:, ::2]},
    "wrong_late_one_added_and_taken_off": lambda: {"x": torch.tensor([1.0, 1e-9])},
    "wrong_late_doubled_and_halved": lambda: {"x": torch.tensor([1.0, 3e38])},
    "wrong_late_halved_and_doubled": lambda: {"x": torch.tensor([1.0, 2.0**-149])},
    "wrong_late_restored_from_a_view": lambda: {"x": torch.tensor([3.0, 2.0])},
    "wrong_late_tripled_and_divided": lambda: {"x": torch.tensor([5, 2**62])},
}
PROGRAM = {name: LATE for name in WITNESS if name.startswith("wrong_late")}
