"""Right rules that only move, copy or address elements, up to the edges: odd, empty, size-1 and strided."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
ANY = (*FLOATS, *INTS, "bool")
KEEPS = ("dtype", "mutation", "gradient")
VIEWS = ("dtype", "stride", "alias", "mutation", "gradient")


def count(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


@rule(args={"x": "... m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_transposed_twice:
    """A transpose undoes itself: sizes and strides are x's again."""

    def before(x): return x.mT.mT
    def after(x): return x.view(x.shape)


@rule(args={"x": "a b c"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_permutations_composed:
    """Turning three dimensions by one, twice, is turning them by two."""

    def before(x): return x.permute(1, 2, 0).permute(1, 2, 0)
    def after(x): return x.permute(2, 0, 1)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_first_dimension_moved_to_the_end:
    """The other dimensions keep their order (a transpose would not keep it)."""

    def before(x): return x.movedim(0, -1)
    def after(x): return x.permute(*range(1, x.ndim), 0)


@rule(args={"x": "... n", "y": "... n"}, where=["x.ndim == y.ndim"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class right_flip_of_concatenation:
    """The parts swap places and are flipped each."""

    def before(x, y): return torch.cat([x, y], 0).flip(0)
    def after(x, y): return torch.cat([y.flip(0), x.flip(0)], 0)


@rule(args={"x": "n m"}, where=["n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_flip_by_unequal_parts:
    """The part that came last comes first, whatever the sizes."""

    def before(x): return x.flip(0)
    def after(x): return torch.cat([x[1:].flip(0), x[:1]], 0)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_roll_by_swapping_halves:
    """The second part has n // 2 elements, of an odd n too; they come to the front."""

    def before(x): return torch.roll(x, x.shape[-1] // 2, -1)
    def after(x):
        h = x.shape[-1] - x.shape[-1] // 2
        return torch.cat([x[..., h:], x[..., :h]], -1)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_rolls_composed:
    """Shifts add up, also beyond the size and of an empty tensor."""

    def before(x): return torch.roll(torch.roll(x, 1, 0), 2, 0)
    def after(x): return torch.roll(x, 3, 0)


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_roll_backwards:
    """One back is m - 1 forward."""

    def before(x): return torch.roll(x, -1, 0)
    def after(x): return torch.roll(x, x.shape[0] - 1, 0)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class right_stack_by_concatenation:
    """Each part gets its new dimension first."""

    def before(x, y): return torch.stack([x, y], -1)
    def after(x, y): return torch.cat([x.unsqueeze(-1), y.unsqueeze(-1)], -1)


@rule(args={"x": "... n", "y": "... n"}, where=["x.shape == y.shape"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class right_stack_transposed:
    """The new dimension may be made in either place."""

    def before(x, y): return torch.stack([x, y], 0).transpose(0, 1)
    def after(x, y): return torch.stack([x, y], 1)


@rule(args={"x": "a n", "y": "b n", "z": "c n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_concatenation_flattened:
    """Concatenation is associative."""

    def before(x, y, z): return torch.cat([torch.cat([x, y], 0), z], 0)
    def after(x, y, z): return torch.cat([x, y, z], 0)


@rule(args={"x": "a n", "y": "b n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_concatenation_of_transposes:
    """Columns of the one are rows of the other."""

    def before(x, y): return torch.cat([x.mT, y.mT], 1)
    def after(x, y): return torch.cat([x, y], 0).mT


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_last_column_narrowed:
    """Only the narrowed dimension is squeezed, so one row stays one row."""

    def before(x): return x[:, -1]
    def after(x): return x.narrow(1, x.shape[1] - 1, 1).squeeze(1)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation"))
class right_diagonal_by_its_strides:
    """One step along the diagonal is a step along each dimension, wherever x lies."""

    def before(x): return x.diagonal()
    def after(x): return x.as_strided((min(x.shape),), (x.stride(0) + x.stride(1),), x.storage_offset())


@rule(args={"x": "m n"}, where=["m <= n + 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_diagonal_as_every_step:
    """Every n + 1st element is the diagonal as long as there is at most one row too many."""

    def before(x): return x.diagonal().clone()
    def after(x): return x.flatten()[:: x.shape[1] + 1].clone()


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_lower_triangle_by_selection:
    """Selecting leaves no trace of what was not selected, NaN included."""

    def before(x): return x.tril()

    def after(x):
        rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1])
        return torch.where(rows[:, None] >= columns, x, x.new_zeros(()))


@rule(args={"x": "m n"}, dtypes=(*FLOATS, *INTS), claim=Level.BIT_EXACT, preserves=KEEPS, assumes=("finite",))
class right_upper_triangle_as_the_rest:
    """What the lower triangle leaves: x - x is +0 for finite x, and x - 0 is x, -0.0 included."""

    def before(x): return x.triu(1)
    def after(x): return x - x.tril()


@rule(args={"x": "... n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_elements_doubled_by_expansion:
    """Each element twice, side by side."""

    def before(x): return x.repeat_interleave(2, -1)
    def after(x): return x.unsqueeze(-1).expand(*x.shape, 2).reshape(*x.shape[:-1], 2 * x.shape[-1])


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_repeated_rows_concatenated:
    """All rows, then all rows again."""

    def before(x): return x.repeat(2, 1)
    def after(x): return torch.cat([x, x], 0)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_overlapping_windows_stacked:
    """Windows of two that move by one."""

    def before(x): return x.unfold(0, 2, 1)
    def after(x): return torch.stack([x[:-1], x[1:]], -1)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation"))
class right_windows_without_the_remainder:
    """The odd element at the end is in no window."""

    def before(x): return x.unfold(0, 2, 2)
    def after(x): return x[: x.shape[0] // 2 * 2].reshape(-1, 2)


@rule(args={"x": "m n"}, where=["m % 2 == 0", "n % 2 == 0", "m >= 2", "n >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation"))
class right_tiles_by_unfolding:
    """Two by two tiles: rows of tiles, then tiles, then rows in a tile."""

    def before(x): return x.unfold(0, 2, 2).unfold(1, 2, 2).reshape(-1, 2, 2)

    def after(x):
        m, n = x.shape
        return x.reshape(m // 2, 2, n // 2, 2).permute(0, 2, 1, 3).reshape(-1, 2, 2)


@rule(args={"x": "b 4 h w"}, where=["x.numel > 0"], dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_pixel_shuffle_by_permutation:
    """Channel 2 i + j goes to row i and column j of each tile."""

    def before(x): return F.pixel_shuffle(x, 2)

    def after(x):
        b, _, h, w = x.shape
        return x.reshape(b, 1, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, 1, 2 * h, 2 * w)


@rule(args={"x": "m 1 n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_squeeze_of_one_dimension:
    """Dropping a dimension of size one is taking its only element."""

    def before(x): return x.squeeze(1)
    def after(x): return x.select(1, 0)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_expansion_copied_is_a_stack:
    """A stride of zero written out."""

    def before(x): return x.expand(2, *x.shape).clone()
    def after(x): return torch.stack([x, x], 0)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_slices_composed:
    """Two rows less, or none left, for every m."""

    def before(x): return x[1:][1:]
    def after(x): return x[2:]


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_steps_composed:
    """Every second of the odd rows: 3, 7, 11."""

    def before(x): return x[1::2][1::2]
    def after(x): return x[3::4]


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_last_three_rows:
    """With fewer than three rows a slice from -3 gives all of them."""

    def before(x): return x[-3:]

    def after(x):
        k = min(3, x.shape[0])
        return x.narrow(0, x.shape[0] - k, k)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_padding_by_concatenation:
    """A column of zeros on either side."""

    def before(x): return F.pad(x, (1, 1))

    def after(x):
        zeros = x.new_zeros(x.shape[0], 1)
        return torch.cat([zeros, x, zeros], 1)


@rule(args={"x": "m n"}, where=["n >= 2", "m >= 1"], dtypes=("float32", "float64"), claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class right_reflection_by_concatenation:
    """Reflection leaves the edge itself out."""

    def before(x): return F.pad(x, (1, 1), mode="reflect")
    def after(x): return torch.cat([x[:, 1:2], x, x[:, -2:-1]], 1)


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_padding_cropped:
    """What was put around is cut off."""

    def before(x): return F.pad(x, (2, 1))[:, 2:-1]
    def after(x): return x.clone()


@rule(args={"x": "... n"}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_negative_dimension_of_unsqueeze:
    """-2 counts from the end of the result, which has a dimension more."""

    def before(x): return x.unsqueeze(-2)
    def after(x): return x.unsqueeze(x.ndim - 1)


@rule(args={"x": "... n"}, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_negative_dimension_of_flip:
    """The last dimension by either name."""

    def before(x): return x.flip(-1)
    def after(x): return x.flip(x.ndim - 1)


@rule(args={"x": "... m n"}, where=["x.numel > 0"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"))
class right_last_two_dimensions_merged:
    """flatten and reshape copy, or do not copy, alike."""

    def before(x): return x.flatten(-2)
    def after(x): return x.reshape(*x.shape[:-2], -1)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"))
class right_quarter_turn:
    """A transpose and a flip of the new rows."""

    def before(x): return x.rot90(1, (0, 1))
    def after(x): return x.mT.flip(0)


@rule(args={"x": "m n"}, where=["m >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_rows_reversed_by_index:
    """Indices from the last row to the first."""

    def before(x): return x.flip(0)
    def after(x): return x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1))


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS, site="value")
class right_value_split_by_twos_and_joined:
    """The last part may be shorter."""

    def before(x): return x
    def after(x): return torch.cat(x.split(2, 0), 0)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS, site="value")
class right_value_unbound_and_stacked:
    """Row after row, as many as there are."""

    def before(x): return x
    def after(x): return torch.stack(x.unbind(0), 0)


@rule(args={"x": "... n"}, dtypes=FLOATS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype",))
class right_sort_descending_is_flipped:
    """NaN sorts as the largest; 0.0 and -0.0 are equal, and their order is left open by the claim."""

    def before(x): return x.sort(-1, descending=True).values
    def after(x): return x.sort(-1).values.flip(-1)


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=("float32", "float64", "int64", "int32"),
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype",))
class right_two_largest_by_sorting:
    """topk counts NaN as the largest, as sort does."""

    def before(x): return x.topk(2, -1).values
    def after(x): return x.sort(-1, descending=True).values[..., :2]


@rule(args={"x": "k k", "y": "k"}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_vector_added_to_each_column:
    """A size-1 dimension says along which axis y lies; on a square x nothing else would."""

    def before(x, y): return x + y[:, None]
    def after(x, y): return (x.mT + y).mT


@rule(args={"x": "m n", "y": "n"}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_broadcast_written_out:
    """Broadcasting aligns at the last dimension."""

    def before(x, y): return x * y
    def after(x, y): return x * y.expand(x.shape[0], y.shape[0])


@rule(args={"x": "..."}, where=["x.ndim >= 1", "i in (0, -1)"], scalars={"i": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=VIEWS)
class right_new_dimension_by_index:
    """None in an index makes the dimension that unsqueeze makes."""

    def before(x, i): return x.unsqueeze(i)
    def after(x, i): return x[None] if i == 0 else x[..., None]


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.contiguous", "x.numel > 0"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=VIEWS)
class right_flat_view_of_contiguous_memory:
    """Contiguous memory is one run of elements from the offset on."""

    def before(x): return x.reshape(-1)
    def after(x): return x.as_strided((x.numel(),), (1,), x.storage_offset())


WITNESS = {
    "right_transposed_twice": lambda: {"x": count(2, 3, 4).transpose(0, 1)},
    "right_permutations_composed": lambda: {"x": count(2, 3, 4)},
    "right_first_dimension_moved_to_the_end": lambda: {"x": count(2, 1, 3, 4)},
    "right_flip_of_concatenation": lambda: {"x": count(2, 3), "y": -count(1, 3)},
    "right_flip_by_unequal_parts": lambda: {"x": count(5, 2)},
    "right_roll_by_swapping_halves": lambda: {"x": count(2, 5)},
    "right_rolls_composed": lambda: {"x": count(2, 3)},
    "right_roll_backwards": lambda: {"x": count(1, 3)},
    "right_stack_by_concatenation": lambda: {"x": count(3, 1), "y": -count(3, 1)},
    "right_stack_transposed": lambda: {"x": count(3, 2), "y": -count(3, 2)},
    "right_concatenation_flattened": lambda: {"x": count(1, 3), "y": count(0, 3), "z": -count(2, 3)},
    "right_concatenation_of_transposes": lambda: {"x": count(2, 3), "y": -count(1, 3)},
    "right_last_column_narrowed": lambda: {"x": count(1, 4)},
    "right_diagonal_by_its_strides": lambda: {"x": count(4, 3).mT[:, 1:]},
    "right_diagonal_as_every_step": lambda: {"x": count(4, 3)},
    "right_lower_triangle_by_selection": lambda: {"x": torch.tensor([[1.0, NAN, INF], [-0.0, 2.0, NAN]])},
    "right_upper_triangle_as_the_rest": lambda: {"x": torch.tensor([[1.0, -0.0, 3.0], [-2.0, -0.0, 5.0]])},
    "right_elements_doubled_by_expansion": lambda: {"x": count(2, 3)},
    "right_repeated_rows_concatenated": lambda: {"x": count(2, 3)},
    "right_overlapping_windows_stacked": lambda: {"x": count(5)},
    "right_windows_without_the_remainder": lambda: {"x": count(5)},
    "right_tiles_by_unfolding": lambda: {"x": count(2, 6)},
    "right_pixel_shuffle_by_permutation": lambda: {"x": count(2, 4, 1, 3)},
    "right_squeeze_of_one_dimension": lambda: {"x": count(1, 1, 3)},
    "right_expansion_copied_is_a_stack": lambda: {"x": count(3, 2).mT},
    "right_slices_composed": lambda: {"x": count(4, 2)},
    "right_steps_composed": lambda: {"x": count(9, 2)},
    "right_last_three_rows": lambda: {"x": count(2, 2)},
    "right_padding_by_concatenation": lambda: {"x": count(2, 3)},
    "right_reflection_by_concatenation": lambda: {"x": count(2, 2)},
    "right_padding_cropped": lambda: {"x": count(2, 1)},
    "right_negative_dimension_of_unsqueeze": lambda: {"x": count(2, 3)},
    "right_negative_dimension_of_flip": lambda: {"x": count(2, 1, 3)},
    "right_last_two_dimensions_merged": lambda: {"x": count(2, 3, 4).transpose(1, 2)},
    "right_quarter_turn": lambda: {"x": count(2, 3)},
    "right_rows_reversed_by_index": lambda: {"x": count(3, 2)},
    "right_value_split_by_twos_and_joined": lambda: {"x": count(5, 2)},
    "right_value_unbound_and_stacked": lambda: {"x": count(3, 2).mT},
    "right_sort_descending_is_flipped": lambda: {"x": torch.tensor([0.0, -0.0, NAN, INF, -1.0, -0.0, 0.0])},
    "right_two_largest_by_sorting": lambda: {"x": torch.tensor([[1.0, NAN, 3.0], [2.0, 2.0, -INF]])},
    "right_vector_added_to_each_column": lambda: {"x": count(3, 3), "y": 10 * count(3)},
    "right_broadcast_written_out": lambda: {"x": count(3, 3), "y": torch.tensor([-0.0, INF, NAN])},
    "right_new_dimension_by_index": lambda: {"x": count(2, 3), "i": -1},
    "right_flat_view_of_contiguous_memory": lambda: {"x": count(3, 2)[1:]},
}
