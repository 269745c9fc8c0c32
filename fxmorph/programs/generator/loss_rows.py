"""Losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.fresh_inputs import indices
from fxmorph.programs.generator.operands import guarded, operand, shaped
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import Shape
from fxmorph.programs.generator.spans import NoFit, Span

ROWS = Rows()


@dataclass(frozen=True)
class Loss:
    """A loss of an input and a target of its shape."""

    name: str
    input: tuple[float, float] = (-20, 20)
    target: tuple[float, float] = (-20, 20)
    arguments: tuple[str, ...] = ("",)


LOSSES_TABLE = (
    Loss("mse_loss"),
    Loss("l1_loss"),
    Loss("smooth_l1_loss", arguments=("", "beta=0.5", "beta=2.0")),
    Loss("huber_loss", arguments=("", "delta=0.5", "delta=2.0")),
    Loss("binary_cross_entropy", (0.1, 0.9), (0, 1)),
    Loss("binary_cross_entropy_with_logits", target=(0, 1)),
    Loss("kl_div", (-10, 0), (0.1, 1), ("", "log_target=False")),
    Loss("poisson_nll_loss", (-4, 4), (0.1, 5), ("", "log_input=True")),
    Loss("soft_margin_loss", target=(-1, 1)),
)


def draw_loss(row: Loss, draft: Draft) -> None:
    x = guarded(draft, operand(draft, ("float32", "float64"), (1, 4), 1), *row.input)
    y = shaped(draft, x.shape, x.dtype, *row.target)
    if row.name == "soft_margin_loss" and y.grad:
        raise NoFit("no derivative")
    reduction = draft.dice.one_of(("none", "mean", "sum", ""))
    arguments = [x.name, y.name, draft.dice.one_of(row.arguments), f"reduction='{reduction}'" if reduction else ""]
    one = 2000.0
    size = one if reduction != "sum" else (x.span.size + y.span.size + 4) ** 2 * x.numel
    shape: Shape = x.shape if reduction == "none" else ()
    draft.emit(
        f"F.{row.name}({', '.join(a for a in arguments if a)})", shape, x.dtype, Span(-size, size), [x, y], dense=False
    )


ROWS += [Row(row.name, partial(draw_loss, row)) for row in LOSSES_TABLE]


@ROWS.add("cross_entropy", 4)
def _cross_entropy(draft: Draft) -> None:
    x = guarded(draft, operand(draft, ("float32", "float64"), (2, 4), 1), -50, 50)
    n, classes = x.shape[:2]
    target = indices(draft, (n, *x.shape[2:]), classes)
    arguments = [x.name, target.name]
    if draft.dice.chance(0.3):
        w = shaped(draft, (classes,), x.dtype, 0.2, inf)
        if w.grad:
            raise NoFit("no derivative")
        arguments.append(f"weight={w.name}")
        draft.beside(w)
    elif draft.dice.chance(0.3):
        arguments.append(f"label_smoothing={draft.dice.one_of(('0.1', '0.25'))}")
    reduction = draft.dice.one_of(("none", "sum", ""))
    arguments += [f"reduction='{reduction}'"] if reduction else []
    span = Span(-1, 8e2) if reduction != "sum" else Span(-1, 8e2 * target.numel)
    draft.emit(
        f"F.cross_entropy({', '.join(arguments)})",
        target.shape if reduction == "none" else (),
        x.dtype,
        span,
        [x, target],
        dense=False,
    )


@ROWS.add("nll_loss", 2)
def _nll_loss(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 4), 1)
    target = indices(draft, (x.shape[0], *x.shape[2:]), x.shape[1])
    logs = draft.emit(f"F.log_softmax({x.name}, dim=1)", x.shape, x.dtype, Span(x.span.lo - x.span.hi - 9, 0), [x])
    reduction = draft.dice.one_of(("none", "sum"))
    span = Span(0, -logs.span.lo * max(target.numel, 1))
    draft.emit(
        f"F.nll_loss({logs.name}, {target.name}, reduction='{reduction}')",
        target.shape if reduction == "none" else (),
        x.dtype,
        span,
        [logs, target],
        dense=False,
    )


@ROWS.add("ranking", 1)
def _ranking(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 2), 2)
    y, z = shaped(draft, x.shape, x.dtype, apart=x), shaped(draft, x.shape, x.dtype, apart=x)
    if not (x.distinct and y.distinct and z.distinct):
        raise NoFit("distances of 0")
    draft.emit(
        f"F.triplet_margin_loss({x.name}, {y.name}, {z.name})", (), x.dtype, Span(0, 1000), [x, y, z], dense=False
    )
