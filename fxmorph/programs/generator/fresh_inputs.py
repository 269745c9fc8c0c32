"""Inputs as they are drawn: values by dtype and interval, layouts, pairs that share memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor, inf, isinf

from fxmorph.programs.generator.draft import Draft, Storage, Value
from fxmorph.programs.generator.promotion import COMPLEX, FLOATS, HALVES, sort_of
from fxmorph.programs.generator.shapes import Shape, draw_shape, sizes, text_of
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.strided import Layout, contiguous, dropped, expanded, permuted, sliced, viewed

NAMES = "xyzuvwabcdefgh"
#: Makes the expression of a tensor of a shape.
Filling = Callable[[Shape], str]

DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "int8", "uint8", "bool", "complex64")
DTYPE_WEIGHTS = (60, 7, 5, 7, 8, 3, 2, 2, 2, 4)
#: Dtypes of inputs beside those of the program's own.
OTHERS = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "complex64")


def any_input(draft: Draft, dtypes: tuple[str, ...] | None = None, rank: int | None = None, least: int = 1) -> Value:
    """A new input of a drawn shape; of one of ``dtypes``, the program's own where it is among them."""
    return given(draft, draw_shape(draft.dice, rank, least), own_dtype(draft, dtypes))


def own_dtype(draft: Draft, dtypes: tuple[str, ...] | None = None) -> str:
    """The program's dtype, or another one of those that are allowed."""
    allowed = dtypes or DTYPES
    if draft.dice.chance(draft.mood.mixed):
        return draft.dice.one_of([d for d in OTHERS if d in allowed] or list(allowed))
    if draft.mood.dtype in allowed:
        return draft.mood.dtype
    return "float32" if "float32" in allowed else draft.dice.one_of(allowed)


def given(draft: Draft, shape: Shape, dtype: str, lo: float = -inf, hi: float = inf, alone: bool = False) -> Value:
    """A new input with values from ``lo`` to ``hi``; on memory of its own where ``alone``."""
    fill, span, distinct = _filling(draft, dtype, lo, hi)
    return _input(draft, shape, dtype, fill, span, distinct, alone)


def _filling(draft: Draft, dtype: str, lo: float, hi: float) -> tuple[Filling, Span, bool]:
    keyword = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    if dtype == "bool":
        return lambda s: f"torch.rand({sizes(s)}) > 0.5", Span(0, 1, True, False), False
    if sort_of(dtype) == 1 or (dtype in FLOATS and draft.mood.whole and hi - lo >= 3):
        least, most = _whole_bounds(lo, hi, dtype)
        typed = "" if dtype == "int64" else f", dtype=torch.{dtype}"
        return (
            lambda s: f"torch.randint({least}, {most + 1}, {text_of(s)}{typed})",
            Span(least, most, True, False),
            False,
        )
    distinct = dtype not in HALVES and dtype not in COMPLEX
    if lo <= -6 and hi >= 6:
        return lambda s: f"torch.randn({sizes(s)}{keyword})", Span(-6, 6, False, False), distinct
    low, high = _inner_bounds(lo, hi)
    shift = f" + {low:g}" if low > 0 else f" - {-low:g}" if low < 0 else ""
    scale = f" * {high - low:g}" if abs(high - low - 1) > 1e-9 else ""
    return lambda s: f"torch.rand({sizes(s)}{keyword}){scale}{shift}", Span(low, high, False, False), distinct


def _inner_bounds(lo: float, hi: float) -> tuple[float, float]:
    """Bounds well inside of an interval."""
    low = min(-1.0, hi - 1) if isinf(lo) else lo
    high = max(1.0, low + 1) if isinf(hi) else hi
    if high - low >= 20:
        low, high = max(low, -2.0), max(low, -2.0) + 4
    else:
        low, high = low + (high - low) * 0.1, high - (high - low) * 0.1
    return round(low, 3), round(high, 3)


def _whole_bounds(lo: float, hi: float, dtype: str) -> tuple[int, int]:
    least = 0 if dtype == "uint8" else -4
    low = ceil(max(lo, least) if not isinf(lo) else min(least, hi - 4) if not isinf(hi) else least)
    high = floor(min(hi, low + 8))
    return low, max(low, high)


def indices(draft: Draft, shape: Shape, bound: int, dtype: str = "int64", alone: bool = False) -> Value:
    """A new input of whole numbers from 0 to ``bound - 1``."""
    keyword = "" if dtype == "int64" else f", dtype=torch.{dtype}"
    value = _input(
        draft, shape, dtype, lambda s: f"torch.randint(0, {bound}, {text_of(s)}{keyword})",
        Span(0, bound - 1, True, False), False, alone,
    )  # fmt: skip
    value.storage.kept = True
    return value


def permutation(draft: Draft, bound: int, count: int) -> Value:
    """A new input of ``count`` different whole numbers from 0 to ``bound - 1``."""
    text = f"torch.randperm({bound})" + (f"[:{count}]" if count < bound else "")
    value = _listed(draft, text, contiguous((count,)), "int64", Span(0, bound - 1, True, False), False)
    value.storage.kept = True
    return value


def permutations_along(draft: Draft, shape: Shape, dim: int, bound: int) -> Value:
    """A new input of indices, those along ``dim`` different from each other and below ``bound``."""
    full = (*shape[:dim], bound, *shape[dim + 1 :])
    cut = "" if bound == shape[dim] else f".narrow({dim}, 0, {shape[dim]})"
    text = f"torch.rand({sizes(full)}).argsort({dim}){cut}"
    value = _listed(draft, text, contiguous(full), "int64", Span(0, bound - 1, True, False), False, shape)
    value.storage.kept = True
    return value


