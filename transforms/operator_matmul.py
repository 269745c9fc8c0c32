"""Equivalent spellings of matrix products."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "mm", "einsum"))
class operator_mm_as_einsum:
    """Spells a matrix product as einsum.

    The same contraction. einsum permutes operands and calls bmm.
    Aims at the einsum lowering or decomposition.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.einsum("mk,kn->mn", a, b)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "bmm_to_mm"))
class operator_mm_as_bmm:
    """Spells a matrix product as a batch of one.

    bmm of one batch entry; ``bmm_to_mm`` undoes it.
    Aims at ``bmm_to_mm``.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.bmm(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc"))
class operator_mm_transposed:
    """Multiplies the transposes in the other order and transposes the result.

    (b.T @ a.T).T. The result is column-major.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(a, b): return a @ b

    def after(a, b): return (b.t() @ a.t()).t()


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc"))
class operator_mm_as_linear:
    """Spells a matrix product as a linear layer with transposed weight.

    linear multiplies by the transpose of its weight.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(a, b): return a @ b

    def after(a, b): return F.linear(a, b.t())


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "addmm"))
class operator_mm_as_addmm_zero:
    """Spells a matrix product as addmm onto zeros.

    Adds 0. addmm patterns and uniform bias.
    Aims at the addmm patterns of the post-grad pass.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.addmm(a.new_zeros(a.shape[0], b.shape[1]), a, b)


@rule(args={"a": "m k", "b": "k n"}, where=["m * k * n <= 100000", "k >= 1"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "decompose_mem_bound_mm"))
class operator_mm_as_broadcast_sum:
    """Spells a matrix product as a broadcast product and a sum.

    The definition. A pointwise-reduction kernel instead of an extern call; small sizes.
    Aims at ``decompose_mem_bound_mm`` and at reductions of products.
    """

    def before(a, b): return a @ b

    def after(a, b): return (a.unsqueeze(-1) * b.unsqueeze(0)).sum(1)


