"""Writing by index or mask; indices that would write a place twice are permutations."""

from __future__ import annotations

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.fresh_inputs import permutation, permutations_along
from fxmorph.programs.generator.index_rows import _index
from fxmorph.programs.generator.operands import number, operand, shaped
from fxmorph.programs.generator.promotion import ANY, NUMBERS, WHOLES
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import broadcasts_to
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, spelled
from fxmorph.programs.generator.ternary_rows import condition

ROWS = Rows()


@ROWS.add("scatter", 5)
def _scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, n) for n in x.shape)
    i = permutations_along(draft, shape, dim, x.shape[dim])
    where = f"{dim_text(draft, dim, x.rank)}, {i.name}"
    if draft.dice.chance(0.35):
        text, span = number(draft, x.dtype)
        spelled(
            draft,
            "scatter",
            "fmi",
            [x],
            f"{where}, {'value=' if draft.dice.chance(0.4) else ''}{text}",
            x.shape,
            x.dtype,
            x.span.join(span),
            dense=None,
        )
    else:
        src = shaped(draft, shape, x.dtype, apart=x)
        spelled(
            draft, "scatter", "fmi", [x], f"{where}, {src.name}", x.shape, x.dtype, x.span.join(src.span), dense=None
        )
        _follow(draft, x, src)
    draft.beside(i)


def _follow(draft: Draft, x: Value, other: Value) -> None:
    """An operand that stands among the arguments: only where autograd has no part in it."""
    if other.grad or x.grad:
        raise NoFit("gradients of operands among the arguments")
    draft.beside(other)


@ROWS.add("scatter_add", 3)
def _scatter_add(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 4), 1)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, n) for n in x.shape)
    i = _index(draft, shape, x.shape[dim], apart=x)
    src = shaped(draft, shape, x.dtype, apart=x)
    n = shape[dim]
    span = Span(
        x.span.lo + min(0, src.span.lo) * n, x.span.hi + max(0, src.span.hi) * n, x.span.whole and src.span.whole, True
    )
    spelled(
        draft,
        "scatter_add",
        "fmi",
        [x],
        f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}",
        x.shape,
        x.dtype,
        span,
    )
    _follow(draft, x, src)
    draft.beside(i)


@ROWS.add("scatter_reduce", 3)
def _scatter_reduce(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64"), (1, 3), 1)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, n) for n in x.shape)
    i = _index(draft, shape, x.shape[dim], apart=x)
    src = shaped(draft, shape, x.dtype, apart=x)
    how = draft.dice.one_of(("sum", "amax", "amin", "mean") if x.dtype != "int64" else ("sum", "amax", "amin"))
    n = shape[dim] if how == "sum" else 1
    included = draft.dice.one_of(("", ", include_self=False", ", include_self=True"))
    span = Span(min(x.span.lo, 0) + min(0, src.span.lo) * n, max(x.span.hi, 0) + max(0, src.span.hi) * n, False, True)
    spelled(
        draft,
        "scatter_reduce",
        "fmi",
        [x],
        f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}, reduce='{how}'{included}",
        x.shape,
        x.dtype,
        span,
    )
    _follow(draft, x, src)
    draft.beside(i)


@ROWS.add("index_add", 3)
def _index_add(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 4), 1)
    dim = draft.dice.below(x.rank)
    count = draft.dice.between(1, 5)
    i = _index(draft, (count,), x.shape[dim], apart=x)
    src = shaped(draft, (*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype, apart=x)
    alpha = draft.dice.one_of(("", "", ", alpha=2", ", alpha=-1"))
    size = src.span.size * count * 2
    span = Span(x.span.lo - size, x.span.hi + size, x.span.whole and src.span.whole, True)
    spelled(
        draft,
        "index_add",
        "fmi",
        [x],
        f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}{alpha}",
        x.shape,
        x.dtype,
        span,
    )
    _follow(draft, x, src)
    draft.beside(i)


