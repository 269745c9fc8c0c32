"""Reductions over no, one, several or all dimensions, spelled in all ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import guarded, operand
from fxmorph.programs.generator.promotion import COMPLEX, FLOATS, NUMBERS, WHOLES, floated, sort_of
from fxmorph.programs.generator.reduced_dims import ReducedDims, draw_dims
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.spans import TRUTH, Bounds, NoFit, Span
from fxmorph.programs.generator.spelling import spelled

ROWS = Rows()


#: The bounds of a reduction of ``n`` elements.
Folded = Callable[[Span, int], Bounds]


@dataclass(frozen=True)
class Reduction:
    """A function that reduces dimensions: ``dims`` says how many, of "none" (all, unsaid), "one", "many"."""

    name: str
    image: Folded
    dims: tuple[str, ...] = ("none", "one", "many")
    domain: Bounds = (-inf, inf)
    dtypes: tuple[str, ...] = ("bool", *NUMBERS)
    #: What becomes of the dtype: "sum" (whole numbers become int64), "float", "same", "bool", "int64".
    gives: str = "sum"
    forms: str = "fm"
    decides: bool = False
    exact: bool = False
    #: Not of nothing.
    filled: bool = False
    arguments: tuple[str, ...] = ("",)
    takes_dtype: bool = False


_sum: Folded = lambda a, n: (min(a.lo * n, 0.0 if n == 0 else a.lo * n), max(a.hi * n, 0.0 if n == 0 else a.hi * n))  # noqa: E731

_same: Folded = lambda a, n: (a.lo, a.hi)  # noqa: E731

_spread: Folded = lambda a, n: (0.0, (a.hi - a.lo) ** 2 * 4)  # noqa: E731

_norm: Folded = lambda a, n: (0.0, a.size * max(n, 1))  # noqa: E731

REDUCTIONS_TABLE = (
    Reduction("sum", _sum, exact=True, takes_dtype=True, dtypes=("bool", *NUMBERS, *COMPLEX)),
    Reduction("nansum", _sum, exact=True, dtypes=NUMBERS),
    Reduction("mean", _same, gives="same", filled=True, takes_dtype=True, dtypes=(*FLOATS, *COMPLEX)),
    Reduction("nanmean", _same, gives="same", filled=True, dtypes=FLOATS),
    Reduction("amax", _same, gives="same", filled=True, exact=True, forms="fmo", dtypes=("bool", *NUMBERS)),
    Reduction("amin", _same, gives="same", filled=True, exact=True, forms="fmo", dtypes=("bool", *NUMBERS)),
    Reduction("max", _same, ("none",), gives="same", filled=True, exact=True),
    Reduction("min", _same, ("none",), gives="same", filled=True, exact=True),
    *(
        Reduction(
            name,
            lambda a, n: (0, 1),
            gives="bool",
            decides=True,
            exact=True,
            dtypes=("bool", "int8", "int32", "int64", *FLOATS),
        )
        for name in ("any", "all")
    ),
    Reduction(
        "argmax",
        lambda a, n: (0, n),
        ("none", "one"),
        gives="int64",
        decides=True,
        filled=True,
        exact=True,
        dtypes=NUMBERS,
    ),
    Reduction(
        "argmin",
        lambda a, n: (0, n),
        ("none", "one"),
        gives="int64",
        decides=True,
        filled=True,
        exact=True,
        dtypes=NUMBERS,
    ),
    Reduction("count_nonzero", lambda a, n: (0, n), gives="int64", decides=True, exact=True, dtypes=("bool", *NUMBERS)),
    Reduction(
        "logsumexp",
        lambda a, n: (a.lo, a.hi + math.log(max(n, 1))),
        ("one", "many"),
        gives="float",
        filled=True,
        dtypes=FLOATS,
    ),
    Reduction(
        "norm", _norm, gives="same", filled=True, dtypes=FLOATS, arguments=("p=2", "p=1", "p=float('inf')", "p=3")
    ),
    Reduction(
        "prod",
        lambda a, n: (-(a.size**n), a.size**n),
        ("none", "one"),
        (-1.5, 1.5),
        gives="sum",
        takes_dtype=True,
        exact=True,
        dtypes=("float32", "float64", "int64", "int32", "uint8", "bool"),
    ),
)


def draw_reduction(row: Reduction, draft: Draft) -> None:
    x = operand(draft, row.dtypes, least=int(row.filled), exact=row.decides)
    if row.domain != (-inf, inf):
        x = guarded(draft, x, *row.domain)
    refuse_ties(row.name, x)
    dims = draw_dims(draft, row.dims, x.rank)
    arguments, dims = _arguments(row, draft, dims)
    dtype, forms = _reduced_dtype(row, x), row.forms
    if row.takes_dtype and draft.dice.chance(0.15):
        dtype = "float64" if sort_of(x.dtype) < 3 else "complex128"
        arguments, forms = [*arguments, f"dtype=torch.{dtype}"], forms.replace("o", "")
    span = _reduced_span(row, x, dims.count(x.shape))
    spelled(draft, row.name, forms, [x], ", ".join(arguments), dims.of(x.shape), dtype, span)


def refuse_ties(name: str, x: Value) -> None:
    """Gradients at ties are shared out or not: where there are any, operands are random numbers."""
    if x.grad and name in ("amax", "amin", "max", "min", "prod") and not x.distinct:
        raise NoFit("ties in a gradient")


def _arguments(row: Reduction, draft: Draft, dims: ReducedDims) -> tuple[list[str], ReducedDims]:
    if row.name == "norm":
        order = draft.dice.one_of(("p=2", "p=1") if dims.text else row.arguments)
        return [order, *dims.named()], dims
    if row.name == "count_nonzero":
        dims = replace(dims, keep=False)
        return dims.named(), dims
    return dims.spelled(draft), dims


def _reduced_dtype(row: Reduction, x: Value) -> str:
    if row.gives == "sum":
        return x.dtype if sort_of(x.dtype) > 1 else "int64"
    return {"float": floated(x.dtype), "same": x.dtype}.get(row.gives, row.gives)


def _reduced_span(row: Reduction, x: Value, n: int) -> Span:
    if row.gives == "bool":
        return TRUTH
    lo, hi = row.image(x.span, n)
    if row.gives == "sum":
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    selects = row.exact and row.gives != "sum"
    whole = row.exact and x.span.whole
    return Span(lo, hi, whole, x.span.rounded or not (whole or selects))


ROWS += [
    Row(row.name, partial(draw_reduction, row), 3.0 if row.name in ("sum", "mean", "amax") else 1.0)
    for row in REDUCTIONS_TABLE
]


@ROWS.add("var", 3)
def _var(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS, (1, 6), 1), -40, 40)
    dims = draw_dims(draft, ("none", "one", "many"), x.rank)
    n = dims.count(x.shape)
    correction = draft.dice.one_of([c for c in (0, 0, 1, 1, 2, 3) if c < n] or [0])
    name = draft.dice.one_of(("var", "var", "std", "var_mean", "std_mean"))
    if "std" in name and (x.grad or not x.distinct):
        raise NoFit("the root of 0 has no gradient")
    given = ", ".join(_corrected(draft, dims, correction))
    shape = dims.of(x.shape)
    high = (x.span.hi - x.span.lo) ** 2 * n / max(n - correction, 1)
    spread = Span(0, high if name.startswith("var") else high**0.5)
    if name in ("var", "std"):
        spelled(draft, name, "fm", [x], given, shape, x.dtype, spread)
        return
    made = [draft.tensor(shape, x.dtype, span, [x]) for span in (spread, x.span._replace(whole=False, rounded=True))]
    draft.several(f"torch.{name}({x.name}{', ' + given if given else ''})", made, [x])


def _corrected(draft: Draft, dims: ReducedDims, correction: int) -> list[str]:
    """Arguments of a variance: the usual correction may go unsaid, and the usual two have a flag."""
    if correction == 1 and draft.dice.chance(0.4):
        return dims.named()
    if correction < 2 and not dims.text and draft.dice.chance(0.4):
        return [f"unbiased={bool(correction)}"]
    return [*dims.named(), f"correction={correction}"]


@ROWS.add("max_dim", 3)
def _max_dim(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 6), 1, exact=True)
    dims = draw_dims(draft, ("one",), x.rank)
    name = draft.dice.one_of(("max", "min"))
    refuse_ties(name, x)
    given, shape = ", ".join(dims.spelled(draft)), dims.of(x.shape)
    call = f"torch.{name}({x.name}, {given})" if draft.dice.chance(0.5) else f"{x.name}.{name}({given})"
    if draft.dice.chance(0.35):
        draft.emit(f"{call}.values", shape, x.dtype, x.span, [x], dense=False)
        return
    places = Span(0, x.shape[dims.dims[0]] - 1, True, False)
    draft.several(call, [draft.tensor(shape, x.dtype, x.span, [x]), draft.tensor(shape, "int64", places, [x])], [x])


@ROWS.add("aminmax", 1)
def _aminmax(draft: Draft) -> None:
    x = operand(draft, (*FLOATS, *WHOLES), (1, 6), 1)
    if x.grad:
        raise NoFit("ties in a gradient")
    dims = draw_dims(draft, ("none", "one"), x.rank)
    made = [draft.tensor(dims.of(x.shape), x.dtype, x.span, [x]) for _ in range(2)]
    draft.several(f"torch.aminmax({', '.join([x.name, *dims.named()])})", made, [x])


@ROWS.add("median", 2)
def _median(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 6), 1, exact=True)
    name = draft.dice.one_of(("median", "nanmedian", "kthvalue", "mode"))
    if x.layout.overlap:
        raise NoFit("eager reads beyond expanded operands")
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    if name in ("median", "nanmedian") and draft.dice.chance(0.3):
        spelled(draft, name, "fm", [x], "", (), x.dtype, x.span)
        return
    if name == "mode" and sort_of(x.dtype) != 1:
        raise NoFit("all are as frequent")
    dims = draw_dims(draft, ("one",), x.rank)
    k = [f"{draft.dice.between(1, x.shape[dims.dims[0]])}"] if name == "kthvalue" else []
    text = f"torch.{name}({', '.join([x.name, *k, *dims.spelled(draft)])}).values"
    draft.emit(text, dims.of(x.shape), x.dtype, x.span, [x], dense=False)


@ROWS.add("vector_norm", 2)
def _vector_norm(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 6), 1)
    dims = draw_dims(draft, ("none", "one", "many"), x.rank)
    order = draft.dice.one_of(("2", "1", "ord=2", "ord=float('inf')", "ord=-float('inf')", "ord=3", "ord=0"))
    if (order == "ord=0" and not x.exact) or (x.grad and ("inf" in order or "0" in order)):
        raise NoFit("decides")
    text = f"torch.linalg.vector_norm({', '.join([x.name, order, *dims.named()])})"
    span = Span(0, max(x.span.size, 1) * dims.count(x.shape))
    draft.emit(text, dims.of(x.shape), x.dtype, span, [x], dense=False)
