"""A few operators in a row that fusions and passes look for."""

from __future__ import annotations

from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import guarded, operand, shaped
from fxmorph.programs.generator.product_rows import product
from fxmorph.programs.generator.promotion import ANY, FLOATS, NUMBERS
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, rearranged, sizes, text_of
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.strided import Layout, permuted, sliced
from fxmorph.programs.generator.windows import window

ROWS = Rows()

#: Functions of any number with results of at most 1.
SMALL = ("tanh", "sigmoid", "sin", "cos", "erf")


@ROWS.add("pointwise_reduce_pointwise", 8)
def _pointwise_reduce_pointwise(draft: Draft) -> None:
    """A chain, a reduction with its dimension kept, a chain on both: norms and softmax by hand."""
    x = operand(draft, ("float32", "float64", "bfloat16"), (1, 4), 1)
    dim = draft.dice.below(x.rank)
    a = draft.emit(f"torch.{draft.dice.one_of(SMALL)}({x.name})", x.shape, x.dtype, Span(-1, 1), [x])
    kept = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    name = draft.dice.one_of(("sum", "mean", "amax", "amin") if not x.grad else ("sum", "mean"))
    r = draft.emit(
        f"{a.name}.{name}(dim={dim}, keepdim=True)", kept, x.dtype, Span(-x.shape[dim], x.shape[dim]), [a], dense=False
    )
    shape, size = x.shape, x.shape[dim] + 1.0
    kind = draft.dice.below(4)
    if kind == 0:
        draft.emit(f"{a.name} - {r.name}", shape, x.dtype, Span(-size, size), [a, r])
    elif kind == 1:
        draft.emit(
            f"({a.name} - {r.name}) * torch.rsqrt({r.name} * {r.name} + 0.5)",
            shape,
            x.dtype,
            Span(-2 * size, 2 * size),
            [a, r],
        )
    elif kind == 2:
        draft.emit(
            f"torch.exp({a.name} - {r.name}.clamp(-2, 2)).sum(dim={dim})",
            (*x.shape[:dim], *x.shape[dim + 1 :]),
            x.dtype,
            Span(0, 20 * size),
            [a, r],
            dense=False,
        )
    else:
        draft.emit(
            f"{a.name} * {r.name} + {x.name}", shape, x.dtype, Span(x.span.lo - size, x.span.hi + size), [a, r, x]
        )


@ROWS.add("cat_of_slices", 5)
def _cat_of_slices(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 4), 2)
    dim = draft.dice.below(x.rank)
    n = x.shape[dim]
    cut = draft.dice.between(1, n - 1)
    head = draft.alias(f"{x.name}[{':, ' * dim}:{cut}]", x, sliced(x.layout, dim, 0, cut))
    tail = draft.alias(f"{x.name}[{':, ' * dim}{cut}:]", x, sliced(x.layout, dim, cut, n))
    parts = [head, tail] if draft.dice.chance(0.5) else [tail, head]
    if draft.dice.chance(0.4):
        parts.insert(draft.dice.below(3), draft.dice.one_of((head, tail)))
    shape = (*x.shape[:dim], sum(p.shape[dim] for p in parts), *x.shape[dim + 1 :])
    draft.emit(
        f"torch.cat([{', '.join(p.name for p in parts)}], dim={dim})", shape, x.dtype, x.span, parts, saves=False
    )


@ROWS.add("split_then_cat", 4)
def _split_then_cat(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 2)
    even = [d for d, n in enumerate(x.shape) if n % 2 == 0]
    if not even:
        raise NoFit("no even size")
    dim = draft.dice.one_of(even)
    half = x.shape[dim] // 2
    views = [Value("", x.dtype, sliced(x.layout, dim, i * half, (i + 1) * half), x.storage, True) for i in range(2)]
    a, b = draft.several(f"torch.split({x.name}, {half}, dim={dim})", views, [x])
    order = draft.dice.one_of(("{b}, {a}", "{a}, {b}", "-{b}, {a}", "{a} + {b}, {b}", "{a} * 2, {b}"))
    if x.dtype == "uint8" and "-" in order:
        raise NoFit("wraps")
    size = 2 * x.span.size
    draft.emit(
        f"torch.cat([{order.format(a=a.name, b=b.name)}], dim={dim})",
        x.shape,
        x.dtype,
        Span(-size if x.dtype != "uint8" else 0, size, x.span.whole, not x.span.whole),
        [a, b],
        saves=False,
    )


