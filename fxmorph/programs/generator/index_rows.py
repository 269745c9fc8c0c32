"""Reading and writing by index; sorting."""

from __future__ import annotations

from math import inf, prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.fresh_inputs import given, indices, permutation, permutations_along
from fxmorph.programs.generator.operands import number, operand, shaped
from fxmorph.programs.generator.pointwise_rows import condition
from fxmorph.programs.generator.promotion import ANY, FLOATS, NUMBERS, WHOLES
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, Shape, broadcasts_to
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, spelled

INDEXING: Rows = Rows()
ORDERING: Rows = Rows()


def _reader(draft: Draft, low: int = 1, high: int = 5) -> Value:
    return operand(draft, ANY, (low, high), 1)


def _index(draft: Draft, shape: Shape, bound: int, dtype: str = "int64", apart: Value | None = None) -> Value:
    """Indices of a shape below a bound: an old value whose range says so (on other memory than ``apart``), or new."""
    return draft.take(
        lambda v: v.shape == shape and v.dtype == dtype and not v.bits and v.span.within(0, bound - 1)
        and (apart is None or v.storage is not apart.storage),
        lambda: indices(draft, shape, bound, dtype, apart is not None), 0.6,
    )  # fmt: skip


def _count(draft: Draft, size: int) -> int:
    return draft.dice.one_of((size, 1, 2, 3, 5, size + 2))


@INDEXING.add("index_select", 3)
def _index_select(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    i = _index(draft, (_count(draft, x.shape[dim]),), x.shape[dim], draft.dice.one_of(("int64", "int64", "int32")))
    shape = (*x.shape[:dim], i.shape[0], *x.shape[dim + 1 :])
    text = f"{x.name}.index_select({dim_text(draft, dim, x.rank)}, {i.name})"
    draft.emit(text, shape, x.dtype, x.span, [x, i], dense=False)


@INDEXING.add("gather", 4)
def _gather(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    shape = tuple(_count(draft, n) if d == dim else draft.dice.between(1, n) for d, n in enumerate(x.shape))
    if prod(shape) > MOST:
        raise NoFit("too many elements")
    i = _index(draft, shape, x.shape[dim])
    spelled(draft, "gather", "fm", [x], f"{dim_text(draft, dim, x.rank)}, {i.name}", shape, x.dtype, x.span, dense=False)
    draft.beside(i)


@INDEXING.add("take_along_dim", 2)
def _take_along_dim(draft: Draft) -> None:
    x = _reader(draft)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, 4) if d == dim else 1 if draft.dice.chance(0.3) else n for d, n in enumerate(x.shape))
    i = _index(draft, shape, x.shape[dim])
    out = tuple(shape[d] if d == dim else n for d, n in enumerate(x.shape))
    draft.emit(f"torch.take_along_dim({x.name}, {i.name}, dim={dim_text(draft, dim, x.rank)})", out, x.dtype, x.span, [x, i], dense=False)


@INDEXING.add("advanced_index", 5)
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
        draft.emit(f"{x.name}[{i.name}, :, {j.name}]", (n, x.shape[1], *x.shape[3:]), x.dtype, x.span, [x, i, j], dense=False)
    else:
        i = _index(draft, draft.dice.one_of(((3,), (2, 3), ())), x.shape[0])
        draft.emit(f"{x.name}[{i.name}]", (*i.shape, *x.shape[1:]), x.dtype, x.span, [x, i], dense=False)


@INDEXING.add("take", 1)
def _take(draft: Draft) -> None:
    x = _reader(draft)
    i = _index(draft, draft.dice.one_of(((4,), (2, 3), ())), x.numel)
    draft.emit(f"torch.take({x.name}, {i.name})", i.shape, x.dtype, x.span, [x, i], dense=False)


@INDEXING.add("scatter", 5)
def _scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, n) for n in x.shape)
    i = permutations_along(draft, shape, dim, x.shape[dim])
    where = f"{dim_text(draft, dim, x.rank)}, {i.name}"
    if draft.dice.chance(0.35):
        text, span = number(draft, x.dtype)
        spelled(draft, "scatter", "fmi", [x], f"{where}, {'value=' if draft.dice.chance(0.4) else ''}{text}", x.shape, x.dtype, x.span.join(span), dense=None)
    else:
        src = shaped(draft, shape, x.dtype, apart=x)
        spelled(draft, "scatter", "fmi", [x], f"{where}, {src.name}", x.shape, x.dtype, x.span.join(src.span), dense=None)
        _follow(draft, x, src)
    draft.beside(i)


