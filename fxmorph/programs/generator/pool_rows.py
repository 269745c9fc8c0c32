"""Pooling, resizing."""

from __future__ import annotations

from functools import partial
from math import prod

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.operands import guarded, operand, shaped
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.windows import Window, _spatial, tuple_text, window

ROWS = Rows()


def _window_text(draft: Draft, w: Window, dilates: bool) -> list[str]:
    arguments = [tuple_text(draft, w.kernel)]
    if w.stride != w.kernel or draft.dice.chance(0.5):
        arguments.append(f"{'stride=' if draft.dice.chance(0.5) else ''}{tuple_text(draft, w.stride)}")
    if any(w.padding):
        arguments.append(f"padding={tuple_text(draft, w.padding)}")
    if dilates and set(w.dilation) != {1}:
        arguments.append(f"dilation={tuple_text(draft, w.dilation)}")
    return arguments


def draw_max_pool(dims: int, draft: Draft) -> None:
    x = _spatial(draft, dims, ("float32", "float64", "bfloat16"))
    if not x.exact or (x.grad and not x.distinct):
        raise NoFit("ties")
    if dims == 3 and not x.layout.contiguous:
        raise NoFit("eager takes strides for channels that come last")
    w = window(draft, x.shape[-dims:], half=True)
    if set(w.dilation) != {1}:
        # A window that steps over a small input may hold nothing but padding.
        w = Window(
            w.kernel,
            w.stride,
            [0] * dims,
            [d if n > d * (k - 1) else 1 for n, k, d in zip(x.shape[-dims:], w.kernel, w.dilation, strict=True)],
        )
        if min(w.out(x.shape[-dims:])) < 1:
            raise NoFit("no place for the window")
    ceil = draft.dice.chance(0.35)
    shape = (*x.shape[:-dims], *w.out(x.shape[-dims:], ceil))
    arguments = [x.name, *_window_text(draft, w, True), *(["ceil_mode=True"] if ceil else [])]
    if draft.dice.chance(0.25):
        made = [
            draft.tensor(shape, x.dtype, x.span, [x]),
            draft.tensor(shape, "int64", Span(0, prod(x.shape[-dims:]) - 1, True, False), [x]),
        ]
        draft.several(f"F.max_pool{dims}d({', '.join(arguments)}, return_indices=True)", made, [x])
    else:
        draft.emit(f"F.max_pool{dims}d({', '.join(arguments)})", shape, x.dtype, x.span, [x], dense=False)


def draw_avg_pool(dims: int, draft: Draft) -> None:
    x = _spatial(draft, dims, ("float32", "float64"))
    w = window(draft, x.shape[-dims:], dilates=False, half=True)
    if dims == 3 and any(k > n for n, k in zip(x.shape[-3:], w.kernel, strict=True)):
        raise NoFit("eager wants the window to fit without padding")
    ceil = draft.dice.chance(0.4)
    shape = (*x.shape[:-dims], *w.out(x.shape[-dims:], ceil))
    arguments = [x.name, *_window_text(draft, w, False), *(["ceil_mode=True"] if ceil else [])]
    if draft.dice.chance(0.4):
        arguments.append(f"count_include_pad={draft.dice.chance(0.3)}")
    size = x.span.size
    if dims > 1 and draft.dice.chance(0.25):
        divisor = draft.dice.between(1, 5)
        arguments.append(f"divisor_override={divisor}")
        size *= prod(w.kernel)
    draft.emit(f"F.avg_pool{dims}d({', '.join(arguments)})", shape, x.dtype, Span(-size, size), [x], dense=False)


def draw_adaptive_pool(dims: int, draft: Draft) -> None:
    name = draft.dice.one_of(("avg", "avg", "max"))
    x = _spatial(draft, dims, ("float32", "float64"))
    if name == "max" and (not x.exact or (x.grad and not x.distinct)):
        raise NoFit("ties")
    sizes = [draft.dice.between(1, min(n + 1, 5)) for n in x.shape[-dims:]]
    text = f"F.adaptive_{name}_pool{dims}d({x.name}, {tuple_text(draft, sizes)})"
    draft.emit(text, (*x.shape[:-dims], *sizes), x.dtype, x.span._replace(whole=False, rounded=True), [x], dense=False)


