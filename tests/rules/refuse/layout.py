"""Wrong rules about order, shape and broadcasting, most of them right on square, even or large enough tensors."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
ANY = (*FLOATS, *INTS, "bool")
KEEPS = ("dtype", "mutation", "gradient")


def count(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@rule(args={"x": "k k k"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_permutation_inverted:
    """(1, 2, 0) turns the dimensions the other way than (2, 0, 1); shapes agree on a cube, elements do not."""

    def before(x): return x.permute(1, 2, 0).clone()
    def after(x): return x.permute(2, 0, 1).clone()


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_first_dimension_swapped_with_the_last:
    """Moving one dimension to the end is a swap only of two; with three the middle one moves too."""

    def before(x): return x.movedim(0, -1).clone()
    def after(x): return x.transpose(0, -1).clone()


@rule(args={"x": "... n", "y": "... n"}, where=["x.shape == y.shape"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class wrong_flip_of_concatenation_in_order:
    """The parts have to swap places as well."""

    def before(x, y): return torch.cat([x, y], 0).flip(0)
    def after(x, y): return torch.cat([x.flip(0), y.flip(0)], 0)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_roll_by_swapping_halves_of_an_odd_size:
    """For an odd n the first half is the shorter one here and must be the longer; even sizes agree."""

    def before(x): return torch.roll(x, x.shape[-1] // 2, -1)
    def after(x):
        h = x.shape[-1] // 2
        return torch.cat([x[..., h:], x[..., :h]], -1)


@rule(args={"x": "... n", "y": "... n"}, where=["x.shape == y.shape"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class wrong_stack_by_joining_the_last_dimension:
    """Joining rows side by side mixes the two as soon as there is more than one row."""

    def before(x, y): return torch.stack([x, y], 0)
    def after(x, y): return torch.cat([x, y], -1).reshape(2, *x.shape)


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_last_column_squeezed_all_over:
    """squeeze() without a dimension also drops the rows when there is one row."""

    def before(x): return x[:, -1]
    def after(x): return x.narrow(1, x.shape[1] - 1, 1).squeeze()


@rule(args={"x": "m n"}, where=["m >= 1", "n >= m"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "alias", "mutation"))
class wrong_diagonal_by_contiguous_strides:
    """A step of n + 1 is the diagonal of contiguous memory only; of a transpose or a slice it is not."""

    def before(x): return x.diagonal()
    def after(x): return x.as_strided((min(x.shape),), (x.shape[1] + 1,), x.storage_offset())


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_diagonal_as_every_step:
    """With two rows more than columns every n + 1st element goes on past the end of the diagonal."""

    def before(x): return x.diagonal().clone()
    def after(x): return x.flatten()[:: x.shape[1] + 1].clone()


@rule(args={"x": "m n"}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_lower_triangle_by_product:
    """Infinity times a zero of the mask is NaN, and a negative number times it is -0."""

    def before(x): return x.tril()
    def after(x): return x * torch.ones_like(x).tril()


@rule(args={"x": "m n"}, claim=Level.BIT_EXACT, preserves=KEEPS, assumes=("finite",))
class wrong_upper_triangle_loses_the_diagonal:
    """tril takes the diagonal along, so the rest has none."""

    def before(x): return x.triu()
    def after(x): return x - x.tril()


@rule(args={"x": "... n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_elements_doubled_by_repeating_all:
    """a b a b is not a a b b; of one element it is."""

    def before(x): return x.repeat_interleave(2, -1)
    def after(x): return torch.cat([x, x], -1)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation"))
class wrong_windows_that_drop_the_first_element:
    """Of an odd n the last element is in no window, not the first."""

    def before(x): return x.unfold(0, 2, 2)
    def after(x): return x[x.shape[0] % 2 :].reshape(-1, 2)


@rule(args={"x": "m n"}, where=["m % 2 == 0", "n % 2 == 0", "m >= 2", "n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation"))
class wrong_tiles_by_reshape_alone:
    """Without a permutation a tile takes four elements of one row; with two columns nobody notices."""

    def before(x): return x.unfold(0, 2, 2).unfold(1, 2, 2).reshape(-1, 2, 2)
    def after(x): return x.reshape(-1, 2, 2)


@rule(args={"x": "b 4 k k"}, where=["x.numel > 0"], claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_pixel_shuffle_with_offsets_swapped:
    """Channel 1 belongs to the next column, not to the next row."""

    def before(x): return F.pixel_shuffle(x, 2)

    def after(x):
        b, _, h, w = x.shape
        return x.reshape(b, 1, 2, 2, h, w).permute(0, 1, 4, 3, 5, 2).reshape(b, 1, 2 * h, 2 * w)


@rule(args={"x": "m 1 n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_squeeze_of_all_dimensions:
    """m or n may be 1 as well."""

    def before(x): return x.squeeze(1)
    def after(x): return x.squeeze()


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_steps_composed:
    """The second slice begins at row 3, not at row 2."""

    def before(x): return x[1::2][1::2].clone()
    def after(x): return x[2::4][: len(range(3, x.shape[0], 4))].clone()


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_last_three_rows_by_difference:
    """With two rows m - 3 is -1, which is the last row alone."""

    def before(x): return x[-3:]
    def after(x): return x[x.shape[0] - 3 :]


@rule(args={"x": "m n"}, where=["n >= 2", "m >= 1"], dtypes=("float32", "float64"), claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class wrong_reflection_repeats_the_edge:
    """Reflection leaves the edge itself out; repeating it is another padding."""

    def before(x): return F.pad(x, (1, 1), mode="reflect")
    def after(x): return torch.cat([x[:, :1], x, x[:, -1:]], 1)


@rule(args={"x": "... n"}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_negative_dimension_of_unsqueeze:
    """-2 counts from the end of the result, which has a dimension more."""

    def before(x): return x.unsqueeze(-2)
    def after(x): return x.unsqueeze(x.ndim - 2)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_last_dimension_is_the_second:
    """Of three dimensions -1 is 2 and not 1."""

    def before(x): return x.flip(-1)
    def after(x): return x.flip(1)


@rule(args={"x": "k k"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_quarter_turn_the_other_way:
    """Flipping the columns of the transpose turns clockwise; rot90 turns the other way."""

    def before(x): return x.rot90(1, (0, 1))
    def after(x): return x.mT.flip(1)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS, site="value")
class wrong_value_split_by_threes_with_a_reversed_tail:
    """A tail of two comes back in the wrong order; sizes with no tail or a tail of one agree."""

    def before(x): return x

    def after(x):
        m = x.shape[0]
        return torch.cat([x[: m - m % 3], x[m - m % 3 :].flip(0)], 0)


@rule(args={"x": "k k", "y": "k"}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_vector_added_along_the_other_axis:
    """Broadcasting aligns at the last dimension; on a square x both ways fit."""

    def before(x, y): return x + y
    def after(x, y): return (x.mT + y).mT


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_roll_beyond_the_size:
    """Three rows back is m - 3 forward only if there are three rows: two rows rolled by -1 are rolled by 1."""

    def before(x): return torch.roll(x, -3, 0)
    def after(x):
        k = x.shape[0] - 3
        return torch.cat([x[-k:], x[:-k]], 0) if k > 0 else x.clone()


@rule(args={"x": "... n"}, where=["n >= 1"], claim=Level.INDEX_EXACT, preserves=("dtype",))
class wrong_sort_descending_is_flipped:
    """0.0 and -0.0 are equal and keep their order in either sort, so a flip swaps their bits."""

    def before(x): return x.sort(dim=-1, descending=True, stable=True).values
    def after(x): return x.sort(dim=-1, stable=True).values.flip(-1)


@rule(args={"x": "n"}, where=["n >= 1"], dtypes=("float32", "int64"), claim=Level.INDEX_EXACT)
class wrong_descending_order_of_ties:
    """A stable sort keeps equal elements in order in either direction; the flip reverses them."""

    def before(x): return torch.argsort(x, dim=0, descending=True, stable=True)
    def after(x): return torch.argsort(x, dim=0, stable=True).flip(0)


@rule(args={"x": "m n"}, where=["x.numel > 0"], claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class wrong_memory_taken_for_one_run:
    """Elements lie in the order of their indices only in contiguous memory."""

    def before(x): return x * 3

    def after(x):
        n = x.shape[0] * x.shape[1]
        return (x.as_strided((n,), (1,), 0) * 3).view(x.shape)


@rule(args={"x": "m n", "y": "m n"}, claim=Level.INDEX_EXACT, dtypes=ANY, preserves=KEEPS)
class wrong_concatenation_interleaved:
    """Stacking in front and merging alternates nothing: it joins whole blocks, which is dimension 0, not 1."""

    def before(x, y): return torch.cat([x, y], 1).reshape(-1)
    def after(x, y): return torch.stack([x, y], 0).reshape(-1)


@rule(args={"x": "n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_expansion_of_the_inner_dimension:
    """Repeating in front of all and behind all differ once x has two unlike elements."""

    def before(x): return x.expand(2, x.shape[0]).reshape(-1)
    def after(x): return x.unsqueeze(-1).expand(x.shape[0], 2).reshape(-1)


WITNESS = {
    "wrong_permutation_inverted": lambda: {"x": count(2, 2, 2)},
    "wrong_first_dimension_swapped_with_the_last": lambda: {"x": count(2, 2, 2)},
    "wrong_flip_of_concatenation_in_order": lambda: {"x": count(2, 3), "y": -count(2, 3)},
    "wrong_roll_by_swapping_halves_of_an_odd_size": lambda: {"x": count(2, 5)},
    "wrong_stack_by_joining_the_last_dimension": lambda: {"x": count(2, 3), "y": -count(2, 3)},
    "wrong_last_column_squeezed_all_over": lambda: {"x": count(1, 3)},
    "wrong_diagonal_by_contiguous_strides": lambda: {"x": count(3, 2).mT},
    "wrong_diagonal_as_every_step": lambda: {"x": count(4, 2)},
    "wrong_lower_triangle_by_product": lambda: {"x": torch.tensor([[1.0, INF], [2.0, 3.0]])},
    "wrong_upper_triangle_loses_the_diagonal": lambda: {"x": count(2, 3) + 1},
    "wrong_elements_doubled_by_repeating_all": lambda: {"x": count(2, 2)},
    "wrong_windows_that_drop_the_first_element": lambda: {"x": count(5)},
    "wrong_tiles_by_reshape_alone": lambda: {"x": count(2, 4)},
    "wrong_pixel_shuffle_with_offsets_swapped": lambda: {"x": count(1, 4, 1, 1)},
    "wrong_squeeze_of_all_dimensions": lambda: {"x": count(1, 1, 3)},
    "wrong_steps_composed": lambda: {"x": count(9, 2)},
    "wrong_last_three_rows_by_difference": lambda: {"x": count(2, 2)},
    "wrong_reflection_repeats_the_edge": lambda: {"x": count(2, 3)},
    "wrong_negative_dimension_of_unsqueeze": lambda: {"x": count(2, 3)},
    "wrong_last_dimension_is_the_second": lambda: {"x": count(2, 2, 3)},
    "wrong_quarter_turn_the_other_way": lambda: {"x": count(2, 2)},
    "wrong_value_split_by_threes_with_a_reversed_tail": lambda: {"x": count(5)},
    "wrong_vector_added_along_the_other_axis": lambda: {"x": count(3, 3), "y": 10 * count(3)},
    "wrong_roll_beyond_the_size": lambda: {"x": count(2, 2)},
    "wrong_sort_descending_is_flipped": lambda: {"x": torch.tensor([0.0, -0.0, 1.0])},
    "wrong_descending_order_of_ties": lambda: {"x": torch.tensor([2.0, 1.0, 2.0])},
    "wrong_memory_taken_for_one_run": lambda: {"x": count(3, 2).mT},
    "wrong_concatenation_interleaved": lambda: {"x": count(2, 2), "y": -count(2, 2)},
    "wrong_expansion_of_the_inner_dimension": lambda: {"x": count(2)},
}