def _follow(draft: Draft, x: Value, other: Value) -> None:
    """An operand that stands among the arguments: only where autograd has no part in it."""
    if other.grad or x.grad:
        raise NoFit("gradients of operands among the arguments")
    draft.beside(other)


@INDEXING.add("scatter_add", 3)
def _scatter_add(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 4), 1)
    dim = draft.dice.below(x.rank)
    shape = tuple(draft.dice.between(1, n) for n in x.shape)
    i = _index(draft, shape, x.shape[dim], apart=x)
    src = shaped(draft, shape, x.dtype, apart=x)
    n = shape[dim]
    span = Span(x.span.lo + min(0, src.span.lo) * n, x.span.hi + max(0, src.span.hi) * n, x.span.whole and src.span.whole, True)
    spelled(draft, "scatter_add", "fmi", [x], f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}", x.shape, x.dtype, span)
    _follow(draft, x, src)
    draft.beside(i)


@INDEXING.add("scatter_reduce", 3)
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
    spelled(draft, "scatter_reduce", "fmi", [x], f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}, reduce='{how}'{included}", x.shape, x.dtype, span)
    _follow(draft, x, src)
    draft.beside(i)


@INDEXING.add("index_add", 3)
def _index_add(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 4), 1)
    dim = draft.dice.below(x.rank)
    count = draft.dice.between(1, 5)
    i = _index(draft, (count,), x.shape[dim], apart=x)
    src = shaped(draft, (*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype, apart=x)
    alpha = draft.dice.one_of(("", "", ", alpha=2", ", alpha=-1"))
    size = src.span.size * count * 2
    span = Span(x.span.lo - size, x.span.hi + size, x.span.whole and src.span.whole, True)
    spelled(draft, "index_add", "fmi", [x], f"{dim_text(draft, dim, x.rank)}, {i.name}, {src.name}{alpha}", x.shape, x.dtype, span)
    _follow(draft, x, src)
    draft.beside(i)


@INDEXING.add("index_copy", 3)
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


@INDEXING.add("index_put", 4)
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


@INDEXING.add("masked_fill", 5)
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


@INDEXING.add("masked_scatter", 1)
def _masked_scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1)
    mask = shaped(draft, x.shape, "bool", apart=x)
    src = shaped(draft, x.shape, x.dtype, apart=x)
    spelled(draft, "masked_scatter", "fmi", [x], f"{mask.name}, {src.name}", x.shape, x.dtype, x.span.join(src.span))
    _follow(draft, x, src)
    draft.beside(mask)


