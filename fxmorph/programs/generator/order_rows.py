"""Sorting and searching."""

from __future__ import annotations

from math import inf

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.fresh_inputs import given
from fxmorph.programs.generator.operands import operand
from fxmorph.programs.generator.promotion import NUMBERS
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import dim_text

ROWS = Rows()


@ROWS.add("searchsorted", 2)
def _searchsorted(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64", "int64"), (0, 3), exact=True)
    n = draft.dice.between(1, 9)
    edges = draft.emit(
        f"torch.arange({-(n // 2)}, {n - n // 2}, dtype=torch.{x.dtype})",
        (n,),
        x.dtype,
        Span(-n, n, True, False),
        [],
        dense=True,
    )
    right = draft.dice.one_of(("", ", right=True"))
    if draft.dice.chance(0.5):
        draft.emit(
            f"torch.bucketize({x.name}, {edges.name}{right})",
            x.shape,
            "int64",
            Span(0, n, True, False),
            [x, edges],
            dense=False,
        )
    else:
        draft.emit(
            f"torch.searchsorted({edges.name}, {x.name}{right})",
            x.shape,
            "int64",
            Span(0, n, True, False),
            [x, edges],
            dense=False,
        )


@ROWS.add("sort", 4)
def _sort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    dim = draft.dice.below(x.rank)
    stable = draft.dice.chance(0.5)
    flags = [
        f"dim={dim_text(draft, dim, x.rank)}",
        draft.dice.one_of(("", "descending=True", "descending=False")),
        "stable=True" if stable else "",
    ]
    text = f"torch.sort({x.name}, {', '.join(f for f in flags if f)})"
    places = Span(0, x.shape[dim] - 1, True, False)
    if stable or x.distinct:
        draft.several(
            text, [draft.tensor(x.shape, x.dtype, x.span, [x]), draft.tensor(x.shape, "int64", places, [x])], [x]
        )
    else:
        draft.emit(f"{text}.values", x.shape, x.dtype, x.span, [x], dense=False)


@ROWS.add("argsort", 2)
def _argsort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    dim = draft.dice.below(x.rank)
    flag = draft.dice.one_of(("", ", descending=True"))
    draft.emit(
        f"torch.argsort({x.name}, dim={dim_text(draft, dim, x.rank)}{flag}, stable=True)",
        x.shape,
        "int64",
        Span(0, x.shape[dim] - 1, True, False),
        [x],
        dense=False,
    )


@ROWS.add("topk", 3)
def _topk(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 4), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    dim = draft.dice.below(x.rank)
    k = draft.dice.between(1, x.shape[dim])
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    flags = draft.dice.one_of(
        ("", ", largest=False", ", sorted=True", ", largest=False, sorted=True", ", largest=True")
    )
    text = f"torch.topk({x.name}, {k}, dim={dim_text(draft, dim, x.rank)}{flags})"
    if x.distinct:
        draft.several(
            text,
            [
                draft.tensor(shape, x.dtype, x.span, [x]),
                draft.tensor(shape, "int64", Span(0, x.shape[dim] - 1, True, False), [x]),
            ],
            [x],
        )
    else:
        draft.emit(f"{text}.values", shape, x.dtype, x.span, [x], dense=False)


@ROWS.add("msort", 1)
def _msort(draft: Draft) -> None:
    x = operand(draft, NUMBERS, (1, 3), 1, exact=True)
    if x.grad and not x.distinct:
        raise NoFit("ties in a gradient")
    draft.emit(f"torch.msort({x.name})", x.shape, x.dtype, x.span, [x], dense=False)


@ROWS.add("isin", 1)
def _isin(draft: Draft) -> None:
    x = operand(draft, ("int64", "int32"), (0, 3), exact=True)
    others = given(draft, (draft.dice.between(1, 4),), x.dtype, -inf, inf)
    draft.emit(
        f"torch.isin({x.name}, {others.name})", x.shape, "bool", Span(0, 1, True, False), [x, others], dense=False
    )
