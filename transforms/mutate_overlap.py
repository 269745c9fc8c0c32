"""Writes whose source and destination overlap in one buffer (a copy in between makes them defined)."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

ANY = FLOATS + INTS + ("bool",)


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops", "remove_noop_ops"))
class mutate_shift_in_buffer:
    """Shifts the rows of a longer buffer down by one and takes the shifted part.

    Why equivalent: Rows 1..n become the old rows 0..n-1, which are x.
    Provokes: The clone between read and write must not be dropped: a kernel that copies in ascending order would smear
    the first row.
    """

    def after(x):
        buffer = torch.cat([x, x[:1]])
        buffer[1:] = buffer[:-1].clone()
        return buffer[1:]


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 1"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops", "remove_noop_ops"))
class mutate_shift_up_in_buffer:
    """Shifts the rows of a longer buffer up by one and takes the shifted part.

    Why equivalent: Rows 0..n-1 become the old rows 1..n, which are x.
    Provokes: The clone between read and write must not be dropped.
    """

    def after(x):
        buffer = torch.cat([x[:1], x])
        buffer[:-1] = buffer[1:].clone()
        return buffer[:-1]


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[-1] >= 1"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops", "remove_noop_ops"))
class mutate_shift_columns_in_buffer:
    """Shifts the columns of a wider buffer by one and takes the shifted part.

    Why equivalent: Column j + 1 becomes the old column j.
    Provokes: Overlap within a row: vectorised copies read ahead of their writes.
    """

    def after(x):
        buffer = torch.cat([x, x[..., :1]], -1)
        buffer[..., 1:].copy_(buffer[..., :-1].clone())
        return buffer[..., 1:]


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 2"], dtypes=ANY, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops"))
class mutate_shift_by_two_in_buffer:
    """Shifts the rows of a longer buffer down by two with narrow and copy_.

    Why equivalent: The source is cloned first, so it shows x.
    """

    def after(x):
        buffer = torch.cat([x, x[:2]])
        n = x.shape[0]
        buffer.narrow(0, 2, n).copy_(buffer.narrow(0, 0, n).clone())
        return buffer.narrow(0, 2, n)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_reverse_in_buffer:
    """Reverses a reversed clone in place by an assignment to its whole slice.

    Why equivalent: The flip makes the copy.
    Provokes: Reading position n - 1 - i while writing i needs a temporary.
    """

    def after(x):
        buffer = x.flip(0)
        buffer[...] = buffer.flip(0)
        return buffer


@rule(args={"x": "n n"}, where=["n >= 2"], dtypes=ANY, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_transpose_in_buffer:
    """Transposes a square buffer in place.

    Why equivalent: The buffer starts as the transposed x.
    Provokes: The clone between the transposed read and the write must stay.
    """

    def after(x):
        buffer = x.t().clone()
        buffer.copy_(buffer.t().clone())
        return buffer


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="late", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_shift_restore:
    """Shifts the rows of x down by one in place and copies the saved rows back.

    Why equivalent: The last write restores every row.
    """

    def after(x):
        save = x.clone()
        x[1:] = x[:-1].clone()
        x.copy_(save)
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="late", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_shift_columns:
    """Shifts the columns of x by one after its last use.

    Why equivalent: x is not used afterwards.
    Provokes: Source and destination overlap within each row; the clone orders read before write.
    """

    def after(x):
        x[..., 1:] = x[..., :-1].clone()
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, site="late", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_shift_up:
    """Shifts the rows of x up by one after its last use.

    Why equivalent: x is not used afterwards.
    Provokes: A rolling buffer that forgets its oldest row.
    """

    def after(x):
        x[:-1] = x[1:].clone()
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 3"], dtypes=ANY, site="late",
      claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias"),
      targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_shift_copy:
    """Copies a clone of the head rows over the tail rows by copy_ after the last use.

    Why equivalent: x is not used afterwards.
    Provokes: The same overlap spelled with narrow and copy_, by two rows.
    """

    def after(x):
        n = x.shape[0]
        x.narrow(0, 2, n - 2).copy_(x.narrow(0, 0, n - 2).clone())
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=FLOATS + INTS, site="late", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias"), targets=("bam", "remove_noop_ops"))
class mutate_late_shift_no_op:
    """Shifts the rows down by one through x[:-1] * 1 after the last use.

    Why equivalent: x is not used afterwards.
    Provokes: The product is the copy that ``remove_noop_ops`` takes away.
    """

    def after(x):
        x[1:] = x[:-1] * 1
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=FLOATS + INTS, site="late", claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_shift_sum:
    """Adds the previous row to each row after the last use, all sums taken before any is written.

    Why equivalent: x is not used afterwards.
    Provokes: A recurrence if computed in place, a stencil if not.
    """

    def after(x):
        x[1:] = x[1:] + x[:-1]
        return x


@rule(args={"x": "n n"}, dtypes=ANY, site="late", claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias"),
      targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_transpose_square:
    """Transposes a square x in place after its last use.

    Why equivalent: x is not used afterwards.
    Provokes: Element (i, j) is read after (j, i) was written unless the clone stays.
    """

    def after(x):
        x.copy_(x.t().clone())
        return x


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.shape[0] >= 3"], dtypes=ANY, site="late",
      claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias"),
      targets=("bam", "reinplace_inplaceable_ops"))
class mutate_late_tail_to_head:
    """Reverses all rows but the first in place after the last use.

    Why equivalent: x is not used afterwards.
    Provokes: The flip of a slice is written onto the same slice.
    """

    def after(x):
        x[1:] = x[1:].flip(0)
        return x