@ROWS.add("matmul_add_activation", 5)
def _matmul_add_activation(draft: Draft) -> None:
    x = operand(draft, FLOATS, (2, 3), 1)
    n = draft.dice.one_of((1, 3, 8, 16, 17))
    w = shaped(draft, (x.shape[-1], n), x.dtype)
    b = shaped(draft, draft.dice.one_of(((n,), (1, n))), x.dtype)
    span = product(x, w, x.shape[-1])
    size = span.size + b.span.size
    multiply = draft.dice.one_of((f"{x.name} @ {w.name}", f"torch.matmul({x.name}, {w.name})"))
    z = draft.emit(
        f"{multiply} + {b.name}",
        (*x.shape[:-1], n),
        x.dtype,
        Span(-size, size, span.whole and b.span.whole, True),
        [x, w, b],
        dense=False,
    )
    call = draft.dice.one_of(
        (
            "F.relu({})",
            "F.gelu({})",
            "torch.sigmoid({})",
            "{0} * torch.sigmoid({0})",
            "F.silu({})",
            "torch.tanh({})",
            "{}.clamp(min=0)",
        )
    )
    draft.emit(call.format(z.name), z.shape, z.dtype, Span(min(-1, -0.3), max(size, 1)), [z], dense=False)


@ROWS.add("pad_then_conv", 3)
def _pad_then_conv(draft: Draft) -> None:
    x = operand(draft, ("float32",), (4, 4), 1)
    pads = [draft.dice.between(0, 2) for _ in range(4)]
    spatial = (x.shape[2] + pads[2] + pads[3], x.shape[3] + pads[0] + pads[1])
    padded = draft.emit(
        f"F.pad({x.name}, {text_of(pads)})",
        (*x.shape[:2], *spatial),
        x.dtype,
        x.span.join(Span(0, 0, True, False)),
        [x],
        saves=False,
        dense=False,
    )
    w = window(draft, spatial, dilates=False)
    kernel = shaped(draft, (draft.dice.between(1, 4), x.shape[1], *w.kernel), x.dtype)
    more = f", padding={tuple(w.padding)}" if any(w.padding) else ""
    out = draft.emit(
        f"F.conv2d({padded.name}, {kernel.name}, stride={tuple(w.stride)}{more})",
        (x.shape[0], kernel.shape[0], *w.out(spatial)),
        x.dtype,
        product(padded, kernel, prod(kernel.shape[1:])),
        [padded, kernel],
        dense=False,
    )
    if draft.dice.chance(0.5):
        draft.emit(f"F.relu({out.name})", out.shape, out.dtype, Span(0, out.span.size), [out], dense=False)


@ROWS.add("view_permute_view", 6)
def _view_permute_view(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 4), 1)
    shape = rearranged(draft.dice, x.numel, draft.dice.between(2, 4))
    dims = draft.dice.shuffled(range(len(shape)))
    flat = rearranged(draft.dice, x.numel)
    turned = tuple(shape[d] for d in dims)
    draft.alias(
        f"{x.name}.reshape({sizes(shape)}).permute({sizes(dims)})", x, Layout(turned, None, 0, x.layout.overlap)
    )
    last = draft.values[-1]
    draft.alias(f"{last.name}.reshape({sizes(flat)})", last, Layout(flat, None, 0, x.layout.overlap))


@ROWS.add("permute_chain", 4)
def _permute_chain(draft: Draft) -> None:
    x = operand(draft, ANY, (2, 5))
    first, second = draft.dice.shuffled(range(x.rank)), draft.dice.shuffled(range(x.rank))
    if draft.dice.chance(0.3):
        second = [first.index(d) for d in range(x.rank)]
    layout = permuted(permuted(x.layout, first), second)
    draft.alias(f"{x.name}.permute({sizes(first)}).permute({sizes(second)})", x, layout)


@ROWS.add("pointwise_chain", 6)
def _pointwise_chain(draft: Draft) -> None:
    x = operand(draft, FLOATS, (0, 5))
    text, size = x.name, x.span.size
    for _ in range(draft.dice.between(2, 4)):
        call, grows = draft.dice.one_of(
            (
                ("torch.tanh({})", None),
                ("F.relu({})", 1),
                ("({} * 0.5)", 0.5),
                ("({} + 1)", 2),
                ("torch.sigmoid({})", None),
                ("({} - 0.25).abs()", 1.5),
                ("torch.sin({})", None),
                ("torch.where({0} > 0, {0}, {0} * 0.1)", 1),
            )
        )
        if "where" in call and text != x.name:
            continue
        text, size = call.format(text), 1.0 if grows is None else size * grows + 1
    draft.emit(text, x.shape, x.dtype, Span(-size, size), [x])


