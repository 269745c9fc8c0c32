"""Operations spelled in place, through buffers and as scatters."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_add_in_place:
    """Adds in place to a clone.

    Why equivalent: The clone is fresh memory with the values of x.
    """

    def before(x, y): return x + y

    def after(x, y): return x.clone().add_(y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_sub_in_place:
    """Subtracts in place on a slice-assigned copy.

    Why equivalent: The buffer is a copy of x.
    """

    def before(x, y): return x - y

    def after(x, y):
        kept = torch.zeros_like(x)
        kept[...] = x
        kept -= y
        return kept


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_mul_in_place:
    """Multiplies in place through the transposed view of a clone.

    Why equivalent: Pointwise under the same transposition.
    """

    def before(x, y): return x * y

    def after(x, y):
        kept = x.clone()
        kept.transpose(0, -1).mul_(y.transpose(0, -1)) if x.dim() else kept.mul_(y)
        return kept


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "x.ndim >= 1"], dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("bam",))
class mutate_mul_by_copy:
    """Writes the product over a clone of the first factor, row part by row part.

    Why equivalent: The parts cover the clone once.
    """

    def before(x, y): return x * y

    def after(x, y):
        kept = x.clone()
        kept[:1] = x[:1] * y[:1]
        kept[1:] = x[1:] * y[1:]
        return kept


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_add_in_place_as_copy:
    """Copies the sum into x instead of adding in place.

    Why equivalent: x.copy_(x + y) leaves the same state and returns x.
    """

    def before(x, y): return x.add_(y)

    def after(x, y): return x.copy_(x + y)


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam", "remove_noop_ops"))
class mutate_add_in_place_as_assign:
    """Assigns the sum to the whole slice of x.

    Why equivalent: setitem copies into x's memory.
    """

    def before(x, y): return x.add_(y)

    def after(x, y):
        x[...] = x + y
        return x


@rule(args={"x": "...", "y": "..."}, where=["not x.requires_grad", "not y.requires_grad"], dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation"), targets=("bam",))
class mutate_add_in_place_as_out:
    """Adds with out=x.

    Why equivalent: out= writes the memory of x.
    """

    def before(x, y): return x.add_(y)

    def after(x, y): return torch.add(x, y, out=x)


@rule(args={"x": "...", "y": "..."}, where=["x.ndim >= 2", "x.shape == y.shape"], dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("bam", "ilp"))
class mutate_add_in_place_transposed:
    """Adds in place through transposed views of both.

    Why equivalent: Pointwise under the same transposition; the base shows the write.
    """

    def before(x, y): return x.add_(y)

    def after(x, y):
        x.transpose(0, 1).add_(y.transpose(0, 1))
        return x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam", "foreach"))
class mutate_add_in_place_foreach:
    """Adds in place by a foreach list of one.

    Why equivalent: The same write.
    """

    def before(x, y): return x.add_(y)

    def after(x, y):
        torch._foreach_add_([x], [y])
        return x


@rule(args={"x": "...", "y": "..."}, where=["x.ndim >= 1", "x.shape == y.shape", "1 <= x.shape[0] <= 4"],
      dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("bam",))
class mutate_add_in_place_by_rows:
    """Adds in place row by row.

    Why equivalent: Rows are disjoint.
    """

    def before(x, y): return x.add_(y)

    def after(x, y):
        for i in range(x.shape[0]):
            x[i] += y[i]
        return x


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_sub_in_place_as_copy:
    """Copies the difference into x instead of subtracting in place.

    Why equivalent: The same state.
    """

    def before(x, y): return x.sub_(y)

    def after(x, y): return x.copy_(x - y)


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_mul_in_place_as_copy:
    """Copies the product of a clone into x instead of multiplying in place.

    Why equivalent: The same state; autograd needs the old x.
    """

    def before(x, y): return x.mul_(y)

    def after(x, y): return x.copy_(x.clone() * y)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_mul_scalar_in_place_as_copy:
    """Copies the scaled value into x.

    Why equivalent: The same state.
    """

    def before(x, c): return x.mul_(c)

    def after(x, c): return x.copy_(x * c)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_add_scalar_in_place_as_copy:
    """Assigns x plus a number to x.

    Why equivalent: The same state.
    """

    def before(x, c): return x.add_(c)

    def after(x, c):
        x[...] = x + c
        return x


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam", "remove_noop_ops"))
class mutate_copy_as_assign:
    """Assigns to the whole slice instead of copy_.

    Why equivalent: The same write.
    """

    def before(x, y): return x.copy_(y)

    def after(x, y):
        x[...] = y
        return x


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_copy_through_clone:
    """Clears x and copies a clone of y taken before.

    Why equivalent: The last write is y's old value, also where y is a view of x.
    """

    def before(x, y): return x.copy_(y)

    def after(x, y):
        save = y.clone()
        x.zero_()
        return x.copy_(save)


@rule(args={"x": "...", "y": "..."}, where=["x.ndim >= 2", "x.shape == y.shape"], dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("bam", "ilp"))
class mutate_copy_transposed:
    """Copies between transposed views.

    Why equivalent: The same write under a transposition of both sides.
    """

    def before(x, y): return x.copy_(y)

    def after(x, y):
        x.transpose(-1, -2).copy_(y.transpose(-1, -2))
        return x


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, dtypes=FLOATS,
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("bam", "constant_fold_uniform_value"))
class mutate_fill_as_copy:
    """Copies a uniform tensor into x.

    Why equivalent: full_like rounds the number as fill_ does.
    """

    def before(x, c): return x.fill_(c)

    def after(x, c): return x.copy_(torch.full_like(x, c))


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_zero_as_fill:
    """Fills x with 0 by masked_fill_ under a full mask.

    Why equivalent: Every element is cleared.
    """

    def before(x): return x.zero_()

    def after(x): return x.masked_fill_(torch.ones_like(x, dtype=torch.bool), 0)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_zero_as_assign:
    """Assigns 0 to the whole slice.

    Why equivalent: The same write.
    """

    def before(x): return x.zero_()

    def after(x):
        x[...] = 0
        return x


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_relu_in_place_as_copy:
    """Copies relu into x instead of relu_.

    Why equivalent: The same state.
    """

    def before(x): return torch.relu_(x)

    def after(x): return x.copy_(torch.relu(x))


@rule(args={"x": "...", "m": "..."}, where=["m.dtype == 'bool'", "x.floating", "type(c) in (int, float)"],
      scalars={"c": None}, dtypes=(*FLOATS, "bool"), mixed=True, claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("bam",))
class mutate_masked_fill_in_place_as_where:
    """Copies a select into x instead of masked_fill_.

    Why equivalent: The same state.
    """

    def before(x, m, c): return x.masked_fill_(m, c)

    def after(x, m, c): return x.copy_(x.masked_fill(m, c))


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "x.ndim >= 1", "x.ndim == y.ndim", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops"))
class mutate_cat_by_slices:
    """Writes both parts into a zeros buffer by slices.

    Why equivalent: The slices cover the buffer once.
    Provokes: slice_scatter chains instead of a cat kernel.
    """

    def before(x, y, d): return torch.cat([x, y], d)

    def after(x, y, d):
        size = list(x.shape)
        size[d] += y.shape[d]
        out = x.new_zeros(size)
        out.narrow(d, 0, x.shape[d]).copy_(x)
        out.narrow(d, x.shape[d], y.shape[d]).copy_(y)
        return out


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "x.ndim >= 1", "x.ndim == y.ndim", "-x.ndim <= d < x.ndim",
             "x.shape[d] >= 1", "y.shape[d] >= 1"], scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "ugo"))
class mutate_cat_by_slice_scatter:
    """Writes both parts into a uniform buffer by functional slice_scatter.

    Why equivalent: The slices cover the buffer once.
    """

    def before(x, y, d): return torch.cat([x, y], d)

    def after(x, y, d):
        n, size = x.shape[d], list(x.shape)
        size[d] += y.shape[d]
        out = torch.slice_scatter(torch.ones(size, dtype=x.dtype, device=x.device), y, d, n, n + y.shape[d])
        return torch.slice_scatter(out, x, d, 0, n)


@rule(args={"x": "...", "y": "..."}, where=["type(d) is int", "x.shape == y.shape", "0 <= d <= x.ndim"],
      scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam",))
class mutate_stack_by_select:
    """Writes both operands into slots of a zeros buffer.

    Why equivalent: Slots are disjoint.
    """

    def before(x, y, d): return torch.stack([x, y], d)

    def after(x, y, d):
        out = x.new_zeros((*x.shape[:d], 2, *x.shape[d:]))
        out.select(d, 0).copy_(x)
        out.select(d, 1).copy_(y)
        return out


@rule(args={"x": "..."}, where=["type(a) is int", "type(b) is int", "a >= 0", "b >= 0", "x.ndim >= 1"],
      scalars={"a": None, "b": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "constant_pad_nd"))
class mutate_pad_by_slice:
    """Pads the last dimension by writing x into a zeros buffer.

    Why equivalent: The border stays 0.
    """

    def before(x, a, b): return F.pad(x, (a, b))

    def after(x, a, b):
        out = x.new_zeros((*x.shape[:-1], a + x.shape[-1] + b))
        out[..., a : a + x.shape[-1]] = x
        return out


@rule(args={"x": "... n", "i": "k", "s": "... k"},
      where=["x.floating", "i.dtype == 'int64'", "s.dtype == x.dtype", "d in (-1, x.ndim - 1)", "n >= 2"],
      scalars={"d": None}, dtypes=("float32", "float64", "int64"), mixed=True, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_index_add_in_place:
    """Accumulates in place on a clone.

    Why equivalent: The clone is fresh memory.
    """

    def before(x, i, s, d): return torch.index_add(x, d, i, s)

    def after(x, i, s, d): return x.clone().index_add_(d, i, s)


@rule(args={"x": "m n", "i": "m k", "s": "m k"},
      where=["x.floating", "i.dtype == 'int64'", "s.dtype == x.dtype", "n >= 2"],
      dtypes=("float32", "float64", "int64"), mixed=True, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class mutate_scatter_add_in_place:
    """Scatter-adds into a transposed clone in place.

    Why equivalent: The same places under a transposition of all operands.
    """

    def before(x, i, s): return torch.scatter_add(x, 1, i, s)

    def after(x, i, s):
        kept = x.clone()
        kept.t().scatter_add_(0, i.t(), s.t())
        return kept


@rule(args={"x": "..."}, where=["not x.requires_grad"], claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("bam",))
class mutate_exp_out:
    """Computes exp into a zeros buffer by out=.

    Why equivalent: out= writes fresh memory.
    Limits: Vectorised and scalar exp differ in the last bit, so not bit by bit.
    """

    def before(x): return torch.exp(x)

    def after(x): return torch.exp(x, out=torch.zeros_like(x))