@rule(args={"a": "m k", "b": "k n"}, where=["1 <= m <= 6"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_mm_as_loop:
    """Multiplies row by row by matrix-vector products and stacks.

    Each row of the product depends on one row of a.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.stack([torch.mv(b.t(), row) for row in a.unbind(0)])


@rule(args={"a": "m k", "b": "k n"}, where=["k >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "addmm"))
class operator_mm_split_k:
    """Splits the inner dimension in two unequal parts and adds the products.

    A sum over k in two parts. addmm fusion and unaligned slices.
    Aims at the addmm patterns of the post-grad pass.
    """

    def before(a, b): return a @ b

    def after(a, b):
        h = a.shape[1] // 2
        return a[:, :h] @ b[:h] + a[:, h:] @ b[h:]


@rule(args={"a": "m k", "b": "k n"}, where=["n >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_mm_split_n:
    """Splits the columns of the product.

    Columns are independent. Two matmuls with one operand and a cat: batching passes.
    Aims at pattern rewrites of the graph.
    """

    def before(a, b): return a @ b

    def after(a, b):
        h = b.shape[1] // 2
        return torch.cat([a @ b[:, :h], a @ b[:, h:]], 1)


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_mm_split_m:
    """Splits the rows of the product.

    Rows are independent; operands with a storage offset.
    Aims at pattern rewrites of the graph.
    """

    def before(a, b): return a @ b

    def after(a, b): return torch.cat([a[:1] @ b, a[1:] @ b], 0)


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "pad_mm"))
class operator_mm_padded_k:
    """Pads the inner dimension with zeros.

    Zeros add nothing for finite operands. What ``pad_mm`` does itself, then again.
    Aims at ``pad_mm``.
    """

    def before(a, b): return a @ b

    def after(a, b): return F.pad(a, (0, 3)) @ F.pad(b, (0, 0, 0, 3))


@rule(args={"a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ilp"))
class operator_mm_permuted_k:
    """Reverses the inner dimension of both operands.

    The same terms in another order.
    Aims at stride propagation through views.
    """

    def before(a, b): return a @ b

    def after(a, b): return a.flip(1) @ b.flip(0)


@rule(args={"c": "...", "a": "m k", "b": "k n"}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "addmm"))
class operator_addmm_to_mm:
    """Spells addmm as product and sum.

    By definition with alpha = beta = 1. Fused again by post-grad addmm patterns.
    Aims at the addmm patterns of the post-grad pass.
    """

    def before(c, a, b): return torch.addmm(c, a, b)

    def after(c, a, b): return a @ b + c


@rule(args={"c": "n", "a": "m k", "b": "k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "addmm"))
class operator_mm_add_to_addmm:
    """Spells a product plus a bias row as addmm.

    By definition.
    Aims at the addmm patterns of the post-grad pass.
    """

    def before(c, a, b): return a @ b + c

    def after(c, a, b): return torch.addmm(c, a, b)


@rule(args={"a": "b m k", "c": "b k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "bmm"))
class operator_bmm_as_einsum:
    """Spells bmm as einsum.

    The same contraction.
    Aims at the bmm lowering or decomposition.
    """

    def before(a, c): return torch.bmm(a, c)

    def after(a, c): return torch.einsum("bmk,bkn->bmn", a, c)


@rule(args={"a": "b m k", "c": "b k n"}, where=["1 <= b <= 4"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_bmm_as_loop:
    """Multiplies batch entry by batch entry and stacks.

    Entries are independent. Selects with offsets as operands of mm.
    Aims at pattern rewrites of the graph.
    """

    def before(a, c): return torch.bmm(a, c)

    def after(a, c): return torch.stack([a[i] @ c[i] for i in range(a.shape[0])])


@rule(args={"a": "b m k", "c": "b k n"}, where=["1 <= b <= 4"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "ugo"))
class operator_matmul_as_loop:
    """Multiplies a batched matmul entry by entry into a zeros buffer.

    Entries are independent; each is written to its slot.
    Aims at pattern rewrites of the graph.
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

    Adds 0.
    Aims at the baddbmm lowering or decomposition.
    """

    def before(a, c): return a @ c

    def after(a, c): return torch.baddbmm(a.new_zeros(a.shape[0], a.shape[1], c.shape[2]), a, c)


@rule(args={"a": "b h m k", "c": "b h k n"}, where=["b * h > 0", "m * k * n > 0"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class operator_matmul_heads_as_bmm:
    """Folds batch and heads into one batch dimension.

    Entries are independent. reshape of permuted heads copies.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(a, c): return a @ c

    def after(a, c):
        p = torch.bmm(a.reshape(-1, a.shape[2], a.shape[3]), c.reshape(-1, c.shape[2], c.shape[3]))
        return p.view(a.shape[0], a.shape[1], a.shape[2], c.shape[3])


@rule(args={"a": "b h m k", "c": "b h k n"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc", "fuse_attention"))
class operator_matmul_heads_transposed:
    """Transposes the two products of the last dimensions.

    (C^T A^T)^T per head; the result has swapped strides.
    Aims at the attention patterns of ``fuse_attention`` (joint graph) and their near misses.
    """

    def before(a, c): return a @ c

    def after(a, c): return (c.transpose(-1, -2) @ a.transpose(-1, -2)).transpose(-1, -2)


@rule(args={"x": "... k", "w": "n k"}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "kc"))
class operator_linear_as_matmul:
    """Spells a linear layer without bias as matmul with the transposed weight.

    By definition.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, w): return F.linear(x, w)

    def after(x, w): return x @ w.t()


@rule(args={"x": "... k", "w": "n k", "b": "n"}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "addmm"))
class operator_linear_bias_as_matmul:
    """Spells a linear layer as matmul plus bias.

    By definition.
    Aims at the addmm patterns of the post-grad pass.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b): return torch.matmul(x, w.transpose(0, 1)) + b


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["n >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_split_out:
    """Splits a linear layer over its output features.

    Output features are independent. Two addmm with one input: batch_linear and split_cat passes.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b):
        h = w.shape[0] // 2
        return torch.cat([F.linear(x, w[:h], b[:h]), F.linear(x, w[h:], b[h:])], -1)


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["k >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_split_in:
    """Splits a linear layer over its input features.

    The sum over k in two parts; one carries the bias.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b): return F.linear(x[..., :1], w[:, :1]) + F.linear(x[..., 1:], w[:, 1:], b)


@rule(args={"x": "... k", "w": "n k", "b": "n"}, where=["k >= 1"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_linear_bias_as_column:
    """Folds the bias into the weight as one more input of value 1.

    b = 1 * b. cat of the input with uniform ones.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, w, b): return F.linear(x, w, b)

    def after(x, w, b):
        wide = torch.cat([w, b.unsqueeze(1)], 1)
        return F.linear(torch.cat([x, torch.ones_like(x[..., :1])], -1), wide)
