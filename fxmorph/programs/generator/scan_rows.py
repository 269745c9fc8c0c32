"""Functions along a dimension: scans, softmax, differences, distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.operands import guarded, operand, shaped
from fxmorph.programs.generator.promotion import FLOATS, NUMBERS, sort_of
from fxmorph.programs.generator.reduction_rows import Folded, _same, refuse_ties
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import Shape, reduced
from fxmorph.programs.generator.spans import Bounds, NoFit, Span
from fxmorph.programs.generator.spelling import dim_text, named_dim, spelled

ROWS = Rows()


@dataclass(frozen=True)
class Scan:
    """A function that accumulates along one dimension."""

    name: str
    image: Folded
    domain: Bounds = (-inf, inf)
    dtypes: tuple[str, ...] = ("bool", *NUMBERS)
    pair: bool = False
    takes_dtype: bool = True
    forms: str = "fmio"


SCANS_TABLE = (
    Scan("cumsum", lambda a, n: (min(a.lo, a.lo * n), max(a.hi, a.hi * n))),
    Scan("cumprod", lambda a, n: (-max(1.0, a.size**n), max(1.0, a.size**n)), (-1.25, 1.25), ("float32", "float64")),
    Scan(
        "logcumsumexp",
        lambda a, n: (a.lo, a.hi + math.log(max(n, 1))),
        dtypes=("float32", "float64"),
        takes_dtype=False,
        forms="fm",
    ),
    Scan("cummax", _same, pair=True, dtypes=NUMBERS),
    Scan("cummin", _same, pair=True, dtypes=NUMBERS),
)


def draw_scan(row: Scan, draft: Draft) -> None:
    x = operand(draft, row.dtypes, (1, 6), 1, exact=row.pair)
    x = guarded(draft, x, *row.domain) if row.domain != (-inf, inf) else x
    dim = draft.dice.below(x.rank)
    text = named_dim(draft, dim, x.rank)
    lo, hi = row.image(x.span, x.shape[dim])
    if row.pair:
        refuse_ties("max", x)
        made = [
            draft.tensor(x.shape, x.dtype, x.span, [x]),
            draft.tensor(x.shape, "int64", Span(0, x.shape[dim] - 1, True, False), [x]),
        ]
        draft.several(f"torch.{row.name}({x.name}, {text})", made, [x])
        return
    dtype = x.dtype if sort_of(x.dtype) > 1 else "int64"
    forms = row.forms
    if row.takes_dtype and draft.dice.chance(0.2):
        dtype, text, forms = "float64", f"{text}, dtype=torch.float64", "fm"
    whole = row.name == "cumsum" and x.span.whole
    if dtype != x.dtype:
        forms = "fm"
    spelled(
        draft, row.name, forms, [x], text, x.shape, dtype, Span(lo, hi, whole, x.span.rounded or not whole), dense=None
    )


@ROWS.add("softmax", 6)
def _softmax(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 6), 1)
    dim = dim_text(draft, draft.dice.below(x.rank), x.rank)
    name = draft.dice.one_of(("softmax", "log_softmax", "softmin", "softmax"))
    span = Span(0, 1) if name != "log_softmax" else Span(x.span.lo - x.span.hi - 9, 0)
    dtype = (
        "float64"
        if draft.dice.chance(0.1)
        else "float32"
        if x.dtype in ("float16", "bfloat16") and draft.dice.chance(0.5)
        else x.dtype
    )
    typed = f", dtype=torch.{dtype}" if dtype != x.dtype else ""
    module = "F." if name == "softmin" or draft.dice.chance(0.4) else "torch."
    text = (
        f"{x.name}.{name}(dim={dim}{typed})"
        if name != "softmin" and draft.dice.chance(0.3)
        else f"{module}{name}({x.name}, dim={dim}{typed})"
    )
    draft.emit(text, x.shape, dtype, span, [x])


@ROWS.add("normalize", 2)
def _normalize(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 5), 1)
    dim = dim_text(draft, draft.dice.below(x.rank), x.rank)
    p = draft.dice.one_of(("", "p=1, ", "p=2.0, "))
    if x.grad and not x.distinct:
        raise NoFit("no gradient at 0")
    draft.emit(
        f"F.normalize({x.name}, {p}dim={dim}, eps=0.5)", x.shape, x.dtype, Span(-2 * x.span.size, 2 * x.span.size), [x]
    )


@ROWS.add("cosine_similarity", 1)
def _cosine_similarity(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (1, 5), 1)
    y = shaped(draft, x.shape, x.dtype)
    if not (x.distinct and y.distinct):
        raise NoFit("rows of 0")
    dim = draft.dice.below(x.rank)
    draft.emit(
        f"F.cosine_similarity({x.name}, {y.name}, dim={dim_text(draft, dim, x.rank)}, eps=1e-3)",
        reduced(x.shape, [dim], False),
        x.dtype,
        Span(-1.1, 1.1),
        [x, y],
    )


@ROWS.add("diff", 2)
def _diff(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 5), 2)
    if x.dtype == "uint8":
        raise NoFit("wraps")
    dim = draft.dice.below(x.rank)
    n = draft.dice.between(1, min(2, x.shape[dim] - 1))
    shape: Shape = (*x.shape[:dim], x.shape[dim] - n, *x.shape[dim + 1 :])
    size = 2**n * x.span.size
    arguments = f"dim={dim_text(draft, dim, x.rank)}" if n == 1 else f"n={n}, dim={dim_text(draft, dim, x.rank)}"
    draft.emit(
        f"torch.diff({x.name}, {arguments})",
        shape,
        x.dtype,
        Span(-size, size, x.span.whole, not x.span.whole),
        [x],
        dense=False,
    )


@ROWS.add("distances", 1)
def _distances(draft: Draft) -> None:
    x = operand(draft, ("float32",), (2, 2), 1)
    if not x.distinct or x.grad:
        raise NoFit("distances of 0")
    y = shaped(draft, (draft.dice.between(1, 5), x.shape[1]), "float32", apart=x)
    if not y.distinct:
        raise NoFit("distances of 0")
    p = draft.dice.one_of(("", ", p=1.0", ", p=3.0"))
    size = 13.0 * x.shape[1]
    draft.emit(
        f"torch.cdist({x.name}, {y.name}{p})", (x.shape[0], y.shape[0]), "float32", Span(0, size), [x, y], dense=False
    )


ROWS += [Row(row.name, partial(draw_scan, row), 1.5) for row in SCANS_TABLE]
