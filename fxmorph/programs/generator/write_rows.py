"""Writes: into values, into views of them, through lists of tensors; what is read later sees them."""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import number, operand, shaped
from fxmorph.programs.generator.promotion import ANY, FLOATS, NUMBERS, sort_of
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import Shape, sizes
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text
from fxmorph.programs.generator.strided import Layout, diagonal, dropped, permuted, sliced, viewed

WRITES: Rows = Rows()
LISTS: Rows = Rows()

ZERO = Span(0, 0, True, False)


def _target(draft: Draft, dtypes: tuple[str, ...] = ANY, low: int = 0, high: int = 5) -> Value:
    """A value that may be written; one that others read too is as good as any."""
    return draft.take(
        lambda v: v.dtype in dtypes and low <= v.rank <= high and draft.writable(v) and v.numel > 0,
        lambda: _made_writable(draft, operand(draft, dtypes, (low, high), 1)), 0.95,
    )  # fmt: skip


def _made_writable(draft: Draft, x: Value) -> Value:
    return x if draft.writable(x) else _copied(draft, x)


def _copied(draft: Draft, x: Value) -> Value:
    return draft.emit(f"{x.name}.clone()", x.shape, x.dtype, x.span, [x], saves=False)


def part(draft: Draft, x: Value) -> tuple[str, Layout]:
    """A view of ``x`` as an expression, with its layout."""
    ways: list[Callable[[Draft, Value], tuple[str, Layout]]] = []
    if x.rank:
        ways += [_row, _range, _range]
    if x.rank > 1:
        ways += [_turned, _diagonal]
    if viewed(x.layout, (x.numel,)):
        ways.append(_flat)
    if not ways:
        raise NoFit("no part")
    return draft.dice.one_of(ways)(draft, x)


def _row(draft: Draft, x: Value) -> tuple[str, Layout]:
    dim = draft.dice.below(x.rank)
    index = draft.dice.below(x.shape[dim])
    text = draft.dice.one_of((f"{x.name}[{':, ' * dim}{index}]", f"{x.name}.select({dim_text(draft, dim, x.rank)}, {index})"))
    return text, dropped(x.layout, dim, index)


def _range(draft: Draft, x: Value) -> tuple[str, Layout]:
    dim = draft.dice.below(x.rank)
    size = x.shape[dim]
    start, step = draft.dice.below(size), draft.dice.one_of((1, 1, 2))
    stop = draft.dice.between(start + 1, size)
    return f"{x.name}[{':, ' * dim}{start or ''}:{'' if stop == size else stop}{f':{step}' if step > 1 else ''}]", sliced(x.layout, dim, start, stop, step)


def _turned(draft: Draft, x: Value) -> tuple[str, Layout]:
    dims = draft.dice.shuffled(range(x.rank))
    return f"{x.name}.permute({', '.join(map(str, dims))})", permuted(x.layout, dims)


def _diagonal(draft: Draft, x: Value) -> tuple[str, Layout]:
    i, j = draft.dice.shuffled(range(x.rank))[:2]
    return f"{x.name}.diagonal(0, {i}, {j})", diagonal(x.layout, 0, i, j)


def _flat(draft: Draft, x: Value) -> tuple[str, Layout]:
    layout = viewed(x.layout, (x.numel,))
    assert layout is not None
    return f"{x.name}.view(-1)", layout


@WRITES.add("write_part", 10)
def _write_part(draft: Draft) -> None:
    """Into a part of a value, spelled as a slice assignment, a method of a view, or through a named view."""
    x = _target(draft, low=1)
    text, layout = part(draft, x)
    if draft.dice.chance(0.5) or x.one_of_many and draft.mood.grad:
        view = draft.alias(text, x, layout)
        text = view.name
    else:
        view = Value(x.name, x.dtype, layout, x.storage)
    _into(draft, view, text)
    draft.read.discard(x.name)


