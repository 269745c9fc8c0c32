"""Equivalents of views and data movement."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
ANY = FLOATS + INTS + ("bool",)


@rule(args={"x": "..."}, where=["x.ndim >= 2", "type(i) is int", "type(j) is int"], scalars={"i": None, "j": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias", "mutation", "gradient"),
      targets=("ilp",))
class layout_transpose_as_permute:
    """Spells transpose as permute.

    Why equivalent: The same view.
    """

    def before(x, i, j): return x.transpose(i, j)

    def after(x, i, j):
        order = list(range(x.dim()))
        order[i], order[j] = order[j], order[i]
        return x.permute(order)


@rule(args={"x": "..."}, where=["type(i) is int", "type(j) is int", "x.ndim >= 2"], scalars={"i": None, "j": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "stride", "alias", "mutation"),
      targets=("ilp", "as_strided"))
class layout_transpose_as_strided:
    """Spells transpose as as_strided with swapped sizes and strides.

    Why equivalent: The same view of the same memory.
    Provokes: On computed values Inductor has to keep the eager layout.
    """

    def before(x, i, j): return x.transpose(i, j)

    def after(x, i, j):
        size, stride = list(x.shape), list(x.stride())
        size[i], size[j] = size[j], size[i]
        stride[i], stride[j] = stride[j], stride[i]
        return x.as_strided(size, stride, x.storage_offset())


@rule(args={"x": "..."}, where=["type(j) is int", "x.ndim >= 2", "1 <= x.shape[0] <= 6", "j == 1"],
      scalars={"j": None}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "split_cat"))
class layout_transpose_as_stack:
    """Moves the first dimension by stacking its rows elsewhere.

    Why equivalent: Row i becomes slice i of the new dimension.
    Provokes: A copy with other strides than the view.
    """

    def before(x, j): return x.transpose(0, j)

    def after(x): return torch.stack(x.unbind(0), 1)


@rule(args={"x": "..."}, where=["x.ndim >= 2", "type(i) is int", "type(j) is int"], scalars={"i": None, "j": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class layout_transpose_contiguous:
    """Materialises a transposed view.

    Why equivalent: The same values, row-major.
    Provokes: Keys and values of attention get another layout.
    """

    def before(x, i, j): return x.transpose(i, j)

    def after(x, i, j): return x.transpose(i, j).clone(memory_format=torch.contiguous_format)


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_t_as_permute:
    """Spells t as permute.

    Why equivalent: The same view.
    """

    def before(x): return x.t()

    def after(x): return x.permute(1, 0)


@rule(args={"x": "m n"}, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "iod", "einsum"))
class layout_t_as_einsum:
    """Spells t as einsum.

    Why equivalent: einsum without contraction permutes.
    """

    def before(x): return x.t()

    def after(x): return torch.einsum("mn->nm", x)


@rule(args={"x": "a b c d"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "fuse_attention"))
class layout_permute_heads:
    """Spells the head permutation 0, 2, 1, 3 as transpose.

    Why equivalent: The same view.
    Provokes: Attention patterns match one spelling.
    """

    def before(x): return x.permute(0, 2, 1, 3)

    def after(x): return x.transpose(1, 2)


@rule(args={"x": "a b c d"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp", "fuse_attention"))
class layout_heads_as_permute:
    """Spells the transposition of heads and positions in two permutations.

    Why equivalent: (0, 2, 3, 1) then (0, 1, 3, 2) is (0, 2, 1, 3).
    """

    def before(x): return x.transpose(1, 2)

    def after(x): return x.permute(0, 2, 3, 1).permute(0, 1, 3, 2)


@rule(args={"x": "a b c d"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_permute_channels_last:
    """Spells NCHW to NHWC as movedim.

    Why equivalent: The same view.
    """

    def before(x): return x.permute(0, 2, 3, 1)

    def after(x): return x.movedim(1, -1)


@rule(args={"x": "a b c d"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_permute_channels_first:
    """Spells NHWC to NCHW as two transpositions.

    Why equivalent: (0, 3, 2, 1) then swap of the last two.
    """

    def before(x): return x.permute(0, 3, 1, 2)

    def after(x): return x.transpose(1, 3).transpose(2, 3)


@rule(args={"x": "a b c"}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_permute_021:
    """Spells the permutation 0, 2, 1 as mT.

    Why equivalent: The same view.
    """

    def before(x): return x.permute(0, 2, 1)

    def after(x): return x.mT


@rule(args={"x": "..."}, where=["type(d) is int", "0 <= d <= x.ndim"], scalars={"d": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation", "stride"), targets=("ilp", "as_strided"))
class layout_unsqueeze_as_strided:
    """Spells unsqueeze as as_strided with a size-1 dimension.

    Why equivalent: The same memory; the stride of the new dimension does not matter.
    """

    def before(x, d): return x.unsqueeze(d)

    def after(x, d):
        size, stride = list(x.shape), list(x.stride())
        size.insert(d, 1)
        stride.insert(d, 1)
        return x.as_strided(size, stride, x.storage_offset())


@rule(args={"x": "..."}, where=["type(d) is int", "0 <= d <= x.ndim"], scalars={"d": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation", "gradient", "stride"), targets=("ilp",))
class layout_unsqueeze_as_reshape:
    """Spells unsqueeze as reshape.

    Why equivalent: A view with one more dimension of size 1.
    """

    def before(x, d): return x.unsqueeze(d)

    def after(x, d): return x.reshape((*x.shape[:d], 1, *x.shape[d:]))


@rule(args={"x": "..."}, where=["type(d) is int", "0 <= d <= x.ndim"], scalars={"d": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation", "gradient", "stride"), targets=("ilp",))
class layout_unsqueeze_as_index:
    """Spells unsqueeze as indexing with None.

    Why equivalent: The same view.
    """

    def before(x, d): return x.unsqueeze(d)

    def after(x, d): return x[(slice(None),) * d + (None,)]


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] == 1"],
      scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "alias", "mutation", "gradient", "stride"), targets=("ilp",))
class layout_squeeze_as_select:
    """Spells squeeze of a size-1 dimension as select of its only entry.

    Why equivalent: The same view.
    """

    def before(x, d): return x.squeeze(d)

    def after(x, d): return x.select(d, 0)


@rule(args={"x": "..."},
      where=["type(i) is int", "type(j) is int", "x.ndim >= 1", "x.numel > 0", "-x.ndim <= i < x.ndim",
             "-x.ndim <= j < x.ndim", "i % x.ndim <= j % x.ndim"], scalars={"i": None, "j": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "view_to_reshape"))
class layout_flatten_as_reshape:
    """Spells flatten as reshape.

    Why equivalent: The same row-major order.
    """

    def before(x, i, j): return x.flatten(i, j)

    def after(x, i, j):
        i, j = i % x.dim(), j % x.dim()
        return x.reshape((*x.shape[:i], -1, *x.shape[j + 1:]))


@rule(args={"x": "..."}, where=["x.ndim >= 2", "x.numel > 0"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "view_to_reshape"))
class layout_reshape_rows_as_flatten:
    """Spells reshape(n, -1) as flatten(1).

    Why equivalent: The same row-major order.
    """

    def before(x): return x.reshape(x.shape[0], -1)

    def after(x): return x.flatten(1)


@rule(args={"x": "..."}, where=["x.ndim >= 2", "x.numel > 0", "1 <= x.shape[1] <= 6"], dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "split_cat"))
class layout_view_rows_as_cat:
    """Spells view(n, -1) as cat of the flattened slices of dimension 1.

    Why equivalent: Row-major order lists the slices one after the other.
    Provokes: A copy in place of a view.
    """

    def before(x): return x.view(x.shape[0], -1)

    def after(x): return torch.cat([part.reshape(x.shape[0], -1) for part in x.unbind(1)], 1)


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_view_flat_as_ravel:
    """Spells view(-1) as ravel.

    Why equivalent: A view for contiguous x.
    """

    def before(x): return x.view(-1)

    def after(x): return torch.ravel(x)


@rule(args={"x": "..."}, where=["x.contiguous"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("ilp", "as_strided"))
class layout_view_flat_as_strided:
    """Spells view(-1) as as_strided.

    Why equivalent: A contiguous value is one run of memory from its offset.
    """

    def before(x): return x.view(-1)

    def after(x): return x.as_strided((x.numel(),), (1,), x.storage_offset())


@rule(args={"x": "...", "y": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class layout_expand_as_add_zeros:
    """Broadcasts by adding zeros of the target shape.

    Why equivalent: Exact but for -0.0.
    Provokes: Fresh dense memory instead of zero strides.
    """

    def before(x, y): return x.expand_as(y)

    def after(x, y): return x + torch.zeros(y.shape, dtype=x.dtype, device=x.device)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_expand_as_broadcast_tensors:
    """Broadcasts by broadcast_to.

    Why equivalent: The same expanded view.
    """

    def before(x, y): return x.expand_as(y)

    def after(x, y): return torch.broadcast_to(x, y.shape)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class layout_expand_materialised:
    """Broadcasts and copies into dense memory.

    Why equivalent: The same values without zero strides.
    """

    def before(x, y): return x.expand_as(y)

    def after(x, y): return x.expand(y.shape).contiguous()


@rule(args={"x": "..."},
      where=["type(k) is int", "1 <= k <= 8", "type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim",
             "x.numel > 0"], scalars={"k": None, "d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "repeat_interleave"))
class layout_repeat_interleave_as_expand:
    """Spells repeat_interleave as expand of a new dimension and reshape.

    Why equivalent: Each entry is repeated k times in place.
    Provokes: Grouped-query attention repeats keys either way.
    """

    def before(x, k, d): return x.repeat_interleave(k, dim=d)

    def after(x, k, d):
        d = d % x.dim()
        y = x.unsqueeze(d + 1).expand((*x.shape[:d + 1], k, *x.shape[d + 1:]))
        return y.reshape((*x.shape[:d], -1, *x.shape[d + 1:]))


@rule(args={"x": "m n"}, where=["type(a) is int", "type(b) is int", "1 <= a <= 4", "1 <= b <= 4"],
      scalars={"a": None, "b": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "repeat"))
class layout_repeat_as_cat:
    """Spells repeat of a matrix as cat of itself.

    Why equivalent: Blocks side by side, then on top of each other.
    """

    def before(x, a, b): return x.repeat(a, b)

    def after(x, a, b): return torch.cat([torch.cat([x] * b, 1)] * a, 0)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "flip"))
class layout_flip_as_index:
    """Spells flip as selection by a descending index.

    Why equivalent: Position i reads n - 1 - i.
    Provokes: An index tensor instead of an index expression.
    """

    def before(x, d): return x.flip(d)

    def after(x, d): return x.index_select(d, torch.arange(x.shape[d] - 1, -1, -1, device=x.device))


@rule(args={"x": "..."},
      where=["type(k) is int", "type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 1"],
      scalars={"k": None, "d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod", "roll"))
class layout_roll_as_cat:
    """Spells roll as cat of two slices.

    Why equivalent: The last k entries come first.
    """

    def before(x, k, d): return x.roll(k, d)

    def after(x, k, d):
        n = x.shape[d]
        return torch.cat([x.narrow(d, n - k % n, k % n), x.narrow(d, 0, n - k % n)], d)


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "-x.ndim <= d < x.ndim", "x.ndim >= 1", "x.ndim == y.ndim"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "cat"))
class layout_cat_rolled:
    """Concatenates in the other order and rolls.

    Why equivalent: Rolling by the length of x brings x to the front.
    """

    def before(x, y, d): return torch.cat([x, y], d)

    def after(x, y, d): return torch.cat([y, x], d).roll(x.shape[d], d)


@rule(args={"x": "...", "y": "..."}, where=["d == -1", "x.ndim >= 1", "x.ndim == y.ndim"], scalars={"d": None},
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "constant_pad_nd"))
class layout_cat_as_pad_add:
    """Concatenates along the last dimension by adding zero-padded operands.

    Why equivalent: Each element is added to 0.
    """

    def before(x, y, d): return torch.cat([x, y], d)

    def after(x, y): return F.pad(x, (0, y.shape[-1])) + F.pad(y, (x.shape[-1], 0))


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "-x.ndim <= d < x.ndim", "x.ndim >= 2", "x.ndim == y.ndim"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "cat"))
class layout_cat_transposed:
    """Concatenates the transposed operands along the first dimension and transposes back.

    Why equivalent: The same entries.
    Provokes: The result has permuted strides.
    """

    def before(x, y, d): return torch.cat([x, y], d)

    def after(x, y, d): return torch.cat([x.transpose(0, d), y.transpose(0, d)], 0).transpose(0, d)


@rule(args={"x": "...", "y": "...", "z": "..."},
      where=["type(d) is int", "-x.ndim <= d < x.ndim", "x.ndim >= 1", "x.ndim == y.ndim == z.ndim"],
      scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "split_cat", "cat"))
class layout_cat_nested:
    """Concatenates three by concatenating two first.

    Why equivalent: cat is associative.
    Provokes: Nested cats are merged by ``merge_splits`` / split_cat passes.
    """

    def before(x, y, z, d): return torch.cat([x, y, z], d)

    def after(x, y, z, d): return torch.cat([torch.cat([x, y], d), z], d)


@rule(args={"x": "...", "y": "..."}, where=["type(d) is int", "x.shape == y.shape"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "split_cat"))
class layout_stack_as_cat:
    """Spells stack as cat of unsqueezed operands.

    Why equivalent: By definition.
    """

    def before(x, y, d): return torch.stack([x, y], d)

    def after(x, y, d): return torch.cat([x.unsqueeze(d), y.unsqueeze(d)], d)


@rule(args={"x": "...", "y": "..."}, where=["type(d) is int", "d == 0", "x.shape == y.shape"], scalars={"d": None},
      dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class layout_stack_as_where:
    """Spells stack as a select over a new leading index.

    Why equivalent: Slot 0 takes x, slot 1 takes y.
    """

    def before(x, y, d): return torch.stack([x, y], d)

    def after(x, y):
        first = torch.arange(2, device=x.device).view((2,) + (1,) * x.dim()) == 0
        return torch.where(first, x.unsqueeze(0), y.unsqueeze(0))


@rule(args={"x": "..."},
      where=["type(d) is int", "type(k) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim",
             "-x.shape[d] <= k < x.shape[d]"], scalars={"d": None, "k": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ilp",))
class layout_select_as_narrow:
    """Spells select as narrow and squeeze.

    Why equivalent: The same view and offset.
    """

    def before(x, d, k): return x.select(d, k)

    def after(x, d, k): return x.narrow(d, k % x.shape[d], 1).squeeze(d)


@rule(args={"x": "..."},
      where=["type(d) is int", "type(k) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim",
             "-x.shape[d] <= k < x.shape[d]"], scalars={"d": None, "k": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("ilp", "as_strided"))
class layout_select_as_strided:
    """Spells select as as_strided with an offset.

    Why equivalent: The same view.
    Provokes: The offset counts from the storage, not from x.
    """

    def before(x, d, k): return x.select(d, k)

    def after(x, d, k):
        size, stride = list(x.shape), list(x.stride())
        del size[d], stride[d]
        return x.as_strided(size, stride, x.storage_offset() + k % x.shape[d] * x.stride(d))


@rule(args={"x": "..."},
      where=["type(d) is int", "type(k) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim",
             "-x.shape[d] <= k < x.shape[d]"], scalars={"d": None, "k": None}, dtypes=INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc",))
class layout_select_as_sum:
    """Spells select of integers as a masked sum.

    Why equivalent: All other entries are replaced by 0.
    Provokes: A reduction instead of a view.
    """

    def before(x, d, k): return x.select(d, k)

    def after(x, d, k):
        place = torch.arange(x.shape[d], device=x.device).view((-1,) + (1,) * (x.dim() - 1 - d % x.dim()))
        at = place == k % x.shape[d]
        return torch.where(at, x, 0).sum(d, dtype=x.dtype)


@rule(args={"x": "..."},
      where=["type(d) is int", "type(k) is int", "type(n) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim",
             "0 <= k", "0 <= n", "k + n <= x.shape[d]"], scalars={"d": None, "k": None, "n": None}, dtypes=ANY,
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "index_select"))
class layout_narrow_as_index:
    """Spells narrow as index_select of a range.

    Why equivalent: The same entries, copied.
    """

    def before(x, d, k, n): return x.narrow(d, k, n)

    def after(x, d, k, n): return x.index_select(d, torch.arange(k, k + n, device=x.device))


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ugo", "split_cat"))
class layout_chunk_first:
    """Spells the first of two chunks as narrow.

    Why equivalent: chunk gives the first the larger half.
    """

    def before(x, d): return x.chunk(2, d)[0]

    def after(x, d): return x.narrow(d, 0, (x.shape[d] + 1) // 2)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 1", "-x.ndim <= d < x.ndim", "x.shape[d] >= 2"],
      scalars={"d": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation", "gradient"), targets=("ugo", "split_cat"))
class layout_chunk_second:
    """Spells the second of two chunks as narrow.

    Why equivalent: The rest after the larger half.
    Provokes: Rotary embeddings split this way.
    """

    def before(x, d): return x.chunk(2, d)[1]

    def after(x, d):
        h = (x.shape[d] + 1) // 2
        return x.narrow(d, h, x.shape[d] - h)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "bam"))
class layout_contiguous_as_clone:
    """Copies always where contiguous copies only if needed.

    Why equivalent: The same values in row-major memory.
    Provokes: The result has its own memory.
    """

    def before(x): return x.contiguous()

    def after(x): return x.clone(memory_format=torch.contiguous_format)


@rule(args={"x": "..."}, where=["x.numel > 0"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "view_to_reshape"))
class layout_contiguous_as_reshape:
    """Spells contiguous as reshape to a row and back.

    Why equivalent: Row-major order; a view only where x is one run of memory.
    """

    def before(x): return x.contiguous()

    def after(x): return x.reshape(-1).view(x.shape)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam",))
class layout_clone_as_copy:
    """Spells clone as copy_ into zeros.

    Why equivalent: Same values in fresh memory.
    """

    def before(x): return x.clone()

    def after(x): return torch.zeros_like(x).copy_(x)


@rule(args={"x": "m n", "i": "k"}, where=["i.dtype == 'int64'", "x.floating"], dtypes=(*FLOATS, "int64"),
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "gather"))
class layout_index_select_as_gather:
    """Spells row selection as gather with an expanded index.

    Why equivalent: gather reads row i[r] in every column.
    Provokes: The index has a zero stride.
    """

    def before(x, i): return x.index_select(0, i)

    def after(x, i): return x.gather(0, i.unsqueeze(1).expand(i.shape[0], x.shape[1]))


@rule(args={"x": "... n", "i": "k"}, where=["i.dtype == 'int64'", "x.floating"], dtypes=(*FLOATS, "int64"),
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "index"))
class layout_index_select_as_index:
    """Spells selection along the last dimension as advanced indexing.

    Why equivalent: The same entries.
    """

    def before(x, i): return x.index_select(-1, i)

    def after(x, i): return x[..., i]


@rule(args={"x": "m n", "i": "m k"}, where=["i.dtype == 'int64'", "x.floating"], dtypes=(*FLOATS, "int64"),
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "index", "gather"))
class layout_gather_as_index:
    """Spells gather along columns as indexing with a row index.

    Why equivalent: Element (r, c) reads x[r, i[r, c]].
    """

    def before(x, i): return x.gather(1, i)

    def after(x, i): return x[torch.arange(x.shape[0], device=x.device).unsqueeze(1), i]


@rule(args={"x": "...", "i": "..."},
      where=["type(d) is int", "i.dtype == 'int64'", "x.floating", "x.ndim >= 1", "x.shape == i.shape"],
      scalars={"d": None}, dtypes=(*FLOATS, "int64"), mixed=True, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "gather"))
class layout_gather_as_take_along_dim:
    """Spells gather as take_along_dim.

    Why equivalent: By definition for equal shapes.
    """

    def before(x, i, d): return x.gather(d, i)

    def after(x, i, d): return torch.take_along_dim(x, i, d)


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=FLOATS + INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "tril"))
class layout_tril_as_where:
    """Spells tril as a select by compared indices.

    Why equivalent: By definition.
    Provokes: Causal masks in another spelling.
    """

    def before(x): return torch.tril(x)

    def after(x):
        r = torch.arange(x.shape[-2], device=x.device).unsqueeze(1)
        c = torch.arange(x.shape[-1], device=x.device)
        return torch.where(r >= c, x, torch.zeros_like(x))


@rule(args={"x": "..."}, where=["x.ndim >= 2"], dtypes=INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "tril"))
class layout_triu_as_sub:
    """Spells triu of integers as x less its strict lower triangle.

    Why equivalent: The two triangles add up to x.
    """

    def before(x): return torch.triu(x)

    def after(x): return x - torch.tril(x, -1)


@rule(args={"x": "m n"}, where=["m >= 1", "n >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("ilp", "as_strided"))
class layout_diagonal_as_strided:
    """Spells the diagonal as as_strided with the sum of the strides.

    Why equivalent: The same view.
    """

    def before(x): return x.diagonal()

    def after(x): return x.as_strided((min(x.shape),), (x.stride(0) + x.stride(1),), x.storage_offset())


@rule(args={"x": "m n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "index"))
class layout_diagonal_as_index:
    """Spells the diagonal as indexing with two equal ranges.

    Why equivalent: A copy of x[i, i].
    """

    def before(x): return x.diagonal()

    def after(x):
        i = torch.arange(min(x.shape), device=x.device)
        return x[i, i]


@rule(args={"x": "..."},
      where=["type(n) is int", "type(s) is int", "x.ndim >= 1", "1 <= n <= x.shape[-1]", "s >= 1"],
      scalars={"n": None, "s": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("ilp", "as_strided", "unfold"))
class layout_unfold_as_strided:
    """Spells unfold of the last dimension as as_strided with overlapping windows.

    Why equivalent: The same view.
    """

    def before(x, n, s): return x.unfold(-1, n, s)

    def after(x, n, s):
        t = x.stride(-1)
        size = (*x.shape[:-1], (x.shape[-1] - n) // s + 1, n)
        return x.as_strided(size, (*x.stride()[:-1], s * t, t), x.storage_offset())


@rule(args={"x": "..."},
      where=["type(n) is int", "type(s) is int", "x.ndim >= 1", "1 <= n <= x.shape[-1] <= 16", "s >= 1"],
      scalars={"n": None, "s": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "unfold"))
class layout_unfold_as_stack:
    """Spells unfold of the last dimension as a stack of slices.

    Why equivalent: Window w starts at w * s.
    """

    def before(x, n, s): return x.unfold(-1, n, s)

    def after(x, n, s):
        count = (x.shape[-1] - n) // s + 1
        return torch.stack([x[..., w * s : w * s + n] for w in range(count)], -2)


@rule(args={"x": "n c h w"}, where=["type(r) is int", "r >= 1", "c % (r * r) == 0", "x.numel > 0"],
      scalars={"r": None}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "pixel_shuffle"))
class layout_pixel_shuffle_as_permute:
    """Spells pixel_shuffle as view, permute and reshape.

    Why equivalent: By definition.
    """

    def before(x, r): return F.pixel_shuffle(x, r)

    def after(x, r):
        n, c, h, w = x.shape
        y = x.reshape(n, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
        return y.reshape(n, c // (r * r), h * r, w * r)


@rule(args={"x": "n c h w"}, where=["c % 4 == 0", "x.numel > 0"], dtypes=FLOATS, site="value",
      claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iod", "pixel_shuffle"))
class layout_pixel_round_trip:
    """Shuffles channels to pixels and back.

    Why equivalent: Inverse of each other.
    """

    def after(x): return F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)
