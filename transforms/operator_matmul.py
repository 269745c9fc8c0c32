"""Equivalent spellings of matrix products."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "mm", "einsum"))
class operator_mm_as_einsum:
    """Spells a matrix product as einsum.

    Why equivalent: The same contraction.
    Provokes: einsum permutes operands and calls bmm.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.einsum("mk,kn->mn", a, b)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "bmm_to_mm"))
class operator_mm_as_bmm:
    """Spells a matrix product as a batch of one.

    Why equivalent: bmm of one batch entry; ``bmm_to_mm`` undoes it.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.bmm(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc"))
class operator_mm_transposed:
    """Multiplies the transposes in the other order and transposes the result.

    Why equivalent: (b.T @ a.T).T.
    Provokes: The result is column-major.
    """

    def before(a, b): return a @ b

    def after(a, b): return (b.t() @ a.t()).t()


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc"))
class operator_mm_as_linear:
    """Spells a matrix product as a linear layer with transposed weight.

    Why equivalent: linear multiplies by the transpose of its weight.
    """

    def before(a, b): return a @ b

    def after(a, b): return F.linear(a, b.t())


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "addmm"))
class operator_mm_as_addmm_zero:
    """Spells a matrix product as addmm onto zeros.

    Why equivalent: Adds 0.
    Provokes: addmm patterns and uniform bias.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.addmm(a.new_zeros(a.shape[0], b.shape[1]), a, b)


@rule(args={"a": "m k", "b": "k n"}, where=["m * k * n <= 100000", "k >= 1"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "decompose_mem_bound_mm"))
class operator_mm_as_broadcast_sum:
    """Spells a matrix product as a broadcast product and a sum.

    Why equivalent: The definition.
    Provokes: A pointwise-reduction kernel instead of an extern call.
    Limits: Small sizes.
    """

    def before(a, b): return a @ b

    def after(a, b): return (a.unsqueeze(-1) * b.unsqueeze(0)).sum(1)


@rule(args={"a": "m k", "b": "k n"}, where=["1 <= m <= 6"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_mm_as_loop:
    """Multiplies row by row by matrix-vector products and stacks.

    Why equivalent: Each row of the product depends on one row of a.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.stack([torch.mv(b.t(), row) for row in a.unbind(0)])


@rule(args={"a": "m k", "b": "k n"}, where=["k >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "addmm"))
class operator_mm_split_k:
    """Splits the inner dimension in two unequal parts and adds the products.

    Why equivalent: A sum over k in two parts.
    Provokes: addmm fusion and unaligned slices.
    """

    def before(a, b): return a @ b

    def after(a, b):
        h = a.shape[1] // 2
        return a[:, :h] @ b[:h] + a[:, h:] @ b[h:]


@rule(args={"a": "m k", "b": "k n"}, where=["n >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_mm_split_n:
    """Splits the columns of the product.

    Why equivalent: Columns are independent.
    Provokes: Two matmuls with one operand and a cat: batching passes.
    """

    def before(a, b): return a @ b

    def after(a, b):
        h = b.shape[1] // 2
        return torch.cat([a @ b[:, :h], a @ b[:, h:]], 1)


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_mm_split_m:
    """Splits the rows of the product.

    Why equivalent: Rows are independent.
    Provokes: Operands with a storage offset.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.cat([a[:1] @ b, a[1:] @ b], 0)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "pad_mm"))
class operator_mm_padded_k:
    """Pads the inner dimension with zeros.

    Why equivalent: Zeros add nothing for finite operands.
    Provokes: What ``pad_mm`` does itself, then again.
    """

    def before(a, b): return a @ b

    def after(a, b): return F.pad(a, (0, 3)) @ F.pad(b, (0, 0, 0, 3))


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ilp"))
class operator_mm_permuted_k:
    """Reverses the inner dimension of both operands.

    Why equivalent: The same terms in another order.
    """

    def before(a, b): return a @ b

    def after(a, b): return a.flip(1) @ b.flip(0)


@rule(args={"c": "...", "a": "m k", "b": "k n"}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "addmm"))
class operator_addmm_to_mm:
    """Spells addmm as product and sum.

    Why equivalent: By definition with alpha = beta = 1.
    Provokes: Fused again by post-grad addmm patterns.
    """

    def before(c, a, b): return torch.addmm(c, a, b)

    def after(c, a, b): return a @ b + c