def draw_lp_pool(dims: int, draft: Draft) -> None:
    x = guarded(draft, _spatial(draft, dims, ("float32",)), 0.1, 50)
    w = window(draft, x.shape[-dims:], dilates=False)
    w = Window(w.kernel, w.stride, [0] * dims, w.dilation)
    shape = (*x.shape[:-dims], *w.out(x.shape[-dims:]))
    if min(shape[-dims:]) < 1:
        raise NoFit("no place for the window")
    norm = draft.dice.one_of(("1", "2", "3.0"))
    kernel, stride = (str(n[0]) if dims == 1 else tuple_text(draft, n) for n in (w.kernel, w.stride))
    text = f"F.lp_pool{dims}d({x.name}, {norm}, {kernel}, stride={stride})"
    draft.emit(text, shape, x.dtype, Span(0, x.span.size * prod(w.kernel)), [x], dense=False)


for _dims, _weight in ((1, 2.0), (2, 3.0), (3, 1.0)):
    ROWS.append(Row(f"max_pool{_dims}d", partial(draw_max_pool, _dims), _weight))
    ROWS.append(Row(f"avg_pool{_dims}d", partial(draw_avg_pool, _dims), _weight))
    ROWS.append(Row(f"adaptive_pool{_dims}d", partial(draw_adaptive_pool, _dims), _weight))
    ROWS.append(Row(f"lp_pool{_dims}d", partial(draw_lp_pool, _dims), _weight / 2))


@ROWS.add("unfold_windows", 2)
def _unfold_windows(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (4, 4), 1)
    w = window(draft, x.shape[-2:], largest=2)
    places = w.out(x.shape[-2:])
    shape = (x.shape[0], x.shape[1] * prod(w.kernel), prod(places))
    more = [
        f"{n}={tuple_text(draft, v)}"
        for n, v, d in (("dilation", w.dilation, 1), ("padding", w.padding, 0), ("stride", w.stride, 1))
        if set(v) != {d}
    ]
    columns = draft.emit(
        f"F.unfold({', '.join([x.name, str(tuple(w.kernel)), *more])})",
        shape,
        x.dtype,
        x.span.join(Span(0, 0, True, False)),
        [x],
        dense=False,
    )
    if draft.dice.chance(0.5):
        size = columns.span.size * prod(w.kernel)
        draft.emit(
            f"F.fold({', '.join([columns.name, str(x.shape[-2:]), str(tuple(w.kernel)), *more])})",
            x.shape,
            x.dtype,
            Span(-size, size, columns.span.whole),
            [columns],
            dense=False,
        )


@ROWS.add("interpolate", 5)
def _interpolate(draft: Draft) -> None:
    mode, dims = draft.dice.one_of(
        (
            ("nearest", 1),
            ("nearest", 2),
            ("nearest", 3),
            ("linear", 1),
            ("bilinear", 2),
            ("bicubic", 2),
            ("trilinear", 3),
            ("area", 2),
            ("nearest-exact", 2),
        )
    )
    x = _spatial(draft, dims, ("float32", "float64"), alone=False)
    if draft.dice.chance(0.5):
        sizes = tuple(draft.dice.between(1, 9) for _ in range(dims))
        arguments = [f"size={tuple_text(draft, list(sizes))}"]
    else:
        factor = draft.dice.one_of((2, 3, 0.5, 1.5))
        sizes = tuple(int(n * factor) for n in x.shape[-dims:])
        arguments = [f"scale_factor={factor}"]
    if min(sizes) < 1:
        raise NoFit("an empty picture")
    aligned = (
        draft.dice.one_of(("", ", align_corners=True", ", align_corners=False"))
        if "linear" in mode or mode == "bicubic"
        else ""
    )
    size = x.span.size * (3 if mode == "bicubic" else 1)
    draft.emit(
        f"F.interpolate({x.name}, {arguments[0]}, mode='{mode}'{aligned})",
        (*x.shape[:2], *sizes),
        x.dtype,
        Span(-size, size),
        [x],
        dense=False,
    )


@ROWS.add("grid_sample", 1)
def _grid_sample(draft: Draft) -> None:
    x = operand(draft, ("float32",), (4, 4), 1)
    grid = guarded(draft, shaped(draft, (x.shape[0], 3, 2, 2), "float32", -0.9, 0.9), -0.9, 0.9)
    padding = draft.dice.one_of(("zeros", "border", "reflection"))
    draft.emit(
        f"F.grid_sample({x.name}, {grid.name}, padding_mode='{padding}', align_corners={draft.dice.chance(0.5)})",
        (*x.shape[:2], 3, 2),
        x.dtype,
        x.span.join(Span(0, 0)),
        [x, grid],
        dense=False,
    )
