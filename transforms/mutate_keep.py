"""Values that go through buffers of their own, written in place, with the source overwritten afterwards."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import doc_text, rule, written

NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")
F = torch.nn.functional
KEEP = {
    "args": {"x": "..."}, "site": "value", "targets": ("bam", "ugo", "reinplace_inplaceable_ops", "remove_noop_ops"),
}
COPIED = ("dtype", "mutation", "gradient")


def kept(id, how, copy, write, *, provokes, limits="", where=(), dtypes=ANY, claim=Level.INDEX_EXACT):
    """A copy of a clone of x is used once the clone is overwritten."""
    does = f"Copies x by {how}, overwrites the source, uses the copy."
    why = "The source is a clone that nobody else sees and the copy has its own memory, so the values are x's."
    doc = doc_text(does, why, provokes, limits)
    written(id, doc, globals(), after=f"x: source = x.clone(); {copy}; {write}; return kept",
            **KEEP, preserves=COPIED, where=where, dtypes=dtypes, claim=claim)


kept("mutate_keep_add_zero", "adding 0", "kept = source + 0", "source.fill_(1)", dtypes=NUMBERS,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    provokes="``remove_noop_ops`` turns the copy into the source; the overwrite then shows through.",
    limits="-0.0 becomes 0.0.")
kept("mutate_keep_mul_one", "multiplying by 1", "kept = source * 1", "source.zero_()", dtypes=NUMBERS,
    claim=Level.BIT_EXACT,
    provokes="``remove_noop_ops`` / ``constant_fold_uniform_value`` make the product the source itself.")
kept("mutate_keep_clone", "clone", "kept = source.clone()", "source.add_(1)", dtypes=NUMBERS,
    provokes="Clone of a clone: ``remove_noop_ops`` drops clones of equal layout; an in-place add follows.")
kept("mutate_keep_sub_zeros", "subtracting zeros", "kept = source - torch.zeros_like(source)", "source.mul_(2)",
    dtypes=NUMBERS, claim=Level.BIT_EXACT,
    provokes="Uniform folding removes the subtraction, the mutation of the source follows.")
kept("mutate_keep_full_slice", "assigning it to a full slice of a buffer",
    "kept = torch.zeros_like(source); kept[...] = source", "source.fill_(1)",
    provokes="A whole slice_scatter is a no-op; what remains is the source, not a copy.")
kept("mutate_keep_copy_into_zeros", "copy_ into zeros", "kept = torch.zeros_like(source).copy_(source)",
    "source.zero_()",
    provokes="copy_ into a fresh buffer is functionalised to its operand: an alias where a copy was meant.")
kept("mutate_keep_cat_single", "cat of one tensor", "kept = torch.cat([source])", "source.fill_(1)",
    where=["x.ndim >= 1"],
    provokes="cat of one tensor is a clone in eager; ``remove_noop_ops`` returns the operand.")
kept("mutate_keep_pad_nothing", "padding by nothing", "kept = F.pad(source, (0, 0))", "source.fill_(1)",
    where=["x.ndim >= 1"],
    provokes="constant_pad_nd with zero padding is a clone in eager and a registered no-op in Inductor.")
kept("mutate_keep_to_copy", "to(copy=True) of the same dtype", "kept = source.to(source.dtype, copy=True)",
    "source.zero_()",
    provokes="_to_copy without change of dtype is dropped as a pointless conversion; the copy was the point.")
kept("mutate_keep_repeat_one", "repeat by 1", "kept = source.repeat((1,) * source.dim())", "source.fill_(1)",
    provokes="repeat copies in eager; its decomposition is an expand to the own shape.")
kept("mutate_keep_where", "where with a true mask",
    "kept = torch.where(torch.ones_like(source, dtype=torch.bool), source, source)", "source.fill_(1)",
    provokes="A select between equal arms; folding must yield a copy.")
kept("mutate_keep_flip_flip", "flipping twice", "kept = source.flip(-1).flip(-1)", "source.fill_(1)",
    where=["x.ndim >= 1"],
    provokes="Index simplification reduces the flips to the identity load of the overwritten buffer.")
kept("mutate_keep_index_rows", "indexing with arange",
    "kept = source[torch.arange(source.shape[0], device=source.device)]", "source.fill_(1)", where=["x.ndim >= 1"],
    provokes="iota indices are folded into the load, which must happen before the write.")
kept("mutate_keep_expand_clone", "cloning an expanded view and selecting",
    "kept = source.expand((2, *source.shape)).clone()[1]", "source.fill_(1)",
    provokes="clone materialises the expansion; the result is a view of that clone.")
kept("mutate_keep_slice_scatter", "slice_scatter of itself into itself",
    "kept = torch.slice_scatter(source, source, 0)", "source.zero_()", where=["x.ndim >= 1"],
    provokes="``remove_noop_ops`` removes a slice_scatter over the whole dimension and returns its source, not a copy.")
kept("mutate_keep_transposed_contiguous", "contiguous() of the transposed view",
    "kept = source.transpose(-1, -2).contiguous().transpose(-1, -2)", "source.fill_(1)",
    where=["x.ndim >= 2", "x.shape[-1] >= 2", "x.shape[-2] >= 2", "x.contiguous"],
    provokes="contiguous() copies when the transposed view is not contiguous; after a layout change it may not.",
    limits="Where a dimension has size 1 it does not copy in eager either: sizes of 2 and more only.")
kept("mutate_keep_dtype_trip", "conversion to float64 and back", "kept = source.double().to(source.dtype)",
    "source.fill_(1)", dtypes=("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool"),
    claim=Level.BIT_EXACT,
    provokes="``pointless_convert`` removes the exact round trip, and with it the copy.")
kept("mutate_keep_unbind_stack", "stacking its rows", "kept = torch.stack(source.unbind(0))", "source.fill_(1)",
    where=["x.ndim >= 1", "1 <= x.shape[0] <= 6"],
    provokes="unbind + stack is the identity for split_cat passes, which then return the source.")
kept("mutate_keep_cat_chunks", "cat of its chunks", "kept = torch.cat(source.chunk(2))", "source.fill_(1)",
    where=["x.ndim >= 1", "x.shape[0] >= 2"],
    provokes="cat of all chunks in order is removed by split_cat passes; the memory is then shared.")


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_zeros_copy:
    """Copies x into fresh zeros by copy_.

    Why equivalent: Every element is overwritten.
    Provokes: The zeros and the copy_ vanish under functionalisation, the layout of the fresh buffer should not.
    """

    def after(x):
        return torch.zeros_like(x).copy_(x)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_zeros_slice_assign:
    """Assigns x to the full slice of a new_zeros buffer.

    Why equivalent: Every element is overwritten.
    Provokes: slice_scatter over all rows.
    """

    def after(x):
        kept = x.new_zeros(x.shape)
        kept[:] = x
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_fill_restore:
    """Fills a clone of x and copies the saved values back.

    Why equivalent: The last write is x.
    Provokes: Two clones, one of which must survive reinplacing.
    """

    def after(x):
        kept = x.clone()
        save = kept.clone()
        kept.fill_(1)
        kept.copy_(save)
        return kept


@rule(**KEEP, preserves=("dtype", "mutation"), dtypes=INTS, claim=Level.BIT_EXACT)
class mutate_add_sub_int:
    """Adds 3 to a clone in place and subtracts it again (integers).

    Why equivalent: Exact by wrap-around.
    Provokes: In-place chains on one buffer.
    """

    def after(x):
        return x.clone().add_(3).sub_(3)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_transposed_write:
    """Writes x into zeros through the transposed view of the buffer.

    Why equivalent: Both sides are transposed alike.
    Provokes: The buffer is written through a permuted alias and read directly.
    """

    def after(x):
        kept = torch.zeros_like(x)
        kept.transpose(0, -1).copy_(x.transpose(0, -1))
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_flat_write:
    """Writes x into contiguous zeros through a flat view.

    Why equivalent: Row-major order on both sides.
    Provokes: A write through view(-1), read through the base.
    """

    def after(x):
        kept = x.new_zeros(x.shape)
        kept.view(-1).copy_(x.reshape(-1))
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_flat_index_write:
    """Writes x element-wise into flat zeros by an index tensor.

    Why equivalent: The indices are arange, no duplicates.
    Provokes: index_put on a view of a fresh buffer: reinplacing through a view of a clone.
    """

    def after(x):
        kept = x.new_zeros(x.shape)
        flat = kept.view(-1)
        flat[torch.arange(x.numel(), device=x.device)] = x.reshape(-1)
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim == 2"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_diagonal_write:
    """Writes the diagonal of x onto the diagonal of a clone whose diagonal was cleared.

    Why equivalent: Only the diagonal changes and it is restored.
    Provokes: diagonal_scatter twice on one base.
    """

    def after(x):
        kept = x.clone()
        kept.diagonal().zero_()
        kept.diagonal().copy_(x.diagonal())
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_even_odd_write:
    """Builds x from its even and odd columns in a zeros buffer.

    Why equivalent: Each column is written once.
    Provokes: Two strided slice_scatters that together cover the buffer.
    """

    def after(x):
        kept = torch.zeros_like(x)
        kept[..., ::2] = x[..., ::2]
        kept[..., 1::2] = x[..., 1::2]
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_rows_index_put:
    """Puts the rows of x into zeros by an index tensor in reversed order.

    Why equivalent: The reversed arange has no duplicates; source and index are reversed alike.
    Provokes: index_put of a flip.
    """

    def after(x):
        kept = torch.zeros_like(x)
        rows = torch.arange(x.shape[0] - 1, -1, -1, device=x.device)
        kept[rows] = x.flip(0)
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_rows_index_copy:
    """Copies the rows of x into a clone by index_copy_.

    Why equivalent: Writes each row onto itself.
    Provokes: index_copy functionalises to index_put; a self-copy is a reinplacing trap.
    """

    def after(x):
        rows = torch.arange(x.shape[0], device=x.device)
        return x.clone().index_copy_(0, rows, x)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=NUMBERS, claim=Level.EXACT_REAL)
class mutate_rows_index_add:
    """Adds the rows of x to zeros by index_add_.

    Why equivalent: Each row is added once to zero, exact but for -0.0 and, on a GPU, subnormals, which atomics flush.
    Provokes: Accumulating index_put on ``full``: atomics and ``scatter_upon_const``.
    """

    def after(x):
        rows = torch.arange(x.shape[0], device=x.device)
        return torch.zeros_like(x).index_add_(0, rows, x)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_scatter_own:
    """Scatters x into zeros along the last dimension at its own places.

    Why equivalent: The index is arange expanded, no duplicates.
    Provokes: Scatter on a uniform constant (``scatter_upon_const``) with an expanded index.
    """

    def after(x):
        index = torch.arange(x.shape[-1], device=x.device).expand(x.shape)
        return torch.zeros_like(x).scatter_(-1, index, x)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=("float32", "float64", "int64"), claim=Level.EXACT_REAL)
class mutate_scatter_add_own:
    """Scatter-adds x into zeros along the first dimension at its own places.

    Why equivalent: Each element is added once to zero, exact but for -0.0 and, on a GPU, subnormals, which atomics
    flush.
    Provokes: Atomic stores with an expanded index.
    """

    def after(x):
        index = torch.arange(x.shape[0], device=x.device).view((-1,) + (1,) * (x.dim() - 1)).expand(x.shape)
        return torch.zeros_like(x).scatter_add_(0, index, x)


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_masked_scatter_own:
    """Writes x into zeros by masked_scatter_ under a full mask.

    Why equivalent: All elements are taken in order.
    Provokes: masked_scatter's decomposition counts the mask by cumsum.
    """

    def after(x):
        return torch.zeros_like(x).masked_scatter_(torch.ones_like(x, dtype=torch.bool), x)


@rule(**KEEP, preserves=("dtype", "mutation"), where=["not x.requires_grad"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_foreach_copy:
    """Copies x into two zero buffers by a foreach list, clears one, uses the other.

    Why equivalent: The buffers are distinct.
    Provokes: Foreach copies of the same source may be merged into one buffer (CSE).
    Limits: _foreach_copy_ has no derivative.
    """

    def after(x):
        kept, other = torch.zeros_like(x), torch.zeros_like(x)
        torch._foreach_copy_([kept, other], [x, x])
        other.fill_(1)
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_two_clones:
    """Makes two clones, fills one, uses the other.

    Why equivalent: Clones are distinct memory.
    Provokes: CSE merges equal clone nodes; a mutation of one must not show in the other.
    """

    def after(x):
        kept, other = x.clone(), x.clone()
        other.fill_(1)
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_two_zeros:
    """Makes two equal zero buffers, fills one with ones, copies x into the other.

    Why equivalent: Distinct memory.
    Provokes: CSE of equal constructors (``fx_graph_cse``) must not merge mutated buffers.
    """

    def after(x):
        kept, other = torch.zeros_like(x), torch.zeros_like(x)
        other.fill_(1)
        kept.copy_(x)
        other.zero_()
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_view_then_write_base:
    """Fills a buffer through its base after taking a view, and returns the view.

    Why equivalent: The view shares memory with the buffer, so it shows x.
    Provokes: A view taken before the write has to be replayed.
    """

    def after(x):
        base = torch.zeros_like(x)
        view = base[...]
        base.copy_(x)
        return view


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_slot_write:
    """Writes x into slot 1 of a two-slot buffer, clears slot 0, returns slot 1.

    Why equivalent: Slots are disjoint.
    Provokes: select_scatter on a base and a result with a storage offset.
    """

    def after(x):
        slots = x.new_zeros((2, *x.shape))
        slots[1] = x
        slots[0] = 1
        return slots[1]


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_slot_exchange:
    """Keeps x in slot 0, copies slot 0 to slot 1, overwrites slot 0, returns slot 1.

    Why equivalent: Slot 1 takes x before slot 0 is overwritten.
    Provokes: A KV-cache shift. Source and destination are views of one base; the write order matters.
    """

    def after(x):
        slots = x.new_zeros((2, *x.shape))
        slots[0] = x
        slots[1] = slots[0].clone()
        slots[0] = 1
        return slots[1]


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_strided_write:
    """Writes x into contiguous zeros through as_strided of the buffer.

    Why equivalent: as_strided with the buffer's own contiguous strides covers it once.
    Provokes: as_strided on a computed buffer assumes a layout that Inductor is free to change.
    """

    def after(x):
        kept = x.new_zeros(x.shape)
        kept.as_strided(kept.shape, kept.stride(), 0).copy_(x)
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 2", "1 <= x.shape[0] <= 5"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_rows_write:
    """Fills zeros row by row through select.

    Why equivalent: Each row is written once.
    Provokes: A chain of select_scatters.
    """

    def after(x):
        kept = torch.zeros_like(x)
        for i in range(x.shape[0]):
            kept[i].copy_(x[i])
        return kept


@rule(**KEEP, preserves=("dtype", "mutation"), where=["not x.requires_grad"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_out_clone:
    """Writes where(True, x, x) into a zeros buffer by out=.

    Why equivalent: All elements come from x.
    Limits: out= has no gradient: only where x does not require grad.
    """

    def after(x):
        kept = torch.zeros_like(x)
        torch.where(torch.ones_like(x, dtype=torch.bool), x, x, out=kept)
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_reverse_in_place:
    """Reverses a clone in place twice.

    Why equivalent: The flips cancel.
    Provokes: Each copy_ reads its own destination in reverse.
    """

    def after(x):
        kept = x.clone()
        kept.copy_(kept.flip(0))
        kept.copy_(kept.flip(0))
        return kept


@rule(**KEEP, preserves=COPIED, dtypes=ANY, claim=Level.BIT_EXACT)
class mutate_masked_parts:
    """Rebuilds x in zeros as its positive part and the rest, by two masked copies.

    Why equivalent: where picks each element exactly once (NaN belongs to the rest).
    Provokes: Masks computed from the source of the writes.
    """

    def after(x):
        kept = torch.zeros_like(x)
        kept.copy_(torch.where(x > 0, x, kept))
        kept.copy_(torch.where(x > 0, kept, x))
        return kept


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_slice_scatter_own:
    """Scatters the head rows of x into x.

    Why equivalent: Writes each element onto itself.
    Provokes: A partial slice_scatter of a slice of its own base.
    """

    def after(x):
        return torch.slice_scatter(x, x[:1], 0, 0, 1)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_select_scatter_own:
    """Scatters the last row of x into x.

    Why equivalent: Writes each element onto itself.
    Provokes: select_scatter of a select of its own base.
    """

    def after(x):
        return torch.select_scatter(x, x.select(0, -1), 0, x.shape[0] - 1)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 2"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_diagonal_scatter_own:
    """Scatters the diagonal of x into x.

    Why equivalent: Writes each element onto itself.
    Provokes: diagonal_scatter's lowering through as_strided.
    """

    def after(x):
        return torch.diagonal_scatter(x, x.diagonal(0, -2, -1), 0, -2, -1)


@rule(**KEEP, preserves=COPIED, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT)
class mutate_index_put_own:
    """Puts the rows x[arange] back into x functionally.

    Why equivalent: Writes each row onto itself.
    Provokes: index_put of an index of the same tensor.
    """

    def after(x):
        rows = torch.arange(x.shape[0], device=x.device)
        return torch.index_put(x, (rows,), x[rows])
