"""Writes into values and views of them; what is read later sees them."""

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

ROWS = Rows()


ZERO = Span(0, 0, True, False)


def _target(draft: Draft, dtypes: tuple[str, ...] = ANY, low: int = 0, high: int = 5) -> Value:
    """A value that may be written; one that others read too is as good as any."""
    return draft.take(
        lambda v: v.dtype in dtypes and low <= v.rank <= high and draft.writable(v) and v.numel > 0,
        lambda: _made_writable(draft, operand(draft, dtypes, (low, high), 1)),
        0.95,
    )


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
    text = draft.dice.one_of(
        (f"{x.name}[{':, ' * dim}{index}]", f"{x.name}.select({dim_text(draft, dim, x.rank)}, {index})")
    )
    return text, dropped(x.layout, dim, index)


def _range(draft: Draft, x: Value) -> tuple[str, Layout]:
    dim = draft.dice.below(x.rank)
    size = x.shape[dim]
    start, step = draft.dice.below(size), draft.dice.one_of((1, 1, 2))
    stop = draft.dice.between(start + 1, size)
    return (
        f"{x.name}[{':, ' * dim}{start or ''}:{'' if stop == size else stop}{f':{step}' if step > 1 else ''}]",
        sliced(x.layout, dim, start, stop, step),
    )


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


@ROWS.add("write_part", 10)
def _write_part(draft: Draft) -> None:
    """Into a part of a value, spelled as a slice assignment, a method of a view, or through a named view."""
    x = _target(draft, low=1)
    text, layout = part(draft, x)
    if draft.dice.chance(0.5) or (x.one_of_many and draft.mood.grad):
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
        draft.write(
            f"{slot} = {written}" if assigned and kind else f"{text}.copy_({written})",
            view,
            source.span,
            [source],
            saves=False,
            named=0,
        )
    elif kind == 2 and view.dtype != "bool" and view.dtype not in ("complex64", "complex128"):
        source = _source(draft, view)
        total = Span(
            view.span.lo + source.span.lo, view.span.hi + source.span.hi, view.span.whole and source.span.whole, True
        )
        draft.write(f"{text}.add_({draft.apart(source, view)})", view, total, [source], saves=False, named=0)
    elif kind == 3 and view.dtype in NUMBERS and view.dtype != "uint8":
        a = draft.dice.one_of(("2", "-1", "3"))
        draft.write(f"{text}.mul_({a})", view, view.span.scaled(int(a)), [], saves=False, named=0)
    elif kind == 4 and view.dtype in FLOATS:
        name, low, high = draft.dice.one_of((("tanh", -1, 1), ("sigmoid", 0, 1), ("sin", -1, 1), ("cos", -1, 1)))
        draft.write(f"{text}.{name}_()", view, Span(low, high), [], named=0)
    elif kind == 5:
        draft.write(f"{text}.zero_()", view, ZERO, [], saves=False, named=0)
    else:
        slot = text if text.endswith("]") else f"{text}[...]"
        draft.write(
            f"{slot} = {constant}" if kind == 6 and assigned else f"{text}.fill_({constant})",
            view,
            span,
            [],
            saves=False,
            named=0,
        )


def _source(draft: Draft, view: Value) -> Value:
    """What is written there: of its shape, or one that broadcasts to it; of another dtype now and then."""
    shape: Shape = (
        view.shape
        if draft.dice.chance(0.7) or not view.shape
        else draft.dice.one_of((view.shape[1:], (1,) * len(view.shape), ()))
    )
    if view.dtype in FLOATS and draft.dice.chance(0.15):
        other = draft.existing(
            lambda v: v.shape == shape and sort_of(v.dtype) < 3 and v.dtype != view.dtype and not v.bits
        )
        if other is not None:
            return other
    return shaped(draft, shape, view.dtype, reuse=0.75, apart=view if draft.dice.chance(0.8) else None)


@ROWS.add("write_whole", 4)
def _write_whole(draft: Draft) -> None:
    _into_whole(draft, _target(draft))


def _into_whole(draft: Draft, x: Value) -> None:
    _into(draft, x, x.name)


@ROWS.add("write_base_then_read_view", 5)
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
    draft.emit(
        read, view.shape, view.dtype, span._replace(lo=-size if view.dtype != "uint8" else 0), [view], saves=False
    )


@ROWS.add("clone_then_write", 4)
def _clone_then_write(draft: Draft) -> None:
    """A copy is written, what was copied is read: it must not change."""
    x = operand(draft, (*FLOATS, "int64", "int32"), (0, 4), 1)
    copy = _copied(draft, x)
    _into_whole(draft, copy)
    draft.emit(
        f"{x.name} + {copy.name}",
        x.shape,
        x.dtype,
        Span(x.span.lo + copy.span.lo, x.span.hi + copy.span.hi, x.span.whole and copy.span.whole, True),
        [x, copy],
        saves=False,
    )


@ROWS.add("write_dtype_view", 3)
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


@ROWS.add("zeros_filled", 4)
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


@ROWS.add("swap", 2)
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
