"""Functions of lists of tensors, and steps of optimisers."""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import shaped
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.write_rows import _made_writable, _target

ROWS = Rows()


@ROWS.add("foreach", 6)
def _foreach(draft: Draft) -> None:
    """A function of lists of tensors, in place mostly."""
    x = _target(draft, ("float32", "float64", "bfloat16"))
    y = draft.existing(
        lambda v: v.dtype == x.dtype and v.storage is not x.storage and draft.writable(v) and not v.bits and v.numel > 0
    )
    if y is None:
        y = _other(draft, x)
    name, arguments, image = draft.dice.one_of(_FOREACH)
    whole = name in ("add", "mul", "neg", "maximum", "sub") and "." not in arguments
    spans = [
        Span(*image(v.span.lo, v.span.hi), v.span.whole and whole, v.span.rounded or not (whole and v.span.whole))
        for v in (x, y)
    ]
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
    ("add", "1", lambda lo, hi: (lo + 1, hi + 1)),
    ("add", "0.5", lambda lo, hi: (lo + 0.5, hi + 0.5)),
    ("mul", "2", lambda lo, hi: (2 * lo, 2 * hi)),
    ("mul", "[0.5, -1.0]", lambda lo, hi: (-max(-lo, hi), max(-lo, hi))),
    ("sub", "2", lambda lo, hi: (lo - 2, hi - 2)),
    ("div", "4", lambda lo, hi: (lo / 4, hi / 4)),
    ("neg", "", lambda lo, hi: (-hi, -lo)),
    ("sin", "", lambda lo, hi: (-1, 1)),
    ("sigmoid", "", lambda lo, hi: (0, 1)),
    ("tanh", "", lambda lo, hi: (-1, 1)),
    ("abs", "", lambda lo, hi: (0, max(abs(lo), abs(hi)))),
    ("clamp_min", "-0.5", lambda lo, hi: (max(lo, -0.5), max(hi, -0.5))),
    ("clamp_max", "1.5", lambda lo, hi: (min(lo, 1.5), min(hi, 1.5))),
)


def _other(draft: Draft, x: Value) -> Value:
    shape = draft.dice.one_of((x.shape, (3,), (2, 5)))
    other = shaped(draft, shape, x.dtype, reuse=0.3, apart=x)
    return _made_writable(draft, other)


@ROWS.add("foreach_pair", 3)
def _foreach_pair(draft: Draft) -> None:
    """A function of two lists: parameters and their updates."""
    x = _target(draft, ("float32", "float64"))
    y = _other(draft, x)
    if y.storage is x.storage:
        raise NoFit("one memory")
    a, b = shaped(draft, x.shape, x.dtype, apart=x), shaped(draft, y.shape, y.dtype, apart=y)
    if any(v.storage in (x.storage, y.storage) or v.grad for v in (a, b)) or x.grad or y.grad:
        raise NoFit("one memory")
    name, more = draft.dice.one_of(
        (("add", ", alpha=-0.5"), ("sub", ""), ("mul", ""), ("lerp", ", 0.25"), ("maximum", ""))
    )
    size = [u.span.size * v.span.size + u.span.size + v.span.size for u, v in ((x, a), (y, b))]
    spans = [Span(-s, s) for s in size]
    _write_both(draft, f"torch._foreach_{name}_([{x.name}, {y.name}], [{a.name}, {b.name}]{more})", x, y, spans, (a, b))


@ROWS.add("optimiser_step", 4)
def _optimiser_step(draft: Draft) -> None:
    """A step of an optimiser: parameter and state are written."""
    p = _target(draft, ("float32",), 1, 3)
    g = shaped(draft, p.shape, p.dtype, -12, 12, apart=p)
    m = shaped(draft, p.shape, p.dtype, -12, 12, apart=p)
    if (
        g.grad
        or m.grad
        or p.grad
        or draft.mood.grad
        or m.storage in (g.storage, p.storage)
        or g.storage is p.storage
        or not draft.writable(m)
    ):
        raise NoFit("one memory")
    kind = draft.dice.below(3)
    draft.write(
        draft.dice.one_of((f"{m.name}.mul_(0.9).add_({g.name}, alpha=0.1)", f"{m.name}.lerp_({g.name}, 0.1)")),
        m,
        m.span.join(g.span)._replace(whole=False, rounded=True),
        [g],
        named=0,
    )
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