@ROWS.add("two_reductions", 4)
def _two_reductions(draft: Draft) -> None:
    """Two reductions of one value, over the same dimension or different ones."""
    x = guarded(draft, operand(draft, ("float32", "float64", "int64"), (1, 4), 1), -100, 100)
    for _ in range(2):
        dim = draft.dice.below(x.rank)
        name = draft.dice.one_of(("sum", "amax", "amin") if not x.grad else ("sum",))
        n = x.shape[dim] if name == "sum" else 1
        span = Span(
            min(x.span.lo * n, x.span.lo),
            max(x.span.hi * n, x.span.hi),
            x.span.whole,
            x.span.rounded or not x.span.whole,
        )
        draft.emit(f"{x.name}.{name}({dim})", (*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype, span, [x], dense=False)


@ROWS.add("broadcast_reduce", 4)
def _broadcast_reduce(draft: Draft) -> None:
    """An outer product that is never stored, summed at once."""
    x = operand(draft, ("float32", "float64", "int64"), (1, 2), 1)
    y = shaped(draft, (draft.dice.between(1, 9), x.shape[-1]), x.dtype)
    if x.numel * y.shape[0] > MOST:
        raise NoFit("too many elements")
    span = product(x, y, x.shape[-1])
    draft.emit(
        f"({x.name}[..., None, :] * {y.name}).sum(-1)", (*x.shape[:-1], y.shape[0]), x.dtype, span, [x, y], dense=False
    )


@ROWS.add("rotary", 2)
def _rotary(draft: Draft) -> None:
    x = operand(draft, FLOATS, (2, 4), 1)
    if x.shape[-1] % 2:
        raise NoFit("odd")
    half = x.shape[-1] // 2
    angle = shaped(draft, x.shape[-2:], x.dtype)
    turned = f"torch.cat([-{x.name}[..., {half}:], {x.name}[..., :{half}]], dim=-1)"
    size = 2 * x.span.size
    draft.emit(
        f"{x.name} * {angle.name}.cos() + {turned} * {angle.name}.sin()",
        x.shape,
        x.dtype,
        Span(-size, size),
        [x, angle],
    )


@ROWS.add("mask_from_lengths", 3)
def _mask_from_lengths(draft: Draft) -> None:
    x = operand(draft, FLOATS, (2, 4), 1)
    lengths = shaped(draft, (x.shape[0],), "int64", 0, 8)
    n = x.shape[1]
    mask = draft.emit(
        f"torch.arange({n})[None, :] < {lengths.name}[:, None]",
        (x.shape[0], n),
        "bool",
        Span(0, 1, True, False),
        [lengths],
    )
    ones = ", None" * (x.rank - 2)
    text = f"{mask.name}[..., {ones[2:]}]" if ones else mask.name
    fill = draft.dice.one_of(("0.0", "-1.0", "0"))
    span = x.span.join(Span(float(fill), float(fill), True, False))
    draft.emit(
        draft.dice.one_of(
            (f"{x.name}.masked_fill({text}, {fill})", f"torch.where({text}, {x.name}, {fill})", f"{x.name} * {text}")
        ),
        x.shape,
        x.dtype,
        span.join(Span(0, 0, True, False)),
        [x, mask],
    )


@ROWS.add("cast_pair", 3)
def _cast_pair(draft: Draft) -> None:
    """There and back through another dtype."""
    x = operand(draft, FLOATS, (0, 4))
    wide = draft.dice.one_of(("float64", "float32"))
    name = draft.dice.one_of(SMALL)
    draft.emit(f"torch.{name}({x.name}.to(torch.{wide})).to(torch.{x.dtype})", x.shape, x.dtype, Span(-1, 1), [x])


@ROWS.add("zero_terms", 3)
def _zero_terms(draft: Draft) -> None:
    """Identities that passes remove: they must not give the operand itself where eager gives a new tensor."""
    x = operand(draft, (*FLOATS, "int64", "int32"), (0, 4))
    text = draft.dice.one_of(
        (
            "{} + 0",
            "{} * 1",
            "{} - 0",
            "{} / 1" if x.dtype in FLOATS else "{} + 0",
            "torch.add({0}, torch.zeros_like({0}))",
            "{}.mul(torch.ones(()))" if x.dtype == "float32" and x.rank else "{} * 1",
            "{} ** 1",
        )
    )
    made = draft.emit(text.format(x.name), x.shape, x.dtype, x.span, [x])
    if draft.dice.chance(0.4) and draft.writable(made):
        draft.write(
            f"{made.name}.add_(1)",
            made,
            Span(made.span.lo + 1, made.span.hi + 1, made.span.whole, made.span.rounded),
            [],
            saves=False,
            named=0,
        )