@rule(args={"c": "n", "a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "addmm"))
class operator_mm_add_to_addmm:
    """Spells a product plus a bias row as addmm.

    Why equivalent: By definition.
    """

    def before(c, a, b): return a @ b + c

    def after(c, a, b): return torch.addmm(c, a, b)


@rule(args={"a": "b m k", "c": "b k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "bmm"))
class operator_bmm_as_einsum:
    """Spells bmm as einsum.

    Why equivalent: The same contraction.
    """

    def before(a, c): return torch.bmm(a, c)

    def after(a, c): return torch.einsum("bmk,bkn->bmn", a, c)


@rule(args={"a": "b m k", "c": "b k n"}, where=["1 <= b <= 4"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_bmm_as_loop:
    """Multiplies batch entry by batch entry and stacks.

    Why equivalent: Entries are independent.
    Provokes: Selects with offsets as operands of mm.
    """

    def before(a, c): return torch.bmm(a, c)

    def after(a, c): return torch.stack([a[i] @ c[i] for i in range(a.shape[0])])


@rule(args={"a": "b m k", "c": "b k n"}, where=["1 <= b <= 4"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_matmul_as_loop:
    """Multiplies a batched matmul entry by entry into a zeros buffer.

    Why equivalent: Entries are independent; each is written to its slot.
    """

    def before(a, c): return a @ c

    def after(a, c):
        slots = a.new_zeros(a.shape[0], a.shape[1], c.shape[2])
        for i in range(a.shape[0]):
            slots[i] = a[i] @ c[i]
        return slots


@rule(args={"a": "b m k", "c": "b k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "baddbmm"))
class operator_matmul_as_baddbmm:
    """Spells a batched matmul as baddbmm onto zeros.

    Why equivalent: Adds 0.
    """

    def before(a, c): return a @ c

    def after(a, c): return torch.baddbmm(a.new_zeros(a.shape[0], a.shape[1], c.shape[2]), a, c)


@rule(args={"a": "b h m k", "c": "b h k n"}, where=["b * h > 0", "m * k * n > 0"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class operator_matmul_heads_as_bmm:
    """Folds batch and heads into one batch dimension.

    Why equivalent: Entries are independent.
    Provokes: reshape of permuted heads copies.
    """

    def before(a, c): return a @ c

    def after(a, c):
        p = torch.bmm(a.reshape(-1, a.shape[2], a.shape[3]), c.reshape(-1, c.shape[2], c.shape[3]))
        return p.view(a.shape[0], a.shape[1], a.shape[2], c.shape[3])


@rule(args={"a": "b h m k", "c": "b h k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc", "fuse_attention"))
class operator_matmul_heads_transposed:
    """Transposes the two products of the last dimensions.

    Why equivalent: (C^T A^T)^T per head.
    Provokes: The result has swapped strides.
    """

    def before(a, c): return a @ c

    def after(a, c): return (c.transpose(-1, -2) @ a.transpose(-1, -2)).transpose(-1, -2)


@rule(args={"x": "... k", "w": "n k"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "kc"))
class operator_linear_as_matmul:
    """Spells a linear layer without bias as matmul with the transposed weight.

    Why equivalent: By definition.
    """

    def before(x, w): return F.linear(x, w)

    def after(x, w): return x @ w.t()


@rule(args={"x": "... k", "w": "n k", "b": "n"}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "addmm"))
class operator_linear_bias_as_matmul:
    """Spells a linear layer as matmul plus bias.

    Why equivalent: By definition.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b): return torch.matmul(x, w.transpose(0, 1)) + b


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["n >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_split_out:
    """Splits a linear layer over its output features.

    Why equivalent: Output features are independent.
    Provokes: Two addmm with one input: batch_linear and split_cat passes.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b):
        h = w.shape[0] // 2
        return torch.cat([F.linear(x, w[:h], b[:h]), F.linear(x, w[h:], b[h:])], -1)


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["k >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_split_in:
    """Splits a linear layer over its input features.

    Why equivalent: The sum over k in two parts; one carries the bias.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b): return F.linear(x[..., :1], w[:, :1]) + F.linear(x[..., 1:], w[:, 1:], b)


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["k >= 1"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_bias_as_column:
    """Folds the bias into the weight as one more input of value 1.

    Why equivalent: b = 1 * b.
    Provokes: cat of the input with uniform ones.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b):
        wide = torch.cat([w, b.unsqueeze(1)], 1)
        return F.linear(torch.cat([x, torch.ones_like(x[..., :1])], -1), wide)