@INDEXING.add("scatter_views", 4)
def _scatter_views(draft: Draft) -> None:
    x = operand(draft, ANY, (1, 4), 1)
    dim = draft.dice.below(x.rank)
    if draft.dice.chance(0.5):
        src = shaped(draft, (*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype)
        text = f"torch.select_scatter({x.name}, {src.name}, {dim_text(draft, dim, x.rank)}, {draft.dice.below(x.shape[dim])})"
    else:
        start = draft.dice.below(x.shape[dim])
        step = draft.dice.one_of((1, 1, 2))
        count = -(-(x.shape[dim] - start) // step)
        src = shaped(draft, (*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype)
        text = f"torch.slice_scatter({x.name}, {src.name}, dim={dim_text(draft, dim, x.rank)}, start={start}, step={step})"
    draft.emit(text, x.shape, x.dtype, x.span.join(src.span), [x, src], dense=False)


@INDEXING.add("diagonal_scatter", 2)
def _diagonal_scatter(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (2, 2), 1)
    offset = draft.dice.between(1 - x.shape[0], x.shape[1] - 1)
    n = min(x.shape[0] + min(offset, 0), x.shape[1] - max(offset, 0))
    src = shaped(draft, (n,), x.dtype)
    draft.emit(f"torch.diagonal_scatter({x.name}, {src.name}, {offset})", x.shape, x.dtype, x.span.join(src.span), [x, src], dense=False)


@INDEXING.add("embedding", 4)
def _embedding(draft: Draft) -> None:
    weight = operand(draft, FLOATS, (2, 2), 1)
    i = _index(draft, draft.dice.one_of(((3,), (2, 5), ())), weight.shape[0], draft.dice.one_of(("int64", "int64", "int32")))
    padding = draft.dice.one_of(("", "", ", padding_idx=0", ", padding_idx=-1"))
    draft.emit(f"F.embedding({i.name}, {weight.name}{padding})", (*i.shape, weight.shape[1]), weight.dtype, weight.span, [weight, i], dense=True)


@INDEXING.add("embedding_bag", 2)
def _embedding_bag(draft: Draft) -> None:
    weight = operand(draft, ("float32", "float64"), (2, 2), 1)
    n = draft.dice.between(1, 4)
    i = _index(draft, (draft.dice.between(1, 4), n), weight.shape[0])
    mode = draft.dice.one_of(("sum", "mean", "max"))
    if mode == "max" and weight.grad:
        raise NoFit("ties in a gradient")
    span = Span(min(0, weight.span.lo) * n, max(0, weight.span.hi) * n)
    draft.emit(f"F.embedding_bag({i.name}, {weight.name}, mode='{mode}')", (i.shape[0], weight.shape[1]), weight.dtype, span, [weight, i], dense=False)


@INDEXING.add("one_hot", 3)
def _one_hot(draft: Draft) -> None:
    n = draft.dice.between(2, 7)
    i = _index(draft, draft.dice.one_of(((3,), (2, 5), (7,))), n)
    draft.emit(f"F.one_hot({i.name}, {'num_classes=' if draft.dice.chance(0.4) else ''}{n})", (*i.shape, n), "int64", Span(0, 1, True, False), [i], dense=False)


@INDEXING.add("searchsorted", 2)
def _searchsorted(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64"), (0, 3), exact=True)
    n = draft.dice.between(1, 9)
    edges = draft.emit(f"torch.arange({-(n // 2)}, {n - n // 2}, dtype=torch.{x.dtype})", (n,), x.dtype, Span(-n, n, True, False), [], dense=True)
    right = draft.dice.one_of(("", ", right=True"))
    if draft.dice.chance(0.5):
        draft.emit(f"torch.bucketize({x.name}, {edges.name}{right})", x.shape, "int64", Span(0, n, True, False), [x, edges], dense=False)
    else:
        draft.emit(f"torch.searchsorted({edges.name}, {x.name}{right})", x.shape, "int64", Span(0, n, True, False), [x, edges], dense=False)


@ORDERING.add("sort", 4)
def _sort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    dim = draft.dice.below(x.rank)
    stable = draft.dice.chance(0.5)
    flags = [f"dim={dim_text(draft, dim, x.rank)}", draft.dice.one_of(("", "descending=True", "descending=False")), "stable=True" if stable else ""]
    text = f"torch.sort({x.name}, {', '.join(f for f in flags if f)})"
    places = Span(0, x.shape[dim] - 1, True, False)
    if stable or x.distinct:
        draft.several(text, [draft.tensor(x.shape, x.dtype, x.span, [x]), draft.tensor(x.shape, "int64", places, [x])], [x])
    else:
        draft.emit(f"{text}.values", x.shape, x.dtype, x.span, [x], dense=False)


@ORDERING.add("argsort", 2)
def _argsort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    dim = draft.dice.below(x.rank)
    flag = draft.dice.one_of(("", ", descending=True"))
    draft.emit(f"torch.argsort({x.name}, dim={dim_text(draft, dim, x.rank)}{flag}, stable=True)", x.shape, "int64", Span(0, x.shape[dim] - 1, True, False), [x], dense=False)


@ORDERING.add("topk", 3)
def _topk(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    dim = draft.dice.below(x.rank)
    k = draft.dice.between(1, x.shape[dim])
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    flags = draft.dice.one_of(("", ", largest=False", ", sorted=True", ", largest=False, sorted=True", ", True, True"))
    text = f"torch.topk({x.name}, {k}, dim={dim_text(draft, dim, x.rank)}{flags if ', True, ' not in flags else ', largest=True'})"
    if x.distinct:
        draft.several(text, [draft.tensor(shape, x.dtype, x.span, [x]), draft.tensor(shape, "int64", Span(0, x.shape[dim] - 1, True, False), [x])], [x])
    else:
        draft.emit(f"{text}.values", shape, x.dtype, x.span, [x], dense=False)


@ORDERING.add("msort", 1)
def _msort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 3), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    draft.emit(f"torch.msort({x.name})", x.shape, x.dtype, x.span, [x], dense=False)


@ORDERING.add("isin", 1)
def _isin(draft: Draft) -> None:
    x = operand(draft, ("int64", "int32"), (0, 3), exact=True)
    others = given(draft, (draft.dice.between(1, 4),), x.dtype, -inf, inf)
    draft.emit(f"torch.isin({x.name}, {others.name})", x.shape, "bool", Span(0, 1, True, False), [x, others], dense=False)