def _into(draft: Draft, view: Value, text: str) -> None:
    kind = draft.dice.below(8)
    constant, span = number(draft, view.dtype) if view.dtype in NUMBERS else ("1", Span(0, 1, True, False))
    if "." in constant and sort_of(view.dtype) == 1:
        raise NoFit("a fraction")
    assigned = "]" in text or text == view.name
    if kind < 2:
        source = _source(draft, view)
        written = draft.apart(source, view)
        slot = text if text.endswith("]") else f"{text}[...]"
        draft.write(f"{slot} = {written}" if assigned and kind else f"{text}.copy_({written})", view, source.span, [source], saves=False, named=0)
    elif kind == 2 and view.dtype != "bool" and view.dtype not in ("complex64", "complex128"):
        source = _source(draft, view)
        total = Span(view.span.lo + source.span.lo, view.span.hi + source.span.hi, view.span.whole and source.span.whole, True)
        draft.write(f"{text}.add_({draft.apart(source, view)})", view, total, [source], saves=False, named=0)
    elif kind == 3 and view.dtype in NUMBERS and view.dtype != "uint8":
        a = draft.dice.one_of(("2", "-1", "3"))
        ends = sorted((view.span.lo * int(a), view.span.hi * int(a)))
        draft.write(f"{text}.mul_({a})", view, Span(*ends, view.span.whole, view.span.rounded), [], saves=False, named=0)
    elif kind == 4 and view.dtype in FLOATS:
        name, low, high = draft.dice.one_of((("tanh", -1, 1), ("sigmoid", 0, 1), ("sin", -1, 1), ("cos", -1, 1)))
        draft.write(f"{text}.{name}_()", view, Span(low, high), [], named=0)
    elif kind == 5:
        draft.write(f"{text}.zero_()", view, ZERO, [], saves=False, named=0)
    else:
        slot = text if text.endswith("]") else f"{text}[...]"
        draft.write(f"{slot} = {constant}" if kind == 6 and assigned else f"{text}.fill_({constant})", view, span, [], saves=False, named=0)


def _source(draft: Draft, view: Value) -> Value:
    """What is written there: of its shape, or one that broadcasts to it; of another dtype now and then."""
    shape: Shape = view.shape if draft.dice.chance(0.7) or not view.shape else draft.dice.one_of((view.shape[1:], (1,) * len(view.shape), ()))
    if view.dtype in FLOATS and draft.dice.chance(0.15):
        other = draft.existing(lambda v: v.shape == shape and sort_of(v.dtype) < 3 and v.dtype != view.dtype and not v.bits)
        if other is not None:
            return other
    return shaped(draft, shape, view.dtype, reuse=0.75)


@WRITES.add("write_whole", 4)
def _write_whole(draft: Draft) -> None:
    _into_whole(draft, _target(draft))


def _into_whole(draft: Draft, x: Value) -> None:
    _into(draft, x, x.name)


@WRITES.add("write_base_then_read_view", 5)
def _write_base(draft: Draft) -> None:
    """A view is made, its base is written, the view is read."""
    x = _target(draft, (*NUMBERS, "complex64"), low=1)
    text, layout = part(draft, x)
    view = draft.alias(text, x, layout)
    _into_whole(draft, x)
    read = draft.dice.one_of((f"{view.name} + 1", f"{view.name}.clone()", f"{view.name} * 2", f"-{view.name}"))
    size = view.span.size * 2 + 1
    span = Span(view.span.lo - 1 if view.dtype != "uint8" else 0, size, view.span.whole, view.span.rounded)
    if view.dtype == "uint8" and read.startswith("-"):
        raise NoFit("wraps")
    draft.emit(read, view.shape, view.dtype, span._replace(lo=-size if view.dtype != "uint8" else 0), [view], saves=False)


@WRITES.add("clone_then_write", 4)
def _clone_then_write(draft: Draft) -> None:
    """A copy is written, what was copied is read: it must not change."""
    x = operand(draft, (*FLOATS, "int64", "int32"), (0, 4), 1)
    copy = _copied(draft, x)
    _into_whole(draft, copy)
    draft.emit(f"{x.name} + {copy.name}", x.shape, x.dtype, Span(x.span.lo + copy.span.lo, x.span.hi + copy.span.hi, x.span.whole and copy.span.whole, True), [x, copy], saves=False)


