"""Layers: convolutions, pooling, norms, resizing.  Sizes are solved so that each window has a place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import guarded, operand, shaped
from fxmorph.programs.generator.product_rows import product
from fxmorph.programs.generator.promotion import FLOATS
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import MOST, Shape
from fxmorph.programs.generator.spans import NoFit, Span

LAYERS: Rows = Rows()
NORMS: Rows = Rows()


def tuple_text(draft: Draft, numbers: list[int]) -> str:
    """The numbers as one where they are equal, else as a tuple."""
    return str(numbers[0]) if len(set(numbers)) == 1 and draft.dice.chance(0.6) else str(tuple(numbers))


@dataclass(frozen=True)
class Window:
    """How a window moves along the spatial dimensions."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    def out(self, sizes: Shape, ceil: bool = False) -> Shape:
        """Places of the window; a last one that begins in the padding on the right does not count."""
        made = []
        for n, k, s, p, d in zip(sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True):
            room = n + 2 * p - d * (k - 1) - 1
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= n + p:
                count -= 1
            made.append(count)
        return tuple(made)


def window(draft: Draft, sizes: Shape, largest: int = 3, dilates: bool = True, half: bool = False) -> Window:
    """A window that fits at least once; its padding is at most half of it where ``half``."""
    kernel, stride, padding, dilation = [], [], [], []
    for n in sizes:
        p = draft.dice.one_of((0, 0, 1, 2))
        d = draft.dice.one_of((1, 1, 1, 2)) if dilates else 1
        k = draft.dice.between(1, largest)
        while k > 1 and n + 2 * p < d * (k - 1) + 1:
            k -= 1
        p = min(p, k // 2) if half else p
        while n + 2 * p < d * (k - 1) + 1 and k > 1:
            k -= 1
            p = min(p, k // 2) if half else p
        kernel.append(k)
        stride.append(draft.dice.one_of((1, 1, 2, 3)))
        padding.append(p)
        dilation.append(d if k > 1 else 1)
    return Window(kernel, stride, padding, dilation)


def _spatial(draft: Draft, dims: int, dtypes: tuple[str, ...], alone: bool = True) -> Value:
    """A value of batch, channels and ``dims`` more; without a batch now and then where ``alone``."""
    return operand(draft, dtypes, (dims + 1 if alone else dims + 2, dims + 2), 1)


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
        shape = (*front, out, *(sizes if padding == "'same'" else Window(w.kernel, w.stride, [0] * dims, w.dilation).out(sizes)))
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
    extra = [draft.dice.between(0, max(s, d) - 1) if draft.dice.chance(0.4) else 0 for s, d in zip(stride, dilation, strict=True)]
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
    for name, numbers, default in (("stride", stride, 1), ("padding", padding, 0), ("output_padding", extra, 0), ("dilation", dilation, 1)):
        if set(numbers) != {default}:
            arguments.append(f"{name}={tuple_text(draft, numbers)}")
    if groups > 1:
        arguments.append(f"groups={groups}")
    draft.emit(f"F.conv_transpose{dims}d({', '.join(arguments)})", (*front, per_group * groups, *spatial), x.dtype, span, parts, dense=False)


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
    if not x.exact or x.grad and not x.distinct:
        raise NoFit("ties")
    if dims == 3 and not x.layout.contiguous:
        raise NoFit("eager takes strides for channels that come last")
    w = window(draft, x.shape[-dims:], half=True)
    if set(w.dilation) != {1}:
        # A window that steps over a small input may hold nothing but padding.
        w = Window(w.kernel, w.stride, [0] * dims, [d if n > d * (k - 1) else 1 for n, k, d in zip(x.shape[-dims:], w.kernel, w.dilation, strict=True)])
        if min(w.out(x.shape[-dims:])) < 1:
            raise NoFit("no place for the window")
    ceil = draft.dice.chance(0.35)
    shape = (*x.shape[:-dims], *w.out(x.shape[-dims:], ceil))
    arguments = [x.name, *_window_text(draft, w, True), *(["ceil_mode=True"] if ceil else [])]
    if draft.dice.chance(0.25):
        made = [draft.tensor(shape, x.dtype, x.span, [x]), draft.tensor(shape, "int64", Span(0, prod(x.shape[-dims:]) - 1, True, False), [x])]
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
    if name == "max" and (not x.exact or x.grad and not x.distinct):
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
    LAYERS += [
        Row(f"conv{_dims}d", partial(draw_conv, _dims), 1.5 * _weight), Row(f"max_pool{_dims}d", partial(draw_max_pool, _dims), _weight),
        Row(f"conv_transpose{_dims}d", partial(draw_conv_transpose, _dims), _weight), Row(f"avg_pool{_dims}d", partial(draw_avg_pool, _dims), _weight),
        Row(f"adaptive_pool{_dims}d", partial(draw_adaptive_pool, _dims), _weight), Row(f"lp_pool{_dims}d", partial(draw_lp_pool, _dims), _weight / 2),
    ]  # fmt: skip


@LAYERS.add("unfold_windows", 2)
def _unfold_windows(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (4, 4), 1)
    w = window(draft, x.shape[-2:], largest=2)
    places = w.out(x.shape[-2:])
    shape = (x.shape[0], x.shape[1] * prod(w.kernel), prod(places))
    more = [f"{n}={tuple_text(draft, v)}" for n, v, d in (("dilation", w.dilation, 1), ("padding", w.padding, 0), ("stride", w.stride, 1)) if set(v) != {d}]
    columns = draft.emit(f"F.unfold({', '.join([x.name, str(tuple(w.kernel)), *more])})", shape, x.dtype, x.span.join(Span(0, 0, True, False)), [x], dense=False)
    if draft.dice.chance(0.5):
        size = columns.span.size * prod(w.kernel)
        draft.emit(f"F.fold({', '.join([columns.name, str(x.shape[-2:]), str(tuple(w.kernel)), *more])})", x.shape, x.dtype, Span(-size, size, columns.span.whole), [columns], dense=False)


@LAYERS.add("interpolate", 5)
def _interpolate(draft: Draft) -> None:
    mode, dims = draft.dice.one_of((("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("area", 2), ("nearest-exact", 2)))
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
    aligned = draft.dice.one_of(("", ", align_corners=True", ", align_corners=False")) if "linear" in mode or mode == "bicubic" else ""
    size = x.span.size * (3 if mode == "bicubic" else 1)
    draft.emit(f"F.interpolate({x.name}, {arguments[0]}, mode='{mode}'{aligned})", (*x.shape[:2], *sizes), x.dtype, Span(-size, size), [x], dense=False)


@LAYERS.add("grid_sample", 1)
def _grid_sample(draft: Draft) -> None:
    x = operand(draft, ("float32",), (4, 4), 1)
    grid = guarded(draft, shaped(draft, (x.shape[0], 3, 2, 2), "float32", -0.9, 0.9), -0.9, 0.9)
    padding = draft.dice.one_of(("zeros", "border", "reflection"))
    draft.emit(f"F.grid_sample({x.name}, {grid.name}, padding_mode='{padding}', align_corners={draft.dice.chance(0.5)})", (*x.shape[:2], 3, 2), x.dtype, x.span.join(Span(0, 0)), [x, grid], dense=False)


@NORMS.add("layer_norm", 5)
def _layer_norm(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 5), 1)
    count = draft.dice.between(1, min(2, x.rank))
    shape = x.shape[-count:]
    n = prod(shape)
    name = draft.dice.one_of(("layer_norm", "layer_norm", "rms_norm"))
    parts, arguments = [x], [x.name, str(shape)]
    size = 2 * n**0.5
    if draft.dice.chance(0.6):
        w = shaped(draft, shape, x.dtype)
        parts, arguments, size = [*parts, w], [*arguments, f"weight={w.name}"], size * w.span.size
        if name == "layer_norm" and draft.dice.chance(0.7):
            b = shaped(draft, shape, x.dtype)
            parts, arguments, size = [*parts, b], [*arguments, f"bias={b.name}"], size + b.span.size
    arguments += [draft.dice.one_of(("eps=0.1", "eps=1e-2"))] if name == "rms_norm" or draft.dice.chance(0.5) else []
    _steady(x, n)
    draft.emit(f"F.{name}({', '.join(arguments)})", x.shape, x.dtype, Span(-size, size), parts)


def _steady(x: Value, n: int) -> None:
    """Norms of what may be constant divide by nearly nothing: only random numbers, and several, are normed."""
    if not x.storage.distinct or x.layout.overlap or n < 2:
        raise NoFit("may be constant")


@NORMS.add("group_norm", 4)
def _group_norm(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 5), 1)
    channels = x.shape[1]
    groups = draft.dice.one_of([g for g in (1, 2, 3, 4, 5, channels) if channels % g == 0])
    n = prod(x.shape[1:]) // groups
    _steady(x, n)
    parts, arguments, size = [x], [x.name, str(groups)], 2 * n**0.5
    if draft.dice.chance(0.6):
        w, b = shaped(draft, (channels,), x.dtype), shaped(draft, (channels,), x.dtype)
        parts, arguments, size = [x, w, b], [*arguments, w.name, b.name], size * w.span.size + b.span.size
    draft.emit(f"F.group_norm({', '.join(arguments)})", x.shape, x.dtype, Span(-size, size), parts, dense=False)


@NORMS.add("batch_norm", 4)
def _batch_norm(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 5), 1)
    channels = x.shape[1]
    n = x.numel // channels
    training = draft.dice.chance(0.5)
    mean = shaped(draft, (channels,), x.dtype, apart=x)
    var = shaped(draft, (channels,), x.dtype, 0.4, 6, apart=mean)
    if mean.grad or var.grad or mean.storage.saved or var.storage.saved or var.storage is x.storage:
        raise NoFit("running statistics take no gradient")
    if training:
        _steady(x, n)
        if not (draft.writable(mean) and draft.writable(var)):
            raise NoFit("running statistics are written")
    parts, arguments = [x, mean, var], [x.name, mean.name, var.name]
    size = 2 * n**0.5 if training else (x.span.size + mean.span.size) * 2
    if draft.dice.chance(0.6):
        w, b = shaped(draft, (channels,), x.dtype), shaped(draft, (channels,), x.dtype)
        if any(v.storage is s.storage for v in (w, b) for s in (mean, var)):
            raise NoFit("written while it is read")
        parts, arguments, size = [*parts, w, b], [*arguments, w.name, b.name], size * w.span.size + b.span.size
    arguments += [f"training={training}"] if training or draft.dice.chance(0.5) else []
    arguments += ["momentum=0.25"] if training and draft.dice.chance(0.5) else []
    draft.emit(f"F.batch_norm({', '.join(arguments)})", x.shape, x.dtype, Span(-size, size), parts, dense=False)
    if training:
        for kept, span in ((mean, mean.span.join(x.span)), (var, Span(0.2, max(6.0, 4 * x.span.size**2)))):
            kept.storage.span = kept.storage.span.join(span)._replace(whole=False, rounded=True)
            kept.storage.written, kept.storage.distinct = True, False


@NORMS.add("instance_norm", 2)
def _instance_norm(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (3, 5), 1)
    n = prod(x.shape[2:])
    _steady(x, n)
    size = 2 * n**0.5
    draft.emit(f"F.instance_norm({x.name}{draft.dice.one_of(('', ', eps=1e-2'))})", x.shape, x.dtype, Span(-size, size), [x], dense=False)


@NORMS.add("local_response_norm", 1)
def _local_response_norm(draft: Draft) -> None:
    x = operand(draft, ("float32",), (3, 4), 1)
    draft.emit(f"F.local_response_norm({x.name}, {draft.dice.between(1, 3)})", x.shape, x.dtype, x.span._replace(whole=False, rounded=True), [x], dense=False)


@NORMS.add("prelu", 2)
def _prelu(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 4), 1)
    w = shaped(draft, draft.dice.one_of(((1,), (x.shape[1],))), x.dtype)
    size = x.span.size * max(1, w.span.size)
    draft.emit(f"F.prelu({x.name}, {w.name})", x.shape, x.dtype, Span(-size, size), [x, w])


@NORMS.add("glu", 2)
def _glu(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 5), 1)
    even = [d for d, n in enumerate(x.shape) if n % 2 == 0]
    if not even:
        raise NoFit("no even size")
    dim = draft.dice.one_of(even)
    shape = (*x.shape[:dim], x.shape[dim] // 2, *x.shape[dim + 1 :])
    draft.emit(f"F.glu({x.name}, dim={dim})", shape, x.dtype, x.span._replace(whole=False, rounded=True).join(Span(0, 0)), [x], dense=False)
