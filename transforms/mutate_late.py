"""Writes to memory at a later point of the program, restored or after the last use."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import doc_text, rule, written

NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")
LATE = {
    "args": {"x": "..."}, "site": "late", "claim": Level.INDEX_EXACT,
    "targets": ("bam", "reinplace_inplaceable_ops", "remove_noop_ops"),
}
KEPT = ("dtype", "stride", "alias", "mutation")
CHANGED = ("dtype", "stride", "alias")


def restored(id, does, writes, *, why, provokes, where=(), dtypes=ANY):
    """Writes to x that leave it as it was."""
    written(id, doc_text(does, why, provokes), globals(), after=f"x: {writes}; return x",
            **LATE, preserves=KEPT, where=where, dtypes=dtypes)


def after_last_use(id, does, writes, *, provokes, where=(), dtypes=ANY):
    """Writes to x that stay, where nothing of the program reads x any more."""
    why = "x is not used afterwards, so only its own final state differs from before."
    written(id, doc_text(does, why, provokes), globals(), after=f"x: {writes}; return x",
            **LATE, preserves=CHANGED, where=where, dtypes=dtypes)


restored("mutate_late_fill_restore", "Saves a copy, fills x with 1 and copies the saved values back.",
    "save = x.clone(); x.fill_(1); x.copy_(save)",
    why="Every element is written twice; the last write is the old value.",
    provokes="Reinplacing must keep the copy apart from x: dropping the clone leaves x filled.")
restored("mutate_late_zero_restore_slice",
    "Saves x by multiplication-free copy into zeros, zeroes x, assigns everything back by a full slice.",
    "save = torch.zeros_like(x); save[...] = x; x.zero_(); x[...] = save",
    why="Everything is assigned back.",
    provokes="The saved buffer is filled through setitem, so the copy is a slice_scatter after functionalisation, "
             "which ``remove_noop_ops`` may drop as a whole-slice scatter.")
restored("mutate_late_transpose_restore", "Fills x through its transposed view and restores it through the same view.",
    "view = x.transpose(-1, -2); save = view.clone(); view.fill_(1); view.copy_(save)", where=["x.ndim >= 2"],
    why="Each element is restored.",
    provokes="The write goes through view replay on a permuted base (functionalisation's view inverse).")
restored("mutate_late_head_restore", "Clears the first row and writes the saved row back.",
    "head = x[:1].clone(); x[:1] = 0; x[:1] = head", where=["x.ndim >= 1"],
    why="Only the row x[:1] is touched and it is restored.",
    provokes="A slice_scatter of a clone of a slice of the same base: the read must come before the write.")
restored("mutate_late_roll_restore", "Rolls the rows of x in place by one and back by one.",
    "x.copy_(x.roll(1, 0)); x.copy_(x.roll(-1, 0))", where=["x.ndim >= 1"],
    why="The rolls cancel.",
    provokes="x is read at other positions than it is written: an in-place kernel would read elements already "
             "overwritten.")
restored("mutate_late_flip_twice", "Reverses x along its last dimension in place, twice.",
    "x.copy_(x.flip(-1)); x.copy_(x.flip(-1))", where=["x.ndim >= 1"],
    why="The flips cancel.",
    provokes="Reversed reads of a buffer that is then overwritten defeat in-place reuse unless the dependency is seen.")
restored("mutate_late_add_sub_int", "Adds 1 in place and subtracts it again (integers).", "x.add_(1); x.sub_(1)",
    dtypes=INTS,
    why="Integer arithmetic wraps, so the pair is exact.",
    provokes="Two mutations of one base in a row; a reader between them in program order must see neither.")
restored("mutate_late_neg_neg", "Negates x in place twice.", "x.neg_(); x.neg_()", dtypes=NUMBERS,
    why="Exact for every value.",
    provokes="Simplified to nothing by rewriting, while the input still counts as mutated (copy_ epilogue of the "
             "runtime wrapper).")
restored("mutate_late_not_not", "Complements a mask or an integer in place twice.",
    "x.bitwise_not_(); x.bitwise_not_()", dtypes=(*INTS, "bool"),
    why="Exact.",
    provokes="In-place bitwise operations on bool storage.")
restored("mutate_late_copy_self", "Copies a clone of x into x.", "x.copy_(x.clone())",
    why="Writes the values that are there.",
    provokes="``copy_(x, clone(x))`` is the form that removes both the clone and the copy; x must still count as a "
             "mutated input or stay untouched.")
restored("mutate_late_copy_sum_self", "Copies x + 0 into x (integers).", "x.copy_(x + 0)", dtypes=INTS,
    why="Writes the values that are there.",
    provokes="The sum is a no-op for ``remove_noop_ops``, the copy_ then copies x onto itself.")
restored("mutate_late_same_tail", "Assigns a clone of the tail rows onto the tail rows.", "x[1:] = x[1:].clone()",
    where=["x.ndim >= 1"],
    why="Writes the values that are there.",
    provokes="A no-op slice_scatter for ``remove_noop_ops``, with overlap of source and destination if the clone is "
             "dropped.")
restored("mutate_late_same_transposed", "Copies a clone of the transposed view into the transposed view.",
    "x.transpose(0, -1).copy_(x.transpose(0, -1).clone())", where=["x.ndim >= 1"],
    why="Writes the values that are there.",
    provokes="clone keeps permuted strides, so copy_ sees equal layouts that differ from the base's.")
restored("mutate_late_rows_restore", "Clears all rows through an index tensor and puts them back.",
    "rows = torch.arange(x.shape[0], device=x.device); save = x[rows]; "
    "x[rows] = torch.zeros_like(save); x[rows] = save",
    where=["x.ndim >= 1"],
    why="The index is arange, without duplicates.",
    provokes="index_put on the base between a gather and another index_put is a reinplacing candidate.")
restored("mutate_late_masked_restore", "Clears x under a full mask and copies it back.",
    "save = x.clone(); x.masked_fill_(torch.ones_like(x, dtype=torch.bool), 0); x.copy_(save)",
    why="Every element is restored.",
    provokes="masked_fill_ decomposes to where + copy_, with a uniform mask (``constant_fold_uniform_value``).")
restored("mutate_late_foreach_restore", "Zeroes x through a foreach list and restores it through one.",
    "save = x.clone(); torch._foreach_zero_([x]); torch._foreach_copy_([x], [save])",
    why="Element-wise the same as zero_ and copy_.",
    provokes="Foreach kernels are scheduled as groups and have reinplacing rules of their own.")
restored("mutate_late_flat_restore", "Fills x through its flat view and restores it through x.",
    "save = x.clone(); x.view(-1).fill_(1); x.copy_(save)", where=["x.contiguous"],
    why="The flat view is the same memory.",
    provokes="A write through a reshaped alias, a read through another (view replay, alias analysis).")
restored("mutate_late_diagonal_restore", "Clears the diagonal and restores it.",
    "save = x.diagonal().clone(); x.diagonal().fill_(0); x.diagonal().copy_(save)", where=["x.ndim == 2"],
    why="Only the diagonal is written.",
    provokes="diagonal_scatter on the base with a saved copy of its own diagonal.")
restored("mutate_late_out_restore", "Zeroes x, then restores it as the out= of a where.",
    "save = x.clone(); x.zero_(); torch.where(torch.ones_like(save, dtype=torch.bool), save, save, out=x)",
    why="out= writes into x's own memory.",
    provokes="Dynamo turns out= into a copy; the result must still be x.")
restored("mutate_late_strided_restore", "Fills x through as_strided of itself and restores it.",
    "save = x.clone(); x.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(1); x.copy_(save)",
    why="as_strided with x's own sizes, strides and offset is x.",
    provokes="as_strided on an input or on a computed value needs the true layout, which Inductor may have changed.")
restored("mutate_late_even_restore", "Clears the even columns and restores them.",
    "save = x[..., ::2].clone(); x[..., ::2] = 0; x[..., ::2] = save", where=["x.ndim >= 1"],
    why="Only step-2 slices of the last dimension are written, and restored.",
    provokes="Strided slice_scatter and its read-back.")

after_last_use("mutate_late_add_one", "Adds 1 to x after its last use.", "x.add_(1)", dtypes=NUMBERS,
    provokes="Any copy of x made earlier (x + 0, x.clone(), a whole-slice scatter) must not have become x itself: "
             "``remove_noop_ops`` followed by the copy_ epilogue.")
after_last_use("mutate_late_zero", "Zeroes x after its last use.", "x.zero_()",
    provokes="Earlier readers may be fused with the write; the buffer of x may be reused in place.")
after_last_use("mutate_late_fill", "Fills x with 2 after its last use.", "x.fill_(2)",
    provokes="A uniform constant is copied into an input: ``constant_fold_uniform_value`` plus copy_.")
after_last_use("mutate_late_flip_copy", "Copies the reversed x into x after its last use.", "x.copy_(x.flip(0))",
    where=["x.ndim >= 1"],
    provokes="The written value reads x itself in another order: needs a temporary.")
after_last_use("mutate_late_transposed_mul", "Doubles x in place through its transposed view after its last use.",
    "x.transpose(-1, -2).mul_(2)", where=["x.ndim >= 2"], dtypes=NUMBERS,
    provokes="View replay on the base of a permuted view.")
after_last_use("mutate_late_tail_fill", "Fills the tail rows of x after its last use.", "x[1:] = 1",
    where=["x.ndim >= 1"],
    provokes="slice_scatter whose result is copied into the input; values copied from x before must hold their own "
             "memory.")
after_last_use("mutate_late_shift_rows", "Shifts the rows down by one after the last use: x[1:] = x[:-1].",
    "x[1:] = x[:-1].clone()", where=["x.ndim >= 1"],
    provokes="Source and destination overlap; the clone orders read before write.")
after_last_use("mutate_late_roll_rows", "Rolls the rows of x in place after its last use.",
    "x.copy_(torch.roll(x, 1, 0))", where=["x.ndim >= 1"],
    provokes="The written value reads the same buffer at other rows; an in-place kernel must not do this.")
after_last_use("mutate_late_index_fill", "Clears the first row by index_fill_ after the last use.",
    "x.index_fill_(0, torch.zeros(1, dtype=torch.int64, device=x.device), 0)", where=["x.ndim >= 1", "x.shape[0] >= 1"],
    provokes="index_fill_ functionalises to a scatter on the base, a reinplacing candidate that may skip a needed "
             "copy.")
after_last_use("mutate_late_index_put", "Overwrites the first row through an index tensor after the last use.",
    "x[torch.zeros(1, dtype=torch.int64, device=x.device)] = 1", where=["x.ndim >= 1", "x.shape[0] >= 1"],
    provokes="index_put reinplaced onto an input whose old values are still read by a fused consumer.")
after_last_use("mutate_late_foreach_add", "Adds 1 to x by a foreach list after its last use.",
    "torch._foreach_add_([x], 1)", dtypes=NUMBERS,
    provokes="Foreach in-place operations have their own reinplacing and grouping.")
after_last_use("mutate_late_masked_fill", "Clears the positive elements of x after its last use.",
    "x.masked_fill_(x > 0, 0)",
    provokes="The mask reads x, the fill writes it: where + copy_ in one kernel.")
after_last_use("mutate_late_flat_add", "Adds 1 through the flat view after the last use.", "x.view(-1).add_(1)",
    where=["x.contiguous"], dtypes=NUMBERS,
    provokes="The written alias has another shape than the one that was read.")
after_last_use("mutate_late_diagonal_zero", "Clears the diagonal after the last use.", "x.diagonal().zero_()",
    where=["x.ndim == 2"],
    provokes="diagonal_scatter followed by the copy_ epilogue.")
after_last_use("mutate_late_even_fill", "Fills the even columns after the last use.", "x[..., ::2] = 1",
    where=["x.ndim >= 1"],
    provokes="A slice_scatter with step 2 into an input.")
after_last_use("mutate_late_select_copy", "Copies the last row over the first after the last use.", "x[0].copy_(x[-1])",
    where=["x.ndim >= 1", "x.shape[0] >= 2"],
    provokes="select_scatter of a select of the same base.")
after_last_use("mutate_late_scatter", "Scatters 1 into the first column after the last use.",
    "x.scatter_(-1, torch.zeros((*x.shape[:-1], 1), dtype=torch.int64, device=x.device), 1)",
    where=["x.ndim >= 1", "x.numel > 0"],
    provokes="scatter_ of a value on an input (``scatter_upon_const``).")
after_last_use("mutate_late_index_add", "Adds the first row to itself by index_add_ after the last use.",
    "x.index_add_(0, torch.zeros(1, dtype=torch.int64, device=x.device), x[:1].clone())",
    where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=NUMBERS,
    provokes="The source is a view of the destination's old value.")
after_last_use("mutate_late_out_add", "Writes x + 1 into x by out= after the last use.", "torch.add(x, 1, out=x)",
    dtypes=NUMBERS,
    provokes="out= aliasing an operand; Dynamo and functionalisation make a copy_ of it.")
after_last_use("mutate_late_cumsum", "Replaces x by its running sum after the last use.", "x.cumsum_(0)",
    where=["x.ndim >= 1"], dtypes=("float32", "float64", "int64"),
    provokes="A scan that reads the buffer it writes.")
after_last_use("mutate_late_relu", "Applies relu_ to x after the last use.", "torch.relu_(x)", dtypes=NUMBERS,
    provokes="In-place activation on an input whose pre-activation was read before.")
after_last_use("mutate_late_swap_halves", "Swaps the halves of x after its last use.",
    "low, high = x.chunk(2); save = low.clone(); low.copy_(high); high.copy_(save)",
    where=["x.ndim >= 1", "x.shape[0] % 2 == 0", "x.shape[0] >= 2"],
    provokes="Two views of one base are written from each other; one temporary is needed.")
after_last_use("mutate_late_strided_fill", "Fills x through as_strided after its last use.",
    "x.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(1)",
    provokes="A write through as_strided: as_strided_scatter on the base and its layout constraint.")
after_last_use("mutate_late_tril", "Clears the upper triangle in place after the last use.", "x.tril_()",
    where=["x.ndim >= 2"],
    provokes="tril_ is where over iota compared indices, written back to the input.")


@rule(**LATE, preserves=KEPT, where=["x.ndim >= 1", "x.shape[0] >= 2"], dtypes=ANY)
class mutate_late_swap_halves_twice:
    """Swaps the first and the last row in place, twice.

    Why equivalent: Two swaps cancel.
    Provokes: Each swap reads both rows before it writes either; needs the temporaries that no-op removal likes to drop.
    """

    def after(x):
        first, last = x[0].clone(), x[-1].clone()
        x[0] = last
        x[-1] = first
        first, last = x[0].clone(), x[-1].clone()
        x[0] = last
        x[-1] = first
        return x


@rule(**LATE, preserves=KEPT, where=["x.ndim >= 2", "x.shape[0] <= 4"], dtypes=ANY)
class mutate_late_unbind_restore:
    """Clears x row by row through unbind and restores it row by row.

    Why equivalent: Each row is a view of x.
    Provokes: Many select_scatter nodes on one base, reads and writes alternating.
    """

    def after(x):
        for row in x.unbind(0):
            save = row.clone()
            row.zero_()
            row.copy_(save)
        return x


@rule(**LATE, preserves=KEPT, where=["x.ndim >= 1", "x.shape[0] % 2 == 0", "x.shape[0] >= 2"], dtypes=ANY)
class mutate_late_chunks_restore:
    """Swaps the two halves of x in place and swaps them back.

    Why equivalent: Two swaps cancel.
    Provokes: chunk gives two views of one base that are written from each other's copies.
    """

    def after(x):
        for _ in range(2):
            low, high = x.chunk(2)
            save = low.clone()
            low.copy_(high)
            high.copy_(save)
        return x


@rule(**LATE, preserves=KEPT, where=["x.ndim >= 1"], dtypes=ANY)
class mutate_late_scatter_restore:
    """Scatters zeros over the whole of x and scatters the saved values back.

    Why equivalent: The index is arange along the last dimension, no duplicates.
    Provokes: scatter_ is a fallback or an atomic store, and a reinplacing candidate.
    """

    def after(x):
        save = x.clone()
        index = torch.arange(x.shape[-1], device=x.device).expand(x.shape)
        x.scatter_(-1, index, torch.zeros_like(x))
        x.scatter_(-1, index, save)
        return x


@rule(**LATE, preserves=KEPT, where=["x.ndim >= 1"], dtypes=ANY)
class mutate_late_index_copy_restore:
    """Fills the rows by index_fill_ and restores them by index_copy_.

    Why equivalent: The index is arange, no duplicates.
    Provokes: Both functionalise to scatter-like operations with a copy_ epilogue.
    """

    def after(x):
        rows = torch.arange(x.shape[0], device=x.device)
        save = x.clone()
        x.index_fill_(0, rows, 0)
        x.index_copy_(0, rows, save)
        return x