@WRITES.add("write_dtype_view", 3)
def _write_dtype_view(draft: Draft) -> None:
    """Zeros written through a view under another dtype, or bits changed there and read as numbers."""
    x = _target(draft, ("float32", "float64"))
    if x.grad or draft.mood.grad or not x.exact:
        raise NoFit("rounded")
    whole = "int32" if x.dtype == "float32" else "int64"
    bits = draft.alias(f"{x.name}.view(torch.{whole})", x, x.layout, whole)
    mask = "0x7FFFFFFF" if whole == "int32" else "0x7FFFFFFFFFFFFFFF"
    if draft.dice.chance(0.5):
        draft.lines.append(draft.dice.one_of((f"{bits.name} &= {mask}", f"{bits.name}.bitwise_and_({mask})")))
        x.storage.span = Span(0, x.span.size, x.span.whole, x.span.rounded).join(x.span)
    else:
        index = "" if not x.rank else f"[{draft.dice.below(x.shape[0])}]"
        draft.lines.append(f"{bits.name}{index}.zero_()")
        x.storage.span = x.span.join(ZERO)
    x.storage.written, x.storage.distinct = True, False
    draft.read.add(bits.name)
    draft.read.discard(x.name)


@WRITES.add("zeros_filled", 4)
def _zeros_filled(draft: Draft) -> None:
    """Zeros of which parts are written: what exporters and KV caches do."""
    x = operand(draft, (*NUMBERS, "complex64"), (1, 3), 1)
    dim = draft.dice.below(x.rank)
    more = draft.dice.between(1, 3)
    shape = (*x.shape[:dim], x.shape[dim] + more, *x.shape[dim + 1 :])
    typed = "" if x.dtype == "float32" else f", dtype=torch.{x.dtype}"
    kept = draft.emit(f"torch.zeros({sizes(shape)}{typed})", shape, x.dtype, ZERO, [], dense=True)
    at = draft.dice.between(0, more)
    view = Value(kept.name, x.dtype, sliced(kept.layout, dim, at, at + x.shape[dim]), kept.storage)
    text = f"{kept.name}[{':, ' * dim}{at}:{at + x.shape[dim]}]"
    text = draft.dice.one_of((f"{text} = {x.name}", f"{text}.copy_({x.name})", f"{text} += {x.name}"))
    draft.write(text, view, x.span, [x], saves=False, named=0)


@WRITES.add("swap", 2)
def _swap(draft: Draft) -> None:
    """Two parts of one value change places."""
    x = _target(draft, low=1)
    if x.shape[0] < 2:
        raise NoFit("one row")
    i, j = draft.dice.some_of(range(x.shape[0]), 2)
    row = Value("", x.dtype, dropped(x.layout, 0, i), x.storage)
    text = draft.dice.one_of(
        (
            f"{x.name}[{i}], {x.name}[{j}] = {x.name}[{j}].clone(), {x.name}[{i}].clone()",
            f"{x.name}[[{i}, {j}]] = {x.name}[[{j}, {i}]]",
        )
    )
    draft.write(text, row, x.span, [], saves=False, named=0)
    draft.read.discard(x.name)


@LISTS.add("foreach", 6)
def _foreach(draft: Draft) -> None:
    """A function of lists of tensors, in place mostly."""
    x = _target(draft, ("float32", "float64", "bfloat16"))
    y = draft.existing(lambda v: v.dtype == x.dtype and v.storage is not x.storage and draft.writable(v) and not v.bits and v.numel > 0)
    if y is None:
        y = _other(draft, x)
    name, arguments, image = draft.dice.one_of(_FOREACH)
    whole = name in ("add", "mul", "neg", "maximum", "sub") and "." not in arguments
    spans = [Span(*image(v.span.lo, v.span.hi), v.span.whole and whole, v.span.rounded or not (whole and v.span.whole)) for v in (x, y)]
    names = f"[{x.name}, {y.name}]"
    behind = f", {arguments}" if arguments else ""
    if draft.dice.chance(0.6):
        _write_both(draft, f"torch._foreach_{name}_({names}{behind})", x, y, spans)
    else:
        made = [draft.tensor(v.shape, v.dtype, span, [x, y]) for v, span in zip((x, y), spans, strict=True)]
        draft.several(f"torch._foreach_{name}({names}{behind})", made, [x, y])


def _write_both(draft: Draft, text: str, x: Value, y: Value, spans: list[Span], read: tuple[Value, ...] = ()) -> None:
    draft.write(text, x, spans[0], read, named=0)
    draft.lines.pop()
    draft.write(text, y, spans[1], read, named=0)