@ROWS.add("index_copy", 3)
def _index_copy(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 4), 1)
    dim = draft.dice.below(x.rank)
    count = draft.dice.between(1, x.shape[dim])
    i = permutation(draft, x.shape[dim], count)
    where = f"{dim_text(draft, dim, x.rank)}, {i.name}"
    if draft.dice.chance(0.4) and x.dtype in NUMBERS:
        text, span = number(draft, x.dtype)
        spelled(draft, "index_fill", "fmi", [x], f"{where}, {text}", x.shape, x.dtype, x.span.join(span))
    else:
        src = shaped(draft, (*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype, apart=x)
        spelled(draft, "index_copy", "fmi", [x], f"{where}, {src.name}", x.shape, x.dtype, x.span.join(src.span))
        _follow(draft, x, src)
    draft.beside(i)


@ROWS.add("index_put", 4)
def _index_put(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32", "bfloat16"), (1, 3), 1)
    add = draft.dice.chance(0.4) and x.dtype != "bfloat16"
    count = draft.dice.between(1, x.shape[0])
    i = _index(draft, (count,), x.shape[0], apart=x) if add else permutation(draft, x.shape[0], count)
    src = shaped(draft, draft.dice.one_of(((count, *x.shape[1:]), x.shape[1:])), x.dtype, apart=x)
    span = x.span.join(src.span)
    if add:
        size = src.span.size * count
        span = Span(x.span.lo - size, x.span.hi + size, x.span.whole and src.span.whole, True)
    kind = draft.dice.below(3)
    flag = ", accumulate=True" if add else ""
    if kind == 0 and not add:
        draft.write(f"{x.name}[{i.name}] = {src.name}", x, span, [src, i], named=0)
    elif kind == 1 and draft.writable(x):
        draft.write(f"{x.name}.index_put_(({i.name},), {src.name}{flag})", x, span, [src, i])
    else:
        draft.emit(f"torch.index_put({x.name}, ({i.name},), {src.name}{flag})", x.shape, x.dtype, span, [x, src, i])


@ROWS.add("masked_fill", 5)
def _masked_fill(draft: Draft) -> None:
    x = operand(draft, (*NUMBERS, "bool"), (0, 5))
    mask = condition(draft, x)
    if not broadcasts_to(mask.shape, x.shape):
        raise NoFit("the mask is larger")
    text, span = number(draft, x.dtype) if x.dtype != "bool" else ("True", Span(1, 1, True, False))
    if x.dtype in WHOLES and "." in text:
        raise NoFit("a fraction")
    if draft.dice.chance(0.2) and draft.writable(x) and mask.storage is not x.storage:
        draft.write(f"{x.name}[{mask.name}] = {text}", x, span, [mask], named=0) if mask.shape == x.shape else None
        return
    if mask.storage is x.storage:
        raise NoFit("the mask is written")
    spelled(draft, "masked_fill", "fmi", [x], f"{mask.name}, {text}", x.shape, x.dtype, x.span.join(span))
    draft.beside(mask)


@ROWS.add("masked_scatter", 1)
def _masked_scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1)
    mask = shaped(draft, x.shape, "bool", apart=x)
    src = shaped(draft, x.shape, x.dtype, apart=x)
    spelled(draft, "masked_scatter", "fmi", [x], f"{mask.name}, {src.name}", x.shape, x.dtype, x.span.join(src.span))
    _follow(draft, x, src)
    draft.beside(mask)


@ROWS.add("scatter_views", 4)
def _scatter_views(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 4), 1)
    dim = draft.dice.below(x.rank)
    if draft.dice.chance(0.5):
        src = shaped(draft, (*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype)
        index = draft.dice.below(x.shape[dim])
        text = f"torch.select_scatter({x.name}, {src.name}, {dim_text(draft, dim, x.rank)}, {index})"
    else:
        start = draft.dice.below(x.shape[dim])
        step = draft.dice.one_of((1, 1, 2))
        count = -(-(x.shape[dim] - start) // step)
        src = shaped(draft, (*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype)
        text = (
            f"torch.slice_scatter({x.name}, {src.name}, dim={dim_text(draft, dim, x.rank)}, start={start}, step={step})"
        )
    draft.emit(text, x.shape, x.dtype, x.span.join(src.span), [x, src], dense=False)


@ROWS.add("diagonal_scatter", 2)
def _diagonal_scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (2, 2), 1)
    offset = draft.dice.between(1 - x.shape[0], x.shape[1] - 1)
    n = min(x.shape[0] + min(offset, 0), x.shape[1] - max(offset, 0))
    src = shaped(draft, (n,), x.dtype)
    draft.emit(
        f"torch.diagonal_scatter({x.name}, {src.name}, {offset})",
        x.shape,
        x.dtype,
        x.span.join(src.span),
        [x, src],
        dense=False,
    )
