"""Identity insertions: views and copies that change nothing."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("ilp", "bam", "remove_noop_ops"))
class identity_view_own_shape:
    """Views x in its own shape.

    Why equivalent: The view has the same memory, strides and offset.
    Provokes: ``remove_noop_ops`` and view_to_reshape handle it; an output becomes the value itself.
    Limits: Eager refuses to write to a view made under ``no_grad`` once gradients are on again, where it lets one write
    to x.
    """

    def after(x): return x.view(x.shape)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "remove_noop_ops"))
class identity_reshape_own_shape:
    """Reshapes x to its own shape.

    Why equivalent: reshape to the own shape is always a view, of non-contiguous tensors too.
    Provokes: Removed as a no-op view.
    """

    def after(x): return x.reshape(x.shape)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "remove_noop_ops"))
class identity_expand_own_shape:
    """Expands x to its own shape.

    Why equivalent: A view of the same memory.
    Provokes: The expand entry of ``remove_noop_ops``.
    """

    def after(x): return x.expand(x.shape)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "bam", "remove_noop_ops"))
class identity_slice_whole:
    """Slices x over its whole first dimension.

    Why equivalent: x[:] is a view of all of x.
    Provokes: The slice entry of ``remove_noop_ops`` (start 0, end at least the size).
    """

    def after(x): return x[:]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "iod", "slice"))
class identity_slice_overlong:
    """Slices from minus the size to past the end of the last dimension.

    Why equivalent: Bounds are clamped, so this is all of x.
    Provokes: Clamping of negative and overlong bounds in the slice lowering.
    """

    def after(x): return x[..., -x.shape[-1] - 1 : x.shape[-1] + 5]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class identity_narrow_whole:
    """Narrows the last dimension to its whole length.

    Why equivalent: A view of all of x.
    Provokes: narrow's decomposition to slice.
    """

    def after(x): return x.narrow(-1, 0, x.shape[-1])


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "bam"))
class identity_ellipsis:
    """Indexes with Ellipsis.

    Why equivalent: x[...] is an alias of x.
    Provokes: An alias node whose base may be written later.
    """

    def after(x): return x[...]


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class identity_none_then_zero:
    """Adds a leading dimension by None and selects it again.

    Why equivalent: Both are views of the same memory.
    Provokes: select of unsqueeze is simplified by view passes.
    """

    def after(x): return x[None][0]


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "remove_redundant_views"))
class identity_unsqueeze_squeeze:
    """Adds a trailing dimension and squeezes it.

    Why equivalent: Both are views.
    Provokes: Squeeze folding.
    """

    def after(x): return x.unsqueeze(-1).squeeze(-1)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class identity_transpose_twice:
    """Transposes the last two dimensions twice.

    Why equivalent: The pair cancels and stays a view of x.
    Provokes: Permute folding.
    """

    def after(x): return x.transpose(-1, -2).transpose(-1, -2)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class identity_movedim_cycle:
    """Moves the first dimension to the end and back.

    Why equivalent: The moves cancel; views throughout.
    Provokes: Composition of permutations.
    """

    def after(x): return x.movedim(0, -1).movedim(-1, 0)


@rule(args={"x": "..."}, where=["x.ndim >= 3"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class identity_permute_cycle:
    """Rotates all dimensions one step, as often as there are dimensions.

    Why equivalent: The rotations compose to the identity; for rank 3 and more a permutation is not its own inverse.
    """

    def after(x):
        for _ in range(x.dim()):
            x = x.permute(*range(1, x.dim()), 0)
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.numel > 0"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "view_to_reshape"))
class identity_flatten_unflatten:
    """Flattens x and gives it its shape back.

    Why equivalent: Row-major order both ways.
    Provokes: Reshape against view.
    Limits: Copies where x is not contiguous, so strides may change.
    """

    def after(x): return x.flatten().unflatten(0, x.shape)


@rule(args={"x": "..."}, where=["x.numel > 0"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "view_to_reshape"))
class identity_reshape_through_flat:
    """Reshapes x to one row and back.

    Why equivalent: Row-major order both ways.
    Provokes: Views of views, and materialisation of permuted values.
    """

    def after(x): return x.reshape(1, -1).reshape(x.shape)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("ilp", "as_strided"))
class identity_strided_own:
    """Takes as_strided of x with its own sizes, strides and offset.

    Why equivalent: The same view of the same memory.
    Provokes: On a computed value Inductor must keep the eager layout for it.
    """

    def after(x): return x.as_strided(x.shape, x.stride(), x.storage_offset())


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "remove_noop_ops"))
class identity_clone:
    """Clones x.

    Why equivalent: Same values in fresh memory.
    Provokes: Dropped clones are the seed of aliasing bugs when x is written later.
    """

    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "ilp"))
class identity_clone_contiguous:
    """Clones x into row-major memory.

    Why equivalent: Same values.
    Provokes: A clone with a memory format fixes strides that layout optimisation wants to choose.
    """

    def after(x): return x.clone(memory_format=torch.contiguous_format)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "bam"))
class identity_contiguous:
    """Makes x contiguous.

    Why equivalent: x itself where it is contiguous, else a copy.
    Provokes: Whether it copies is decided on traced strides.
    """

    def after(x): return x.contiguous()


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("iot", "pointless_convert"))
class identity_to_own_dtype:
    """Converts to the dtype that x has.

    Why equivalent: Returns x itself in eager.
    Provokes: Must neither copy nor vanish into another cast.
    """

    def after(x): return x.to(x.dtype)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("iot",))
class identity_type_as_self:
    """Converts x to the type of x.

    Why equivalent: type_as of itself returns x.
    """

    def after(x): return x.type_as(x)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "bam", "pointless_convert"))
class identity_to_copy:
    """Converts to the own dtype with copy=True.

    Why equivalent: A copy of the same values.
    Provokes: Treated as a conversion without effect, while the copy is an effect.
    """

    def after(x): return x.to(x.dtype, copy=True)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ilp"))
class identity_flip_twice:
    """Flips the last dimension twice.

    Why equivalent: The flips cancel.
    Provokes: Negative index steps in vectorised loads.
    """

    def after(x): return x.flip(-1).flip(-1)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ilp"))
class identity_flip_all_twice:
    """Flips the first and last dimensions together, then one after the other.

    Why equivalent: The flips cancel and commute.
    """

    def after(x): return x.flip(0, -1).flip(-1).flip(0)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "roll"))
class identity_roll_back:
    """Rolls the last dimension by k and back.

    Why equivalent: The rolls cancel for any k.
    Provokes: roll is decomposed to cat or index with modular arithmetic.
    """

    def after(x): return x.roll(3, -1).roll(-3, -1)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "roll"))
class identity_roll_zero:
    """Rolls by zero.

    Why equivalent: Nothing moves; a copy in eager.
    """

    def after(x): return torch.roll(x, 0, 0)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "roll"))
class identity_roll_by_size:
    """Rolls the first dimension by its own size.

    Why equivalent: A full turn.
    Provokes: Shifts are taken modulo the size.
    """

    def after(x): return torch.roll(x, x.shape[0], 0)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "bam", "remove_noop_ops"))
class identity_cat_single:
    """Concatenates a list of one.

    Why equivalent: A copy of x.
    Provokes: The cat entry of ``remove_noop_ops`` returns x.
    """

    def after(x): return torch.cat([x], -1)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "ilp", "cat"))
class identity_cat_empty:
    """Concatenates x with its own zero-size slice.

    Why equivalent: The slice has no elements.
    Provokes: Zero-size operands of cat in lowering and split_cat passes.
    """

    def after(x): return torch.cat([x[:0], x, x[:0]], 0)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "ilp", "cat"))
class identity_cat_legacy_empty:
    """Concatenates x with the legacy empty tensor of shape (0,).

    Why equivalent: cat skips 1-D empty tensors whatever the rank of the others.
    Provokes: A special case in cat's meta function.
    """

    def after(x): return torch.cat([x, x.new_zeros(0)], 0)


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class identity_stack_select:
    """Stacks x with another of itself and selects the second.

    Why equivalent: Slot 1 is x.
    Provokes: The result is a view into the stacked buffer; select of stack is folded.
    """

    def after(x): return torch.stack([x, x])[1]


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class identity_stack_unbind:
    """Stacks x with zeros in a new last dimension and unbinds.

    Why equivalent: Slot 0 is x, with step-2 strides.
    """

    def after(x): return torch.stack([x, torch.zeros_like(x)], -1).unbind(-1)[0]


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "bam", "repeat"))
class identity_repeat_one:
    """Repeats once in every dimension.

    Why equivalent: A copy of x.
    Provokes: repeat's decomposition must still copy.
    """

    def after(x): return x.repeat((1,) * x.dim())


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "repeat"))
class identity_repeat_slice:
    """Repeats twice along the first dimension and takes the second half.

    Why equivalent: Both halves are x.
    Provokes: Modular indexing in the load, and a result with a storage offset.
    """

    def after(x): return x.repeat((2,) + (1,) * (x.dim() - 1))[x.shape[0]:]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "repeat_interleave"))
class identity_interleave_step:
    """Repeats each element twice and takes every other one.

    Why equivalent: Position 2i holds x[i].
    Provokes: Floor-division indexing in the load and a strided result.
    """

    def after(x): return x.repeat_interleave(2, dim=-1)[..., ::2]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc", "index"))
class identity_index_select_all:
    """Selects all rows with arange.

    Why equivalent: Row i is x[i].
    Provokes: Indirect loads with an index that is known; its backward is index_add.
    """

    def after(x): return x.index_select(0, torch.arange(x.shape[0], device=x.device))


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "index"))
class identity_index_arange_last:
    """Indexes the last dimension with arange.

    Why equivalent: Position i reads x[..., i].
    Provokes: Advanced indexing with an Ellipsis in front. Index tensors computed in the same kernel.
    """

    def after(x): return x[..., torch.arange(x.shape[-1], device=x.device)]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "index"))
class identity_index_negative:
    """Indexes the first dimension with negative indices -n..-1.

    Why equivalent: Index -n + i is i.
    Provokes: Wrapping of negative indices in the index lowering.
    """

    def after(x): return x[torch.arange(-x.shape[0], 0, device=x.device)]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "gather"))
class identity_gather_arange:
    """Gathers along the last dimension with an expanded arange.

    Why equivalent: Position i gathers x[i].
    Provokes: Indirect loads; the index is expanded memory and its backward is scatter_add.
    """

    def after(x): return x.gather(-1, torch.arange(x.shape[-1], device=x.device).expand(x.shape))


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "index"))
class identity_take_along_reversed_twice:
    """Reverses the rows twice by an index tensor.

    Why equivalent: A permutation that is its own inverse.
    Provokes: Nested indirect loads.
    """

    def after(x):
        rows = torch.arange(x.shape[0] - 1, -1, -1, device=x.device)
        return x[rows][rows]


@rule(args={"x": "..."}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "take", "iod"))
class identity_take_flat:
    """Takes all elements by flat index.

    Why equivalent: take reads in row-major order whatever the strides of x.
    Provokes: Its decomposition flattens and indexes.
    """

    def after(x): return x.take(torch.arange(x.numel(), device=x.device).view(x.shape))


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "bam", "remove_noop_ops"))
class identity_pad_nothing:
    """Pads by nothing.

    Why equivalent: constant_pad_nd by zero is a clone in eager.
    Provokes: It is a no-op in Inductor.
    """

    def after(x): return F.pad(x, (0, 0))


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "constant_pad_nd"))
class identity_pad_crop:
    """Pads the last dimension by 2 and 1 with zeros and crops it again.

    Why equivalent: The crop removes exactly the padding.
    Provokes: Masked loads of padding and a result with an offset.
    """

    def after(x): return F.pad(x, (2, 1))[..., 2 : 2 + x.shape[-1]]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "constant_pad_nd"))
class identity_crop_by_pad:
    """Pads the last dimension and crops it by negative padding.

    Why equivalent: Negative padding crops.
    Provokes: Mixed sign handling in the constant_pad_nd lowering.
    """

    def after(x): return F.pad(F.pad(x, (1, 2), value=1), (-1, -2))


@rule(args={"x": "..."}, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ugo", "iod", "native_dropout"))
class identity_dropout_eval:
    """Applies dropout in evaluation mode.

    Why equivalent: Returns x itself.
    Provokes: Must leave no RNG call and no copy.
    """

    def after(x): return F.dropout(x, 0.5, training=False)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 2"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class identity_split_cat:
    """Splits off the first row and concatenates again.

    Why equivalent: The parts in order are x.
    Provokes: split_cat passes remove the pair; unequal section sizes.
    """

    def after(x): return torch.cat(x.split([1, x.shape[0] - 1]))


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[-1] >= 2"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat", "kc"))
class identity_chunk_cat_last:
    """Chunks the last dimension in three and concatenates.

    Why equivalent: chunk may give fewer and unequal parts; in order they are x.
    Provokes: cat loops with several ranges.
    """

    def after(x): return torch.cat(x.chunk(3, -1), -1)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 2"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class identity_slices_cat_reversed:
    """Swaps two halves by cat and swaps them back.

    Why equivalent: Two swaps of the same cut cancel.
    Provokes: Near miss for passes that drop cat of split.
    """

    def after(x):
        h = x.shape[0] // 2
        y = torch.cat([x[h:], x[:h]])
        return torch.cat([y[x.shape[0] - h:], y[:x.shape[0] - h]])


@rule(args={"x": "..."}, where=["x.ndim >= 1", "1 <= x.shape[0] <= 8"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class identity_unbind_stack:
    """Unbinds the rows and stacks them again.

    Why equivalent: The rows in order are x.
    Provokes: unbind_stack passes.
    """

    def after(x): return torch.stack(x.unbind(0), 0)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "tril"))
class identity_tril_triu:
    """Adds the lower triangle with the diagonal and the strict upper triangle.

    Why equivalent: Each element is in one of them, the other adds 0.
    Provokes: Iota comparisons in one kernel, twice.
    """

    def after(x): return torch.tril(x) + torch.triu(x, 1)


@rule(args={"x": "n c h w"}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "layout_opt"))
class identity_channels_last:
    """Goes through channels_last memory and back to row-major.

    Why equivalent: Only memory order changes.
    Provokes: Layout optimisation and stride requirements.
    """

    def after(x): return x.contiguous(memory_format=torch.channels_last).contiguous()


@rule(args={"x": "n c h w"}, dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "layout_opt"))
class identity_channels_last_only:
    """Makes a channels_last copy of a 4-D value.

    Why equivalent: Only memory order changes.
    Provokes: Consumers see other strides.
    """

    def after(x): return x.clone(memory_format=torch.channels_last)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp",))
class identity_strided_storage_order:
    """Copies x into column-major order.

    Why equivalent: contiguous() of the transpose, transposed back.
    Provokes: All consumers see a permuted value.
    """

    def after(x): return x.transpose(-1, -2).contiguous().transpose(-1, -2)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp",))
class identity_offset_copy:
    """Gives x a storage offset: a zero row is put before it and sliced away.

    Why equivalent: The slice is x.
    Provokes: Consumers see an offset view of a larger buffer.
    """

    def after(x): return torch.cat([torch.zeros_like(x[:1]), x])[1 if x.shape[0] else 0:]


@rule(args={"x": "..."}, where=["x.ndim >= 2", "x.numel > 0"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class identity_gapped_rows:
    """Gives x gaps between its rows: pads the last dimension and slices the padding away.

    Why equivalent: The slice is x, not contiguous.
    Provokes: Consumers index with a row stride that is not the row length.
    """

    def after(x): return F.pad(x, (0, 3))[..., : x.shape[-1]]


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=NUMBERS, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "diag_embed"))
class identity_diag_embed:
    """Embeds the last dimension as a diagonal and takes the diagonal.

    Why equivalent: The diagonal of diag_embed(x) is x.
    Provokes: Decomposition of diag_embed by iota and where; diagonal as a strided view.
    """

    def after(x): return torch.diag_embed(x).diagonal(0, -2, -1)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[-1] >= 1"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "mutation", "gradient"), targets=("ilp", "unfold"))
class identity_unfold_fold:
    """Unfolds the last dimension in windows of 1 and drops the window.

    Why equivalent: The windows are single elements.
    Provokes: unfold's lowering through as_strided-like indexing.
    """

    def after(x): return x.unfold(-1, 1, 1)[..., 0]


@rule(args={"x": "..."}, dtypes=("float32", "float64"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "ilp", "complex"))
class identity_view_real_complex:
    """Builds a complex tensor with x as real part and takes the real part.

    Why equivalent: The real part is x.
    Provokes: Complex values fall back to eager kernels; real is a strided view.
    """

    def after(x): return torch.complex(x, torch.zeros_like(x)).real