_FOREACH: tuple[tuple[str, str, Callable[[float, float], tuple[float, float]]], ...] = (
    ("add", "1", lambda lo, hi: (lo + 1, hi + 1)), ("add", "0.5", lambda lo, hi: (lo + 0.5, hi + 0.5)),
    ("mul", "2", lambda lo, hi: (2 * lo, 2 * hi)), ("mul", "[0.5, -1.0]", lambda lo, hi: (-max(-lo, hi), max(-lo, hi))),
    ("sub", "2", lambda lo, hi: (lo - 2, hi - 2)), ("div", "4", lambda lo, hi: (lo / 4, hi / 4)),
    ("neg", "", lambda lo, hi: (-hi, -lo)), ("sin", "", lambda lo, hi: (-1, 1)), ("sigmoid", "", lambda lo, hi: (0, 1)),
    ("tanh", "", lambda lo, hi: (-1, 1)), ("abs", "", lambda lo, hi: (0, max(abs(lo), abs(hi)))),
    ("clamp_min", "-0.5", lambda lo, hi: (max(lo, -0.5), max(hi, -0.5))), ("clamp_max", "1.5", lambda lo, hi: (min(lo, 1.5), min(hi, 1.5))),
)  # fmt: skip


def _other(draft: Draft, x: Value) -> Value:
    shape = draft.dice.one_of((x.shape, (3,), (2, 5)))
    other = shaped(draft, shape, x.dtype, reuse=0.3, apart=x)
    return _made_writable(draft, other)


@LISTS.add("foreach_pair", 3)
def _foreach_pair(draft: Draft) -> None:
    """A function of two lists: parameters and their updates."""
    x = _target(draft, ("float32", "float64"))
    y = _other(draft, x)
    if y.storage is x.storage:
        raise NoFit("one memory")
    a, b = shaped(draft, x.shape, x.dtype, apart=x), shaped(draft, y.shape, y.dtype, apart=y)
    if any(v.storage in (x.storage, y.storage) or v.grad for v in (a, b)) or x.grad or y.grad:
        raise NoFit("one memory")
    name, more = draft.dice.one_of((("add", ", alpha=-0.5"), ("sub", ""), ("mul", ""), ("lerp", ", 0.25"), ("maximum", "")))
    size = [u.span.size * v.span.size + u.span.size + v.span.size for u, v in ((x, a), (y, b))]
    spans = [Span(-s, s) for s in size]
    _write_both(draft, f"torch._foreach_{name}_([{x.name}, {y.name}], [{a.name}, {b.name}]{more})", x, y, spans, (a, b))


@LISTS.add("optimiser_step", 4)
def _optimiser_step(draft: Draft) -> None:
    """A step of an optimiser: parameter and state are written."""
    p = _target(draft, ("float32",), 1, 3)
    g = shaped(draft, p.shape, p.dtype, -12, 12, apart=p)
    m = shaped(draft, p.shape, p.dtype, -12, 12, apart=p)
    if g.grad or m.grad or p.grad or draft.mood.grad or m.storage in (g.storage, p.storage) or g.storage is p.storage or not draft.writable(m):
        raise NoFit("one memory")
    kind = draft.dice.below(3)
    draft.write(draft.dice.one_of((f"{m.name}.mul_(0.9).add_({g.name}, alpha=0.1)", f"{m.name}.lerp_({g.name}, 0.1)")), m, m.span.join(g.span)._replace(whole=False, rounded=True), [g], named=0)
    span = Span(p.span.lo - 12, p.span.hi + 12)
    if kind == 0:
        draft.write(f"{p.name}.add_({m.name}, alpha=-0.5)", p, span, [m], named=0)
    elif kind == 1:
        draft.write(f"{p.name}.sub_(0.1 * ({m.name} + 0.01 * {p.name}))", p, span, [m], named=0)
    else:
        v = shaped(draft, p.shape, p.dtype, 0.1, 200, reuse=0.3, apart=p)
        if v.storage in (g.storage, m.storage) or not draft.writable(v):
            raise NoFit("one memory")
        draft.write(f"{v.name}.mul_(0.99).addcmul_({g.name}, {g.name}, value=0.01)", v, Span(0.05, 300), [g], named=0)
        draft.write(f"{p.name}.addcdiv_({m.name}, {v.name}.sqrt().add_(0.5), value=-0.25)", p, span, [m, v], named=0)
