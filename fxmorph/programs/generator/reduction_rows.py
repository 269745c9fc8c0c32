"""Reductions over no, one, several or all dimensions, spelled in all ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import guarded, operand
from fxmorph.programs.generator.promotion import COMPLEX, FLOATS, NUMBERS, WHOLES, floated, sort_of
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import reduced
from fxmorph.programs.generator.spans import TRUTH, Bounds, NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, dims_text, keyword, spelled

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
    Reduction(
        "any",
        lambda a, n: (0, 1),
        gives="bool",
        decides=True,
        exact=True,
        dtypes=("bool", "int8", "int32", "int64", *FLOATS),
    ),
    Reduction(
        "all",
        lambda a, n: (0, 1),
        gives="bool",
        decides=True,
        exact=True,
        dtypes=("bool", "int8", "int32", "int64", *FLOATS),
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
    dims, text, keep = _dims(draft, row.dims, x.rank)
    _no_repeats(row.name, x)
    if row.name == "prod" and x.grad and not x.distinct:
        raise NoFit("the gradient where a factor is 0")
    dtype = {"sum": x.dtype if sort_of(x.dtype) > 1 else "int64", "float": floated(x.dtype), "same": x.dtype}.get(
        row.gives, row.gives
    )
    wider = "float64" if sort_of(x.dtype) < 3 else "complex128"
    arguments = [t for t in (text, draft.dice.one_of(row.arguments)) if t]
    if row.name == "norm" and text:
        arguments = [
            draft.dice.one_of(("p=2", "p=1")),
            _named(text).replace("axis=", "dim=").replace(", True", ", keepdim=True"),
        ]
    if row.name == "count_nonzero":
        arguments, keep = (
            [a.partition(", keepdim")[0].removesuffix(", True").replace("axis=", "dim=") for a in arguments],
            False,
        )
    if row.takes_dtype and draft.dice.chance(0.15):
        arguments, dtype = [*arguments, f"dtype=torch.{wider}"], wider
    n = prod(x.shape[d] for d in dims)
    lo, hi = row.image(x.span, n)
    whole = row.exact and x.span.whole
    lo_sum, hi_sum = (min(lo, 0.0), max(hi, 0.0)) if row.gives == "sum" else (lo, hi)
    span = (
        TRUTH
        if row.gives == "bool"
        else Span(
            lo_sum,
            hi_sum,
            whole,
            x.span.rounded or not (whole or (row.exact and row.name not in ("sum", "nansum", "prod"))),
        )
    )
    spelled(
        draft,
        row.name,
        row.forms if not (row.takes_dtype and "dtype" in " ".join(arguments)) else row.forms.replace("o", ""),
        [x],
        ", ".join(arguments),
        reduced(x.shape, dims, keep),
        dtype,
        span,
    )


def _no_repeats(name: str, x: Value) -> None:
    """Gradients at ties are shared out or not: where there are any, operands are random numbers."""
    if x.grad and name in ("amax", "amin", "max", "min") and not x.distinct:
        raise NoFit("ties in a gradient")


def _named(text: str) -> str:
    return text if text.startswith(("dim=", "axis=")) else f"dim={text}"


def _dims(draft: Draft, kinds: Sequence[str], rank: int) -> tuple[list[int], str, bool]:
    """Dimensions to reduce, as text with ``keepdim``, and whether they are kept."""
    kind = draft.dice.one_of(kinds)
    if kind == "many" and rank < 2:
        kind = "one"
    if rank == 0 and kind != "none":
        raise NoFit("no dimension")
    if kind == "none":
        return list(range(rank)), "", False
    count = 1 if kind == "one" else draft.dice.between(2, min(rank, 3))
    dims = draft.dice.some_of(range(rank), count)
    dims = draft.dice.shuffled(dims)
    shown = dim_text(draft, dims[0], rank) if kind == "one" else dims_text(draft, dims, rank)
    text, keep = keyword(draft, "dim", shown), draft.dice.chance(0.4)
    if keep:
        text += draft.dice.one_of(
            (", keepdim=True", ", keepdim=True", ", True" if "=" not in text else ", keepdim=True")
        )
    return dims, text, keep


ROWS += [
    Row(row.name, partial(draw_reduction, row), 3.0 if row.name in ("sum", "mean", "amax") else 1.0)
    for row in REDUCTIONS_TABLE
]


@ROWS.add("var", 3)
def _var(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS, (1, 6), 1), -40, 40)
    dims, text, keep = _dims(draft, ("none", "one", "many"), x.rank)
    n = prod(x.shape[d] for d in dims)
    correction = draft.dice.one_of([c for c in (0, 0, 1, 1, 2, 3) if c < n] or [0])
    name = draft.dice.one_of(("var", "var", "std", "var_mean", "std_mean"))
    if "std" in name and (x.grad or not x.distinct):
        raise NoFit("the root of 0 has no gradient")
    _spell_var(draft, name, x, dims, text, keep, correction, n)


def _spell_var(
    draft: Draft, name: str, x: Value, dims: list[int], text: str, keep: bool, correction: int, n: int
) -> None:
    arguments = [text] if text else []
    if correction == 1 and draft.dice.chance(0.4) and not ("True" in text and "keepdim=" not in text):
        pass
    elif correction < 2 and not text and draft.dice.chance(0.4):
        arguments.append(f"unbiased={bool(correction)}")
    else:
        arguments = [text.replace(", True", ", keepdim=True")] if text else []
        arguments.append(f"correction={correction}")
    if correction == 1 and ", True" in text and arguments and "keepdim=" not in arguments[0]:
        arguments[0] = text.replace(", True", ", keepdim=True")
    high = (x.span.hi - x.span.lo) ** 2 * n / max(n - correction, 1)
    shape, given = reduced(x.shape, dims, keep), ", ".join(arguments)
    spread = Span(0, high if name.startswith("var") else high**0.5)
    if name in ("var", "std"):
        spelled(draft, name, "fm", [x], given, shape, x.dtype, spread)
        return
    made = [draft.tensor(shape, x.dtype, span, [x]) for span in (spread, x.span._replace(whole=False, rounded=True))]
    draft.several(f"torch.{name}({x.name}{', ' + given if given else ''})", made, [x])


@ROWS.add("max_dim", 3)
def _max_dim(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 6), 1, exact=True)
    dims, text, keep = _dims(draft, ("one",), x.rank)
    name = draft.dice.one_of(("max", "min"))
    shape = reduced(x.shape, dims, keep)
    _no_repeats(name, x)
    call = f"torch.{name}({x.name}, {text})" if draft.dice.chance(0.5) else f"{x.name}.{name}({text})"
    if draft.dice.chance(0.35):
        draft.emit(f"{call}.values", shape, x.dtype, x.span, [x], dense=False)
        return
    made = [
        draft.tensor(shape, x.dtype, x.span, [x]),
        draft.tensor(shape, "int64", Span(0, x.shape[dims[0]] - 1, True, False), [x]),
    ]
    draft.several(call, made, [x])


@ROWS.add("aminmax", 1)
def _aminmax(draft: Draft) -> None:
    x = operand(draft, (*FLOATS, *WHOLES), (1, 6), 1)
    if x.grad:
        raise NoFit("ties in a gradient")
    dims, text, keep = _dims(draft, ("none", "one"), x.rank)
    text = _named(text).replace("axis=", "dim=").replace(", True", ", keepdim=True") if text else ""
    shape = reduced(x.shape, dims, keep)
    draft.several(
        f"torch.aminmax({x.name}{', ' + text if text else ''})",
        [draft.tensor(shape, x.dtype, x.span, [x]) for _ in range(2)],
        [x],
    )


@ROWS.add("median", 2)
def _median(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64", "int32"), (1, 6), 1, exact=True)
    name = draft.dice.one_of(("median", "nanmedian", "kthvalue", "mode"))
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    if name in ("median", "nanmedian") and draft.dice.chance(0.3):
        spelled(draft, name, "fm", [x], "", (), x.dtype, x.span)
        return
    dims, text, keep = _dims(draft, ("one",), x.rank)
    if name == "mode" and sort_of(x.dtype) != 1:
        raise NoFit("all are as frequent")
    k = f"{draft.dice.between(1, x.shape[dims[0]])}, " if name == "kthvalue" else ""
    draft.emit(
        f"torch.{name}({x.name}, {k}{text}).values", reduced(x.shape, dims, keep), x.dtype, x.span, [x], dense=False
    )


@ROWS.add("vector_norm", 2)
def _vector_norm(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 6), 1)
    dims, text, keep = _dims(draft, ("none", "one", "many"), x.rank)
    text = _named(text).replace("axis=", "dim=").replace(", True", ", keepdim=True") if text else ""
    order = draft.dice.one_of(("2", "1", "ord=2", "ord=float('inf')", "ord=-float('inf')", "ord=3", "ord=0"))
    if (order == "ord=0" and not x.exact) or (x.grad and ("inf" in order or "0" in order)):
        raise NoFit("decides")
    n = prod(x.shape[d] for d in dims)
    arguments = ", ".join(t for t in (x.name, order, text) if t)
    draft.emit(
        f"torch.linalg.vector_norm({arguments})",
        reduced(x.shape, dims, keep),
        x.dtype,
        Span(0, max(x.span.size, 1) * n),
        [x],
        dense=False,
    )
