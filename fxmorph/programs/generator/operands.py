"""Operands as operators ask for them: of a shape, of a dtype, inside an interval; numbers of Python."""

from __future__ import annotations

from math import inf, isinf

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.fresh_inputs import any_input, given, own_dtype
from fxmorph.programs.generator.promotion import FLOATS, WHOLES, sort_of
from fxmorph.programs.generator.shapes import Shape, broadcast, broadcasts_to, partner
from fxmorph.programs.generator.spans import NoFit, Span


def operand(
    draft: Draft, dtypes: tuple[str, ...], rank: tuple[int, int] = (0, 6), least: int = 0, exact: bool = False
) -> Value:
    """A value of one of the dtypes with a rank from ``rank[0]`` to ``rank[1]`` and sizes from ``least`` on."""
    low, high = rank

    def fits(v: Value) -> bool:
        return (
            v.dtype in dtypes and low <= v.rank <= high and not v.bits and (v.exact or not exact)
            and all(n >= least for n in v.shape)
        )  # fmt: skip

    def make() -> Value:
        drawn = None if rank == (0, 6) else draft.dice.between(low, min(high, low + 3))
        value = any_input(draft, dtypes, drawn, max(least, 1))
        if any(n < least for n in value.shape):
            raise NoFit("a size of 0")
        return value

    return draft.take(fits, make)


def shaped(
    draft: Draft, shape: Shape, dtype: str, lo: float = -inf, hi: float = inf, reuse: float = 0.5,
    apart: Value | None = None,
) -> Value:  # fmt: skip
    """A value of that shape and dtype with values from ``lo`` to ``hi``; on other memory than ``apart``."""

    def fits(v: Value) -> bool:
        alike = v.shape == shape and v.dtype == dtype and not v.bits and v.span.within(lo, hi)
        return alike and (apart is None or v.storage is not apart.storage)

    value = draft.take(fits, lambda: given(draft, shape, dtype, lo, hi, apart is not None), reuse)
    if not (isinf(lo) and isinf(hi)) and not draft.rely(value):
        raise NoFit("writes may leave the interval")
    return value


def companion(draft: Draft, value: Value, dtypes: tuple[str, ...], within: Shape | None = None) -> Value:
    """A value that broadcasts with ``value`` (to ``within``, where that is given)."""

    def fits(v: Value) -> bool:
        if v.dtype not in dtypes or v.bits:
            return False
        if within is not None:
            return broadcasts_to(v.shape, within)
        try:
            return len(broadcast(v.shape, value.shape)) <= 6
        except NoFit:
            return False

    def make() -> Value:
        shape = partner(draft.dice, value.shape)
        if within is not None and not broadcasts_to(shape, within):
            shape = value.shape
        dtype = value.dtype if value.dtype in dtypes and draft.dice.chance(0.85) else own_dtype(draft, dtypes)
        return given(draft, shape, dtype)

    return draft.take(fits, make, 0.55)


def number(draft: Draft, dtype: str, lo: float = -4, hi: float = 4) -> tuple[str, Span]:
    """A number of Python that suits a dtype, as text, and its span."""
    whole = sort_of(dtype) < 2 or draft.mood.whole or draft.dice.chance(0.25)
    if whole and int(hi) >= int(lo) + 1:
        low = max(lo, 0) if dtype == "uint8" else lo
        n = draft.dice.between(-int(-low // 1), int(hi))
        return str(n), Span(n, n, True, False)
    steps = 8 if hi - lo >= 1 else 64
    f = lo + (hi - lo) * draft.dice.between(0, steps) / steps
    f = round(f, 3)
    return f"{f!r}", Span(f, f, f == int(f), False)


def factor(draft: Draft, dtype: str) -> str:
    """A number to multiply by that keeps whole numbers whole, as ``alpha``."""
    return draft.dice.one_of(("2", "-1", "3", "-2") if sort_of(dtype) < 2 or draft.mood.whole else ("2", "0.5", "-1.5"))


def guarded(draft: Draft, value: Value, lo: float = -inf, hi: float = inf) -> Value:
    """The value, or what a line more makes of it, with values from ``lo`` to ``hi``."""
    span = value.span
    if value.bits:
        raise NoFit("bits of another dtype")
    if (isinf(lo) and isinf(hi)) or (span.within(lo, hi) and draft.rely(value)):
        return value
    options = [_clamped]
    if value.dtype in FLOATS:
        options += [_squashed, _squashed] if not isinf(lo) and not isinf(hi) else []
        options += [_lifted, _lifted] if not isinf(lo) and isinf(hi) else []
    elif value.dtype not in WHOLES:
        raise NoFit(f"{value.dtype} from {lo} to {hi}")
    return draft.dice.one_of(options)(draft, value, lo, hi)


def _clamped(draft: Draft, value: Value, lo: float, hi: float) -> Value:
    low, high = (inf_or(lo, value.dtype, up=True), inf_or(hi, value.dtype, up=False))
    if low is None and high is None:
        raise NoFit("no bound")
    span = value.span
    floor = span.lo if low is None else float(low)
    ceiling = max(span.hi, floor) if high is None else float(high)
    if floor > ceiling and low is not None and high is not None:
        raise NoFit("no such whole number")
    made = Span(
        min(max(span.lo, floor), ceiling), min(max(span.hi, floor), ceiling),
        span.whole and floor == int(floor) and ceiling == int(ceiling), span.rounded,
    )  # fmt: skip
    name = value.name
    texts = [f"{name}.clamp(min={low}, max={high})", f"torch.clamp({name}, {low}, {high})"]
    if high is None:
        texts += [f"{name}.clamp_min({low})", f"torch.clamp({name}, min={low})"]
    if low is None:
        texts += [f"{name}.clamp_max({high})", f"torch.clamp({name}, max={high})"]
    return draft.emit(draft.dice.one_of(texts), value.shape, value.dtype, made, [value])


def inf_or(bound: float, dtype: str, up: bool) -> int | float | None:
    """The bound as a number of the dtype, rounded inwards, or None for none."""
    if isinf(bound):
        return None
    return (-int(-bound // 1) if up else int(bound // 1)) if sort_of(dtype) < 2 else round(bound, 3)


def _squashed(draft: Draft, value: Value, lo: float, hi: float) -> Value:
    middle, half = round((lo + hi) / 2, 3), round((hi - lo) * 0.45, 3)
    call, low, high = draft.dice.one_of((("tanh", -1, 1), ("sin", -1, 1), ("sigmoid", 0, 1), ("erf", -1, 1)))
    shift = "" if not middle else f" + {middle:g}" if middle > 0 else f" - {-middle:g}"
    scale = "" if half == 1 else f" * {half:g}"
    text = f"torch.{call}({value.name}){scale}{shift}"
    span = Span(low * half + middle, high * half + middle)
    return draft.emit(text, value.shape, value.dtype, span, [value])


def _lifted(draft: Draft, value: Value, lo: float, hi: float) -> Value:
    """Values from ``lo`` on, by a function that is nowhere negative."""
    least = round(max(lo, 0) + 0.25, 3) if lo >= 0 else 0
    size = value.span.size
    text, high = draft.dice.one_of(
        (
            (f"{value.name}.abs()", size),
            (f"torch.sigmoid({value.name})", 1.0),
            (f"F.softplus({value.name})", size + 1),
            (f"{value.name} * {value.name}", size * size),
            (f"{value.name} ** 2", size * size),
        )
    )
    added = f" + {least:g}" if least else ""
    return draft.emit(text + added, value.shape, value.dtype, Span(least, high + least), [value])
