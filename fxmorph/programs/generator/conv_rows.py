"""Convolutions, transposed ones too."""

from __future__ import annotations

from functools import partial
from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import shaped
from fxmorph.programs.generator.product_rows import product
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import MOST
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.windows import Window, _spatial, tuple_text, window

ROWS = Rows()


CONV = ("float32", "float32", "float64", "bfloat16")


def draw_conv(dims: int, draft: Draft) -> None:
    x = _spatial(draft, dims, CONV)
    front, channels, sizes = x.shape[: -dims - 1], x.shape[-dims - 1], x.shape[-dims:]
    groups = draft.dice.one_of([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    out = groups * draft.dice.between(1, max(1, 6 // groups))
    w = window(draft, sizes)
    kernel = shaped(draft, (out, channels // groups, *w.kernel), x.dtype)
    shape = (*front, out, *w.out(sizes))
    span = product(x, kernel, prod(kernel.shape[1:]))
    arguments, parts, span = _bias(draft, x, kernel, out, span)
    padding = draft.dice.one_of(("'valid'", "'same'")) if draft.dice.chance(0.15) and set(w.stride) == {1} else ""
    if padding:
        shape = (
            *front,
            out,
            *(sizes if padding == "'same'" else Window(w.kernel, w.stride, [0] * dims, w.dilation).out(sizes)),
        )
        if min(shape[-dims:]) < 1:
            raise NoFit("no place for the window")
    for name, numbers, default in (("stride", w.stride, 1), ("padding", w.padding, 0), ("dilation", w.dilation, 1)):
        if name == "padding" and padding:
            arguments.append(f"padding={padding}")
        elif set(numbers) != {default}:
            arguments.append(f"{name}={tuple_text(draft, numbers)}")
    if groups > 1:
        arguments.append(f"groups={groups}")
    draft.emit(f"F.conv{dims}d({', '.join(arguments)})", shape, x.dtype, span, parts, dense=False)


def _bias(draft: Draft, x: Value, kernel: Value, out: int, span: Span) -> tuple[list[str], list[Value], Span]:
    if draft.dice.chance(0.5):
        return [x.name, kernel.name], [x, kernel], span
    bias = shaped(draft, (out,), x.dtype)
    size = span.size + bias.span.size
    return [x.name, kernel.name, bias.name], [x, kernel, bias], Span(-size, size, span.whole and bias.span.whole, True)


def draw_conv_transpose(dims: int, draft: Draft) -> None:
    x = _spatial(draft, dims, ("float32", "float64"))
    front, channels, sizes = x.shape[: -dims - 1], x.shape[-dims - 1], x.shape[-dims:]
    groups = draft.dice.one_of([g for g in (1, 1, 2, channels) if channels % g == 0])
    per_group = draft.dice.between(1, 3)
    kernel_sizes = [draft.dice.between(1, 3) for _ in sizes]
    stride = [draft.dice.one_of((1, 2, 3)) for _ in sizes]
    dilation = [draft.dice.one_of((1, 1, 2)) for _ in sizes]
    extra = [
        draft.dice.between(0, max(s, d) - 1) if draft.dice.chance(0.4) else 0
        for s, d in zip(stride, dilation, strict=True)
    ]
    padding = [draft.dice.between(0, min(1, d * (k - 1))) for k, d in zip(kernel_sizes, dilation, strict=True)]
    spatial = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel_sizes, extra, strict=True)
    )
    if min(spatial) < 1 or prod(spatial) * per_group * groups * prod(front) > 2 * MOST:
        raise NoFit("no such size")
    kernel = shaped(draft, (channels, per_group, *kernel_sizes), x.dtype)
    span = product(x, kernel, channels * prod(kernel_sizes))
    arguments, parts, span = _bias(draft, x, kernel, per_group * groups, span)
    for name, numbers, default in (
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("output_padding", extra, 0),
        ("dilation", dilation, 1),
    ):
        if set(numbers) != {default}:
            arguments.append(f"{name}={tuple_text(draft, numbers)}")
    if groups > 1:
        arguments.append(f"groups={groups}")
    draft.emit(
        f"F.conv_transpose{dims}d({', '.join(arguments)})",
        (*front, per_group * groups, *spatial),
        x.dtype,
        span,
        parts,
        dense=False,
    )


for _dims, _weight in ((1, 2.0), (2, 3.0), (3, 1.0)):
    ROWS.append(Row(f"conv{_dims}d", partial(draw_conv, _dims), 1.5 * _weight))
    ROWS.append(Row(f"conv_transpose{_dims}d", partial(draw_conv_transpose, _dims), _weight))
