"""Products of matrices, and what is gathered and added up, in field arithmetic."""

from __future__ import annotations

import torch

from fxmorph.prove.field.elements import NAN, Val
from fxmorph.prove.field.meanings import Given, means
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.torchapi.dispatch import aten_packet


@means("mm bmm mv dot vdot matmul")
def _product(g: Given) -> Val:
    a = g.val("self")
    other = next(k for k in ("mat2", "vec", "tensor", "other") if k in g)
    return g.m.matmul(a, g.val(other))


def _combined(g: Given, added: Val, product: Val) -> Val:
    if "alpha" in g:
        product = g.m.mul(product, g.number(g.get("alpha")))
    if "beta" in g.call.arguments:
        if g.call.arguments["beta"] == 0:
            shape = g.call.targets[0].shape
            return product.map(lambda t: t.expand(shape))
        added = g.m.mul(added, g.number(g.get("beta")))
    return g.m.add(added, product)


@means("addmm baddbmm addmv _addmm_activation")
def _addmm(g: Given) -> Val:
    if g.call.name == "_addmm_activation":
        raise NotModelled(g.call.name)
    left, right = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[g.call.name]
    return _combined(g, g.val("self"), g.m.matmul(g.val(left), g.val(right)))


@means("addbmm")
def _addbmm(g: Given) -> Val:
    return _combined(g, g.val("self"), g.m.sum(g.m.matmul(g.val("batch1"), g.val("batch2")), [0]))


@means("addr")
def _addr(g: Given) -> Val:
    a, b = g.val("vec1").map(lambda t: t.unsqueeze(1)), g.val("vec2")
    return _combined(g, g.val("self"), g.m.mul(a, b))


@means("linear")
def _linear(g: Given) -> Val:
    out = g.m.matmul(g.val("input"), g.val("weight").map(lambda t: t.mT))
    bias = g.maybe("bias")
    return out if bias is None else g.m.add(out, bias)


@means("index_add scatter_add")
def _index_add(g: Given) -> Val:
    name, at, m = g.call.name, g.positions("index"), g.m
    source = g.val("source" if name == "index_add" else "src")
    base = g.val("self")
    if "alpha" in g:
        source = m.mul(source, g.number(g.get("alpha")))
    dim = g.get("dim")

    def add(t: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros(base.shape, dtype=torch.float64)
        return zero.index_add(dim, at, t) if name == "index_add" else zero.scatter_add(dim, at, t)

    return m.add(base, m.linear(add, source, max(source.p.numel(), 1)))


@means("index_put _unsafe_index_put _index_put_impl")
def _index_put(g: Given) -> Val:
    m, base, values = g.m, g.val("self"), g.val("values")
    indices = [None if i is None else g.places(i) for i in g.get("indices")]
    if g.get("accumulate", False):
        zero = torch.zeros(base.shape, dtype=torch.float64)
        put = m.linear(
            lambda t: torch.ops.aten.index_put(zero, indices, t, True), values, max(base.p.numel(), values.p.numel(), 1)
        )
        return m.add(base, put)
    nan = torch.full((), NAN, dtype=torch.float64)
    p = torch.ops.aten.index_put(base.p, indices, values.p)
    q = torch.ops.aten.index_put(
        nan.expand(base.shape) if base.q is None else base.q,
        indices,
        nan.expand(values.shape) if values.q is None else values.q,
    )
    return Val(p, q, base.degree.worst(values.degree), max(base.bits, values.bits))


@means("embedding_dense_backward")
def _embedding_backward(g: Given) -> Val:
    grad, at = g.val("grad_output"), g.positions("indices")
    if g.get("scale_grad_by_freq", False):
        raise NotModelled("scale_grad_by_freq")
    rows = at.reshape(-1)
    kept = rows != g.get("padding_idx", -1)
    zero = torch.zeros(g.get("num_weights"), grad.shape[-1], dtype=torch.float64)

    def add(t: torch.Tensor) -> torch.Tensor:
        return zero.index_add(0, rows[kept], t.reshape(-1, t.shape[-1])[kept])

    return g.m.linear(add, grad, max(rows.numel(), 1))


#: Sums of elements, each at most once in an output.
_SUMS = """slice_backward select_backward diagonal_backward unfold_backward expand_backward col2im trace
 value_selecting_reduction_backward"""


@means(_SUMS)
def _sums(g: Given) -> Val:
    """Linear in the one floating-point tensor; its own kernel adds up."""
    tensor = next(t for t in g.call.tensors if t.is_floating_point())
    x = g.value(tensor)

    def run(t: torch.Tensor) -> torch.Tensor:
        packet = aten_packet(g.call.name)
        assert packet is not None
        given = {
            k: t if v is tensor else g.places(v) if isinstance(v, torch.Tensor) else v
            for k, v in g.call.arguments.items()
        }
        return packet(**given)  # type: ignore[no-any-return]

    return g.m.linear(run, x, max(x.p.numel(), 1))
