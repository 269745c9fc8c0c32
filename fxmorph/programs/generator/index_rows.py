"""Reading by index."""

from __future__ import annotations

from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.fresh_inputs import indices
from fxmorph.programs.generator.operands import operand
from fxmorph.programs.generator.promotion import ANY, FLOATS
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, Shape
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, spelled

ROWS = Rows()


def _reader(draft: Draft, low: int = 1, high: int = 5) -> Value:
    return operand(draft, ANY, (low, high), 1)


def _index(draft: Draft, shape: Shape, bound: int, dtype: str = "int64", apart: Value | None = None) -> Value:
    """Indices of a shape below a bound: an old value whose range says so (on other memory than ``apart``), or new."""
    value = draft.take(
        lambda v: (
            v.shape == shape
            and v.dtype == dtype
            and not v.bits
            and v.span.within(0, bound - 1)
            and (apart is None or v.storage is not apart.storage)
        ),
        lambda: indices(draft, shape, bound, dtype, apart is not None),
        0.6,
    )
    if not draft.rely(value):
        raise NoFit("writes may leave the bounds")
    return value


def _count(draft: Draft, size: int) -> int:
    return draft.dice.one_of((size, 1, 2, 3, 5, size + 2))


@ROWS.add("index_select", 3)
def _index_select(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    i = _index(draft, (_count(draft, x.shape[dim]),), x.shape[dim], draft.dice.one_of(("int64", "int64", "int32")))
    shape = (*x.shape[:dim], i.shape[0], *x.shape[dim + 1 :])
    text = f"{x.name}.index_select({dim_text(draft, dim, x.rank)}, {i.name})"
    draft.emit(text, shape, x.dtype, x.span, [x, i], dense=False)


@ROWS.add("gather", 4)
def _gather(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    shape = tuple(_count(draft, n) if d == dim else draft.dice.between(1, n) for d, n in enumerate(x.shape))
    if prod(shape) > MOST:
        raise NoFit("too many elements")
    i = _index(draft, shape, x.shape[dim])
    spelled(
        draft, "gather", "fm", [x], f"{dim_text(draft, dim, x.rank)}, {i.name}", shape, x.dtype, x.span, dense=False
    )
    draft.beside(i)


@ROWS.add("take_along_dim", 2)
def _take_along_dim(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    shape = tuple(
        draft.dice.between(1, 4) if d == dim else 1 if draft.dice.chance(0.3) else n for d, n in enumerate(x.shape)
    )
    i = _index(draft, shape, x.shape[dim])
    out = tuple(shape[d] if d == dim else n for d, n in enumerate(x.shape))
    draft.emit(
        f"torch.take_along_dim({x.name}, {i.name}, dim={dim_text(draft, dim, x.rank)})",
        out,
        x.dtype,
        x.span,
        [x, i],
        dense=False,
    )


@ROWS.add("advanced_index", 5)
def _advanced_index(draft: Draft) -> None:
    x = _reader(draft, 1, 4)
    kind = draft.dice.below(4)
    if kind == 0 and x.rank > 1:
        n = draft.dice.between(1, 4)
        i, j = _index(draft, (n,), x.shape[0]), _index(draft, draft.dice.one_of(((n,), (1,))), x.shape[1])
        draft.emit(f"{x.name}[{i.name}, {j.name}]", (n, *x.shape[2:]), x.dtype, x.span, [x, i, j], dense=False)
    elif kind == 1 and x.rank > 1:
        i = _index(draft, (draft.dice.between(1, 5),), x.shape[-1])
        draft.emit(f"{x.name}[..., {i.name}]", (*x.shape[:-1], i.shape[0]), x.dtype, x.span, [x, i], dense=False)
    elif kind == 2 and x.rank > 2:
        # Indices beside a slice: the dimension that they make comes first.
        n = draft.dice.between(1, 4)
        i, j = _index(draft, (n,), x.shape[0]), _index(draft, (n,), x.shape[2])
        draft.emit(
            f"{x.name}[{i.name}, :, {j.name}]", (n, x.shape[1], *x.shape[3:]), x.dtype, x.span, [x, i, j], dense=False
        )
    else:
        # An index of rank 0 would make it a view at a place that values decide.
        i = _index(draft, draft.dice.one_of(((3,), (2, 3), (1,))), x.shape[0])
        draft.emit(f"{x.name}[{i.name}]", (*i.shape, *x.shape[1:]), x.dtype, x.span, [x, i], dense=False)


@ROWS.add("take", 1)
def _take(draft: Draft) -> None:
    x = _reader(draft)
    i = _index(draft, draft.dice.one_of(((4,), (2, 3), ())), x.numel)
    draft.emit(f"torch.take({x.name}, {i.name})", i.shape, x.dtype, x.span, [x, i], dense=False)


@ROWS.add("embedding", 4)
def _embedding(draft: Draft) -> None:
    weight = operand(draft, FLOATS, (2, 2), 1)
    i = _index(
        draft, draft.dice.one_of(((3,), (2, 5), ())), weight.shape[0], draft.dice.one_of(("int64", "int64", "int32"))
    )
    padding = draft.dice.one_of(("", "", ", padding_idx=0", ", padding_idx=-1"))
    draft.emit(
        f"F.embedding({i.name}, {weight.name}{padding})",
        (*i.shape, weight.shape[1]),
        weight.dtype,
        weight.span,
        [weight, i],
        dense=True,
    )


@ROWS.add("embedding_bag", 2)
def _embedding_bag(draft: Draft) -> None:
    weight = operand(draft, ("float32", "float64"), (2, 2), 1)
    n = draft.dice.between(1, 4)
    i = _index(draft, (draft.dice.between(1, 4), n), weight.shape[0])
    mode = draft.dice.one_of(("sum", "mean", "max"))
    if mode == "max" and weight.grad:
        raise NoFit("ties in a gradient")
    span = Span(min(0, weight.span.lo) * n, max(0, weight.span.hi) * n)
    draft.emit(
        f"F.embedding_bag({i.name}, {weight.name}, mode='{mode}')",
        (i.shape[0], weight.shape[1]),
        weight.dtype,
        span,
        [weight, i],
        dense=False,
    )


@ROWS.add("one_hot", 3)
def _one_hot(draft: Draft) -> None:
    n = draft.dice.between(2, 7)
    i = _index(draft, draft.dice.one_of(((3,), (2, 5), (7,))), n)
    draft.emit(
        f"F.one_hot({i.name}, {'num_classes=' if draft.dice.chance(0.4) else ''}{n})",
        (*i.shape, n),
        "int64",
        Span(0, 1, True, False),
        [i],
        dense=False,
    )