def _input(draft: Draft, shape: Shape, dtype: str, fill: Filling, span: Span, distinct: bool, alone: bool) -> Value:
    shared = None if alone else _sharing(draft, shape, dtype, span)
    if shared is not None:
        return shared
    text, layout = fill(shape), contiguous(shape)
    if dtype != "bool" and draft.dice.chance(draft.mood.layouts):
        text, layout = _laid_out(draft, shape, fill)
    return _listed(draft, text, layout, dtype, span, distinct)


def _listed(
    draft: Draft, text: str, layout: Layout, dtype: str, span: Span, distinct: bool, shape: Shape | None = None
) -> Value:
    if len(draft.given) == len(NAMES):
        raise NoFit("no name is left")
    grad = draft.mood.grad and dtype in FLOATS and draft.dice.chance(0.75)
    if grad:
        text = f"{_in_brackets(text)}.requires_grad_()"
    name = NAMES[len(draft.given)]
    if shape is not None:
        layout = replace(layout, shape=shape)
    value = Value(name, dtype, layout, Storage(span, dtype, grad, grad, distinct=distinct, given=True))
    draft.given[name] = text
    draft.values.append(value)
    return value


def _sharing(draft: Draft, shape: Shape, dtype: str, span: Span) -> Value | None:
    """Now and then an input that is another one, or a part of its memory."""
    if draft.mood.grad or not draft.dice.chance(0.06):
        return None
    kin = [v for v in draft.values if v.name in draft.given and v.dtype == dtype and span.join(v.span)[:2] == span[:2]]
    same = [v for v in kin if v.shape == shape and not v.storage.written]
    if not same or len(draft.given) >= len(NAMES):
        return None
    other = draft.dice.one_of(same)
    text = draft.given[other.name]
    if not text.startswith("base"):
        base = f"base{len(draft.prepared)}"
        draft.prepared.append(f"{base} = {text}")
        draft.given[other.name] = text = base
    name = NAMES[len(draft.given)]
    layout = other.layout
    if layout.shape and draft.dice.chance(0.5):
        dims = draft.dice.shuffled(range(len(layout.shape)))
        turned = permuted(layout, dims)
        if turned.shape == layout.shape:
            layout, text = turned, f"{text}.permute({sizes(dims)})"
    draft.given[name] = text
    value = Value(name, dtype, layout, other.storage)
    draft.values.append(value)
    return value


def _laid_out(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout]:
    """An expression of the shape with strides or an offset of its own."""
    for make in draft.dice.shuffled((_turned, _stepped, _offset, _spread, _cut, _channels_last)):
        made = make(draft, shape, lambda s: _in_brackets(fill(s)))
        if made is not None:
            return made
    return fill(shape), contiguous(shape)


def _in_brackets(text: str) -> str:
    return f"({text})" if ") " in text else text


def _turned(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    if len(shape) < 2:
        return None
    dims = draft.dice.shuffled(range(len(shape)))
    base = tuple(shape[dims.index(d)] for d in range(len(shape)))
    text = f"{fill(base)}.t()" if dims == [1, 0] else f"{fill(base)}.permute({sizes(dims)})"
    return text, permuted(contiguous(base), dims)


def _stepped(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    if not shape:
        return None
    dim, step = draft.dice.below(len(shape)), draft.dice.between(2, 3)
    base = (*shape[:dim], shape[dim] * step, *shape[dim + 1 :])
    return f"{fill(base)}[{':, ' * dim}::{step}]", sliced(contiguous(base), dim, 0, base[dim], step)


def _cut(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    if not shape:
        return None
    dim, before, after = draft.dice.below(len(shape)), draft.dice.between(1, 2), draft.dice.between(0, 2)
    base = (*shape[:dim], before + shape[dim] + after, *shape[dim + 1 :])
    text = f"{fill(base)}[{':, ' * dim}{before}:{-after if after else ''}]"
    return text, sliced(contiguous(base), dim, before, before + shape[dim])


def _offset(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    start = draft.dice.between(1, 3)
    n = 1
    for size in shape:
        n *= size
    if not shape:
        return f"{fill((start + 2,))}[{start}]", dropped(contiguous((start + 2,)), 0, start)
    row = sliced(contiguous((n + start,)), 0, start, n + start)
    layout = viewed(row, shape)
    return None if layout is None else (f"{fill((n + start,))}[{start}:].view({sizes(shape)})", layout)


def _spread(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    wide = [d for d, size in enumerate(shape) if size > 1]
    if not wide:
        return None
    dim = draft.dice.one_of(wide)
    base = (*shape[:dim], 1, *shape[dim + 1 :])
    return f"{fill(base)}.expand({sizes(shape)})", expanded(contiguous(base), shape)


def _channels_last(draft: Draft, shape: Shape, fill: Filling) -> tuple[str, Layout] | None:
    if len(shape) != 4 or 0 in shape:
        return None
    _, c, h, w = shape
    text = f"{fill(shape)}.contiguous(memory_format=torch.channels_last)"
    # Strides of sizes of 1 are torch's own choice there.
    return text, Layout(shape, (c * h * w, 1, w * c, c) if min(c, h, w) > 1 else None)
