"""Values put together, repeated, padded, turned around."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import number, operand, shaped
from fxmorph.programs.generator.promotion import ANY, FLOATS, NUMBERS, result_dtype
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, Shape, sizes, text_of
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, named_dim, spelled

ROWS = Rows()


def joined(values: Sequence[Value]) -> Span:
    span = values[0].span
    for value in values[1:]:
        span = span.join(value.span)
    return span


def _like(draft: Draft, x: Value, shape: Shape) -> Value:
    return x if shape == x.shape and draft.dice.chance(0.15) else shaped(draft, shape, x.dtype, reuse=0.6)


@ROWS.add("cat", 6)
def _cat(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 6))
    dim = draft.dice.below(x.rank)
    parts = [x]
    for _ in range(draft.dice.between(1, 2)):
        size = x.shape[dim] if draft.dice.chance(0.5) else draft.dice.between(0, 5)
        parts.append(_like(draft, x, (*x.shape[:dim], size, *x.shape[dim + 1 :])))
    parts = draft.dice.shuffled(parts)
    if draft.dice.chance(0.15):
        wide = draft.existing(
            lambda v: (
                v.shape[:dim] == x.shape[:dim]
                and v.shape[dim + 1 :] == x.shape[dim + 1 :]
                and v.rank == x.rank
                and v.dtype in FLOATS
                and x.dtype in FLOATS
                and not v.bits
            )
        )
        parts += [wide] if wide else []
    dtype = result_dtype((p.dtype, p.rank) for p in parts)
    shape = (*x.shape[:dim], sum(p.shape[dim] for p in parts), *x.shape[dim + 1 :])
    name = draft.dice.one_of(("cat", "cat", "concat"))
    where = named_dim(draft, dim, x.rank)
    text = f"torch.{name}([{', '.join(p.name for p in parts)}], {where})"
    draft.emit(text, shape, dtype, joined(parts), parts, saves=False)


@ROWS.add("stack", 4)
def _stack(draft: Draft) -> None:
    x = operand(draft, ANY, (0, 5))
    parts = draft.dice.shuffled([x, *(_like(draft, x, x.shape) for _ in range(draft.dice.between(1, 2)))])
    dim = draft.dice.between(0, x.rank)
    shape = (*x.shape[:dim], len(parts), *x.shape[dim:])
    where = named_dim(draft, dim, x.rank + 1)
    names = ", ".join(p.name for p in parts)
    draft.emit(
        f"torch.stack([{names}], {where})",
        shape,
        x.dtype,
        joined(parts),
        parts,
        saves=False,
        dense=False,
    )


@ROWS.add("hvstack", 2)
def _hvstack(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 3))
    y = _like(draft, x, x.shape)
    name = draft.dice.one_of(("hstack", "vstack", "dstack", "column_stack"))
    if x.rank == 1:
        n = x.shape[0]
        shape = {"hstack": (2 * n,), "vstack": (2, n), "dstack": (1, n, 2), "column_stack": (n, 2)}[name]
    else:
        dim = {"hstack": 1, "vstack": 0, "dstack": 2, "column_stack": 1}[name]
        base = (*x.shape, 1) if dim == x.rank else x.shape
        shape = (*base[:dim], 2 * base[dim], *base[dim + 1 :])
    draft.emit(f"torch.{name}(({x.name}, {y.name}))", shape, x.dtype, joined([x, y]), [x, y], saves=False, dense=False)


@ROWS.add("repeat", 3)
def _repeat(draft: Draft) -> None:
    x = operand(draft, ANY, (0, 4))
    counts = [draft.dice.one_of((1, 1, 2, 3)) for _ in range(x.rank + draft.dice.below(2))]
    shape = tuple(a * b for a, b in zip(counts, (1,) * (len(counts) - x.rank) + x.shape, strict=True))
    if prod(shape) > MOST or not counts:
        raise NoFit("too many elements")
    texts = (f"{x.name}.repeat({sizes(counts)})", f"torch.tile({x.name}, {text_of(counts)})")
    draft.emit(draft.dice.one_of(texts), shape, x.dtype, x.span, [x], saves=False, dense=False)


@ROWS.add("repeat_interleave", 2)
def _repeat_interleave(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4))
    dim, count = draft.dice.below(x.rank), draft.dice.between(1, 3)
    shape = (*x.shape[:dim], x.shape[dim] * count, *x.shape[dim + 1 :])
    draft.emit(
        f"{x.name}.repeat_interleave({count}, dim={dim_text(draft, dim, x.rank)})",
        shape,
        x.dtype,
        x.span,
        [x],
        saves=False,
        dense=False,
    )


@ROWS.add("roll", 3)
def _roll(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 6))
    if draft.dice.chance(0.6):
        dim = draft.dice.below(x.rank)
        text = f"{draft.dice.between(-3, 3)}, {dim_text(draft, dim, x.rank)}"
    elif x.rank > 1:
        dims = draft.dice.shuffled(range(x.rank))[:2]
        text = f"shifts=({draft.dice.between(-3, 3)}, {draft.dice.between(-3, 3)}), dims=({dims[0]}, {dims[1]})"
    else:
        text = f"{draft.dice.between(-3, 3)}"
    spelled(draft, "roll", "fm", [x], text, x.shape, x.dtype, x.span, saves=False, dense=False)


@ROWS.add("flip", 3)
def _flip(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 6))
    dims = draft.dice.shuffled(range(x.rank))[: draft.dice.between(1, 2)]
    shown = "(" + "".join(f"{dim_text(draft, d, x.rank)}, " for d in dims) + ")"
    texts = [f"torch.flip({x.name}, {shown})", f"{x.name}.flip({shown})"]
    if dims == [0]:
        texts.append(f"torch.flipud({x.name})")
    if dims == [1]:
        texts.append(f"torch.fliplr({x.name})")
    draft.emit(draft.dice.one_of(texts), x.shape, x.dtype, x.span, [x], saves=False, dense=False)


@ROWS.add("rot90", 2)
def _rot90(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (2, 4))
    i, j = draft.dice.shuffled(range(x.rank))[:2]
    k = draft.dice.between(-1, 3)
    shape = list(x.shape)
    if k % 2:
        shape[i], shape[j] = shape[j], shape[i]
    draft.emit(f"torch.rot90({x.name}, {k}, ({i}, {j}))", tuple(shape), x.dtype, x.span, [x], saves=False, dense=False)


@ROWS.add("triangle", 4)
def _triangle(draft: Draft) -> None:
    x = operand(draft, (*NUMBERS, "bool"), (2, 5))
    offset = draft.dice.between(-2, 2)
    text = "" if not offset and draft.dice.chance(0.5) else draft.dice.one_of((f"{offset}", f"diagonal={offset}"))
    spelled(
        draft,
        draft.dice.one_of(("tril", "triu")),
        "fmi",
        [x],
        text,
        x.shape,
        x.dtype,
        x.span.join(Span(0, 0, True, False)),
        saves=False,
        dense=False,
    )


@ROWS.add("diag", 2)
def _diag(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 3))
    offset = draft.dice.between(-2, 2)
    n = x.shape[-1] + abs(offset)
    if x.numel * n > MOST:
        raise NoFit("too many elements")
    shape = (*x.shape[:-1], n, n)
    zero = Span(0, 0, True, False)
    if x.rank == 1 and draft.dice.chance(0.5):
        draft.emit(f"torch.diag({x.name}, {offset})", shape, x.dtype, x.span.join(zero), [x], saves=False, dense=False)
    else:
        draft.emit(
            f"torch.diag_embed({x.name}, {offset})", shape, x.dtype, x.span.join(zero), [x], saves=False, dense=False
        )


@ROWS.add("pad", 5)
def _pad(draft: Draft) -> None:
    x = operand(draft, (*NUMBERS, "bool"), (1, 5))
    count = draft.dice.between(1, min(x.rank, 3))
    shape, pads = list(x.shape), []
    for dim in range(x.rank - 1, x.rank - 1 - count, -1):
        before = draft.dice.between(-min(1, x.shape[dim]), 3)
        after = draft.dice.between(-1 if x.shape[dim] + min(before, 0) > 1 else 0, 3)
        shape[dim] += before + after
        pads += [before, after]
    if min(shape) < 0:
        raise NoFit("a negative size")
    text, span = (
        ("0", Span(0, 0, True, False)) if draft.dice.chance(0.4) or x.dtype == "bool" else number(draft, x.dtype)
    )
    value = "" if text == "0" else draft.dice.one_of((f", value={text}", f", mode='constant', value={text}"))
    draft.emit(
        f"F.pad({x.name}, {text_of(pads)}{value})",
        tuple(shape),
        x.dtype,
        x.span.join(span),
        [x],
        saves=False,
        dense=False,
    )


@ROWS.add("pad_mode", 4)
def _pad_mode(draft: Draft) -> None:
    count = draft.dice.between(1, 3)
    x = operand(draft, ("float32", "float64"), (count + 1, count + 2), 1)
    mode = draft.dice.one_of(("reflect", "replicate", "circular"))
    shape, pads = list(x.shape), []
    for dim in range(x.rank - 1, x.rank - 1 - count, -1):
        most = x.shape[dim] - 1 if mode == "reflect" else x.shape[dim] if mode == "circular" else 4
        before, after = draft.dice.between(0, min(most, 3)), draft.dice.between(0, min(most, 3))
        shape[dim] += before + after
        pads += [before, after]
    draft.emit(f"F.pad({x.name}, {text_of(pads)}, mode='{mode}')", tuple(shape), x.dtype, x.span, [x], dense=False)


@ROWS.add("meshgrid", 1)
def _meshgrid(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 1))
    y = operand(draft, (x.dtype,), (1, 1))
    indexing = draft.dice.one_of(("ij", "xy"))
    shape = (x.shape[0], y.shape[0]) if indexing == "ij" else (y.shape[0], x.shape[0])
    if prod(shape) > MOST or x.grad or y.grad:
        raise NoFit("too many elements")
    # They are views of the operands, expanded.
    from fxmorph.programs.generator.strided import Layout

    made = [Value("", v.dtype, Layout(shape, None, 0, True), v.storage, True) for v in (x, y)]
    draft.several(f"torch.meshgrid({x.name}, {y.name}, indexing='{indexing}')", made, [x, y])


@ROWS.add("shuffle", 1)
def _shuffle(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (4, 4), 1)
    n, c, h, w = x.shape
    fits = [r for r in (2, 3) if c % (r * r) == 0]
    down = [r for r in (2, 3) if h % r == 0 and w % r == 0]
    if down and draft.dice.chance(0.5):
        r = draft.dice.one_of(down)
        draft.emit(
            f"F.pixel_unshuffle({x.name}, {r})",
            (n, c * r * r, h // r, w // r),
            x.dtype,
            x.span,
            [x],
            saves=False,
            dense=False,
        )
    elif fits:
        r = draft.dice.one_of(fits)
        draft.emit(
            f"F.pixel_shuffle({x.name}, {r})",
            (n, c // (r * r), h * r, w * r),
            x.dtype,
            x.span,
            [x],
            saves=False,
            dense=False,
        )
    else:
        groups = [g for g in (1, 2, 3, 4, 5) if c % g == 0]
        g = draft.dice.one_of(groups)
        draft.emit(f"F.channel_shuffle({x.name}, {g})", x.shape, x.dtype, x.span, [x], saves=False, dense=False)
