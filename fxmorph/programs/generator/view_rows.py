"""Views: the same memory under another shape, other strides, another dtype."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.promotion import COMPLEX, ITEMSIZE, NUMBERS, PART
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, Shape, rearranged, sizes, text_of
from fxmorph.programs.generator.spans import NoFit
from fxmorph.programs.generator.spelling import dim_text, dims_text
from fxmorph.programs.generator.strided import (
    Layout,
    contiguous,
    diagonal,
    dropped,
    expanded,
    inserted,
    permuted,
    sliced,
    unfolded,
    viewed,
)

ROWS = Rows()


def _any(draft: Draft, low: int = 0, high: int = 6, least: int = 0) -> Value:
    """Any value of such a rank, bits of another dtype too."""
    from fxmorph.programs.generator.fresh_inputs import any_input

    def make() -> Value:
        value = any_input(draft, None, draft.dice.between(low, min(high, low + 2)), max(1, least))
        if any(n < least for n in value.shape):
            raise NoFit("a size of 0")
        return value

    return draft.take(lambda v: low <= v.rank <= high and all(n >= least for n in v.shape), make)


@ROWS.add("transpose", 4)
def _transpose(draft: Draft) -> None:
    x = _any(draft, 2)
    i, j = draft.dice.shuffled(range(x.rank))[:2]
    dims = list(range(x.rank))
    dims[i], dims[j] = j, i
    pair = f"{dim_text(draft, i, x.rank)}, {dim_text(draft, j, x.rank)}"
    texts = [
        f"{x.name}.transpose({pair})",
        f"torch.transpose({x.name}, {pair})",
        f"{x.name}.swapaxes({pair})",
        f"{x.name}.swapdims({pair})",
    ]
    if {i, j} == {x.rank - 1, x.rank - 2}:
        texts += [f"{x.name}.mT", f"{x.name}.mT"]
    if x.rank == 2:
        texts += [f"{x.name}.t()", f"{x.name}.T"]
    draft.alias(draft.dice.one_of(texts), x, permuted(x.layout, dims))


@ROWS.add("permute", 4)
def _permute(draft: Draft) -> None:
    x = _any(draft, 2)
    dims = draft.dice.shuffled(range(x.rank))
    shown = ", ".join(dim_text(draft, d, x.rank) for d in dims)
    draft.alias(
        draft.dice.one_of((f"{x.name}.permute({shown})", f"torch.permute({x.name}, ({shown}))")),
        x,
        permuted(x.layout, dims),
    )


@ROWS.add("movedim", 2)
def _movedim(draft: Draft) -> None:
    x = _any(draft, 2)
    a, b = draft.dice.below(x.rank), draft.dice.below(x.rank)
    dims = [d for d in range(x.rank) if d != a]
    dims.insert(b, a)
    pair = f"{dim_text(draft, a, x.rank)}, {dim_text(draft, b, x.rank)}"
    draft.alias(
        draft.dice.one_of((f"{x.name}.movedim({pair})", f"torch.moveaxis({x.name}, {pair})")),
        x,
        permuted(x.layout, dims),
    )


@ROWS.add("unsqueeze", 3)
def _unsqueeze(draft: Draft) -> None:
    x = _any(draft, 0, 5)
    dim = draft.dice.between(0, x.rank)
    texts = (f"{x.name}.unsqueeze({dim_text(draft, dim, x.rank + 1)})", f"{x.name}[{':, ' * dim}None]")
    draft.alias(draft.dice.one_of(texts), x, inserted(x.layout, dim))


@ROWS.add("squeeze", 2)
def _squeeze(draft: Draft) -> None:
    x = draft.take(lambda v: 1 in v.shape)
    ones = [d for d in range(x.rank) if x.shape[d] == 1]
    if draft.dice.chance(0.5):
        ones = ones if draft.dice.chance(0.3) else [draft.dice.one_of(ones)]
        text = "" if len(ones) == x.shape.count(1) and draft.dice.chance(0.5) else dims_text(draft, ones, x.rank)
    else:
        text = ""
    layout = x.layout
    for dim in reversed(ones):
        layout = dropped(layout, dim)
    draft.alias(f"{x.name}.squeeze({text})", x, layout)


@ROWS.add("slice", 7)
def _slice(draft: Draft) -> None:
    x = _any(draft, 1)
    dim = draft.dice.below(x.rank)
    size = x.shape[dim]
    start = draft.dice.between(0, max(size - 1, 0))
    stop = draft.dice.between(start, size) if draft.dice.chance(0.4) else size
    step = draft.dice.one_of((1, 1, 2, 3))
    layout = sliced(x.layout, dim, start, stop, step)
    end = "" if stop == size else str(stop - size if draft.dice.chance(0.4) else stop)
    shown = f"{start or ''}:{end}" + (f":{step}" if step > 1 else "")
    texts = [f"{x.name}[{':, ' * dim}{shown}]"]
    if dim == x.rank - 1:
        texts.append(f"{x.name}[..., {shown}]")
    if step == 1:
        texts.append(f"{x.name}.narrow({dim_text(draft, dim, x.rank)}, {start}, {stop - start})")
    draft.alias(draft.dice.one_of(texts), x, layout)


@ROWS.add("select", 4)
def _select(draft: Draft) -> None:
    x = _any(draft, 1, 6, 1)
    dim = draft.dice.below(x.rank)
    index = draft.dice.below(x.shape[dim])
    shown = index - x.shape[dim] if draft.dice.chance(0.4) else index
    texts = (f"{x.name}[{':, ' * dim}{shown}]", f"{x.name}.select({dim_text(draft, dim, x.rank)}, {shown})")
    draft.alias(draft.dice.one_of(texts), x, dropped(x.layout, dim, index))


@ROWS.add("expand", 4)
def _expand(draft: Draft) -> None:
    x = draft.take(lambda v: v.rank < 6 and v.numel <= MOST // 8)
    grown = [draft.dice.between(2, 4) if n == 1 and draft.dice.chance(0.8) else n for n in x.shape]
    front = [draft.dice.between(1, 3)] if x.rank < 5 and draft.dice.chance(0.5) else []
    shape = (*front, *grown)
    if prod(shape) > MOST or shape == x.shape:
        raise NoFit("grows too far or not at all")
    shown = [
        -1 if i >= len(front) and n == x.shape[i - len(front)] and draft.dice.chance(0.4) else n
        for i, n in enumerate(shape)
    ]
    texts = (f"{x.name}.expand({sizes(shown)})", f"torch.broadcast_to({x.name}, {text_of(shape)})")
    draft.alias(draft.dice.one_of(texts), x, expanded(x.layout, shape))


@ROWS.add("view", 6)
def _view(draft: Draft) -> None:
    x = _any(draft)
    shape = rearranged(draft.dice, x.numel)
    layout = viewed(x.layout, shape)
    shown = list(shape)
    if x.numel and draft.dice.chance(0.5):
        shown[draft.dice.below(len(shown))] = -1
    if layout is not None and draft.dice.chance(0.6):
        draft.alias(f"{x.name}.view({sizes(shown)})", x, layout)
    else:
        _reshaped(
            draft,
            x,
            shape,
            layout,
            draft.dice.one_of((f"{x.name}.reshape({sizes(shown)})", f"torch.reshape({x.name}, {text_of(shown)})")),
        )


def _reshaped(draft: Draft, x: Value, shape: Shape, layout: Layout | None, text: str) -> None:
    """A view where torch can make one; what may be a copy counts as one memory with ``x`` where strides are unknown."""
    if x.layout.strides is not None and layout is None:
        draft.emit(text, shape, x.dtype, x.span, [x], dense=True, saves=False, copied=True)
    else:
        draft.alias(text, x, layout or Layout(shape, None, 0, x.layout.overlap))


@ROWS.add("flatten", 3)
def _flatten(draft: Draft) -> None:
    x = _any(draft, 1)
    first = draft.dice.below(x.rank)
    last = draft.dice.between(first, x.rank - 1)
    shape = (*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :])
    texts = [
        f"{x.name}.flatten({dim_text(draft, first, x.rank)}, {dim_text(draft, last, x.rank)})",
        f"torch.flatten({x.name}, start_dim={first}, end_dim={last})",
    ]
    if (first, last) == (0, x.rank - 1):
        texts += [f"{x.name}.flatten()", f"{x.name}.ravel()"]
    text = draft.dice.one_of(texts)
    # ``ravel`` copies what is not contiguous, where a view might do.
    layout = None if text.endswith("ravel()") and not x.layout.contiguous else viewed(x.layout, shape)
    _reshaped(draft, x, shape, layout, text)


@ROWS.add("unflatten", 2)
def _unflatten(draft: Draft) -> None:
    x = draft.take(lambda v: 1 <= v.rank < 6 and any(n > 3 for n in v.shape))
    dim = draft.dice.one_of([d for d, n in enumerate(x.shape) if n > 3])
    parts = rearranged(draft.dice, x.shape[dim], 2)
    shape = (*x.shape[:dim], *parts, *x.shape[dim + 1 :])
    layout = viewed(x.layout, shape) or Layout(shape, None, 0, x.layout.overlap)
    shown = (-1, parts[1]) if draft.dice.chance(0.3) else parts
    draft.alias(f"{x.name}.unflatten({dim_text(draft, dim, x.rank)}, {shown})", x, layout)


@ROWS.add("diagonal", 3)
def _diagonal(draft: Draft) -> None:
    x = _any(draft, 2, 6, 1)
    i, j = draft.dice.shuffled(range(x.rank))[:2]
    offset = draft.dice.between(1 - x.shape[i], x.shape[j] - 1) if draft.dice.chance(0.5) else 0
    arguments = draft.dice.one_of(
        (
            f"{offset}, {dim_text(draft, i, x.rank)}, {dim_text(draft, j, x.rank)}",
            f"offset={offset}, dim1={i}, dim2={j}",
        )
    )
    draft.alias(
        draft.dice.one_of((f"{x.name}.diagonal({arguments})", f"torch.diagonal({x.name}, {arguments})")),
        x,
        diagonal(x.layout, offset, i, j),
    )


@ROWS.add("unfold", 2)
def _unfold(draft: Draft) -> None:
    x = _any(draft, 1, 5, 1)
    dim = draft.dice.below(x.rank)
    size = draft.dice.between(1, min(4, x.shape[dim]))
    step = draft.dice.between(1, 3)
    layout = unfolded(x.layout, dim, size, step)
    if prod(layout.shape) > MOST:
        raise NoFit("too many elements")
    draft.alias(f"{x.name}.unfold({dim_text(draft, dim, x.rank)}, {size}, {step})", x, layout)


@ROWS.add("as_strided", 3)
def _as_strided(draft: Draft) -> None:
    x = draft.take(
        lambda v: v.layout.contiguous and v.layout.offset == 0 and v.numel > 1 and not v.storage.leaf and not v.grad
    )
    room = x.numel - 1
    shape, strides = [], []
    for _ in range(draft.dice.between(1, 3)):
        step = draft.dice.one_of([s for s in (1, 2, 3, 5, 7) if s <= max(room, 1)])
        size = draft.dice.between(1, min(room // step + 1, 7))
        room -= (size - 1) * step
        shape.append(size)
        strides.append(step)
    offset = draft.dice.between(0, min(room, 3)) if room else 0
    seen = set()
    overlap = False
    for index in range(prod(shape)):
        at, rest = offset, index
        for size, step in zip(reversed(shape), reversed(strides), strict=True):
            at += rest % size * step
            rest //= size
        overlap |= at in seen
        seen.add(at)
    shown = f", {offset}" if offset else ""
    text = f"{x.name}.as_strided({text_of(shape)}, {text_of(strides)}{shown})"
    draft.alias(text, x, Layout(tuple(shape), tuple(strides), offset, overlap or x.layout.overlap))


@ROWS.add("split", 4)
def _split(draft: Draft) -> None:
    x = _any(draft, 1, 6, 1)
    dim = draft.dice.below(x.rank)
    size = x.shape[dim]
    where = dim_text(draft, dim, x.rank)
    kind = draft.dice.below(4)
    if kind == 0 and size <= 4:
        _parts(draft, x, dim, [1] * size, f"{x.name}.unbind({where})", drop=True)
        return
    if kind == 1:
        count = draft.dice.between(1, min(4, size))
        step = -(-size // count)
        lengths = [min(step, size - at) for at in range(0, size, step)]
        _parts(
            draft,
            x,
            dim,
            lengths,
            draft.dice.one_of((f"{x.name}.chunk({count}, {where})", f"torch.chunk({x.name}, {count}, dim={where})")),
        )
        return
    lengths = _lengths(draft, size)
    cuts = [sum(lengths[: i + 1]) for i in range(len(lengths) - 1)]
    texts = [f"{x.name}.split({lengths}, {where})", f"torch.split({x.name}, {lengths}, dim={where})"]
    if cuts:
        texts.append(f"torch.tensor_split({x.name}, {tuple(cuts)}, dim={where})")
    _parts(draft, x, dim, lengths, draft.dice.one_of(texts))


def _lengths(draft: Draft, size: int) -> list[int]:
    """Parts of a size, at most 3, of 0 now and then."""
    cuts = sorted(draft.dice.between(0, size) for _ in range(draft.dice.between(1, 2)))
    edges = [0, *cuts, size]
    return [b - a for a, b in pairwise(edges)]


def _parts(draft: Draft, x: Value, dim: int, lengths: list[int], text: str, drop: bool = False) -> None:
    made, at = [], 0
    for length in lengths:
        layout = sliced(x.layout, dim, at, at + length)
        made.append(Value("", x.dtype, dropped(layout, dim) if drop else layout, x.storage, True))
        at += length
    draft.several(text, made, [x])


@ROWS.add("view_dtype", 4)
def _view_dtype(draft: Draft) -> None:
    x = draft.take(
        lambda v: (
            v.dtype in ("float32", "float64", "int32", "int64", "float16", "bfloat16")
            and not v.grad
            and v.exact
            and not v.bits
        )
    )
    same = {4: ("int32",), 8: ("int64",), 2: ("int16",)}[ITEMSIZE[x.dtype]]
    dtype = draft.dice.one_of([d for d in (*same, "uint8") if d != x.dtype])
    if dtype != "uint8":
        draft.alias(f"{x.name}.view(torch.{dtype})", x, x.layout, dtype)
        return
    strides, factor = x.layout.strides, ITEMSIZE[x.dtype]
    if strides is None or not x.rank or strides[-1] != 1:
        raise NoFit("the last dimension is not dense")
    wide = tuple(s * factor for s in strides[:-1])
    layout = Layout((*x.shape[:-1], x.shape[-1] * factor), (*wide, 1), x.layout.offset * factor, x.layout.overlap)
    draft.alias(f"{x.name}.view(torch.uint8)", x, layout, "uint8")


@ROWS.add("view_as_real", 2)
def _view_as_real(draft: Draft) -> None:
    z = draft.take(lambda v: v.dtype in COMPLEX and v.rank < 6)
    strides = z.layout.strides
    layout = Layout(
        (*z.shape, 2),
        None if strides is None else (*(2 * s for s in strides), 1),
        2 * z.layout.offset,
        z.layout.overlap,
    )
    kind = draft.dice.below(3)
    part = PART[z.dtype]
    if kind == 0:
        draft.alias(f"torch.view_as_real({z.name})", z, layout, part)
    else:
        name = ("", "real", "imag")[kind]
        draft.alias(f"{z.name}.{name}", z, dropped(layout, z.rank, kind - 1), part)


@ROWS.add("view_as_complex", 2)
def _view_as_complex(draft: Draft) -> None:
    x = draft.take(
        lambda v: (
            v.dtype in ("float32", "float64")
            and v.layout.contiguous
            and v.rank > 0
            and v.shape[-1] == 2
            and v.layout.offset % 2 == 0
            and not v.bits
        )
    )
    dtype = "complex64" if x.dtype == "float32" else "complex128"
    draft.alias(f"torch.view_as_complex({x.name})", x, contiguous(x.shape[:-1]), dtype)


@ROWS.add("same_memory", 3)
def _same_memory(draft: Draft) -> None:
    x = _any(draft)
    name = x.name
    texts = [f"{name}[...]", f"{name}[:]" if x.rank else f"{name}[...]"]
    if not x.grad and x.layout.strides is not None:
        texts += [f"{name}.detach()", f"{name}.view_as({name})", f"{name}.expand_as({name})"]
    if x.dtype in (*NUMBERS, *COMPLEX):
        texts.append(f"{name}.positive()")
    draft.alias(draft.dice.one_of(texts), x, x.layout)


@ROWS.add("clone", 3)
def _clone(draft: Draft) -> None:
    x = _any(draft)
    kind = draft.dice.below(3)
    if kind == 2:
        # Of what is contiguous it is the tensor itself.
        dense = x.layout.contiguous
        if dense or x.layout.strides is None:
            draft.alias(
                f"{x.name}.contiguous()",
                x,
                contiguous(x.shape) if dense else Layout(x.shape, None, 0, x.layout.overlap),
            )
            return
        draft.emit(f"{x.name}.contiguous()", x.shape, x.dtype, x.span, [x], dense=True, saves=False, copied=True)
        return
    form = "memory_format=torch.contiguous_format" if kind else ""
    known = True if kind else None
    draft.emit(f"{x.name}.clone({form})", x.shape, x.dtype, x.span, [x], dense=known, saves=False, copied=True)
