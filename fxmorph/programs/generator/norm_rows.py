"""Norms, and activations with weights."""

from __future__ import annotations

from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import operand, shaped
from fxmorph.programs.generator.promotion import FLOATS
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.spans import NoFit, Span

ROWS = Rows()


@ROWS.add("layer_norm", 5)
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


@ROWS.add("group_norm", 4)
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


@ROWS.add("batch_norm", 4)
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


@ROWS.add("instance_norm", 2)
def _instance_norm(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (3, 5), 1)
    n = prod(x.shape[2:])
    _steady(x, n)
    size = 2 * n**0.5
    draft.emit(
        f"F.instance_norm({x.name}{draft.dice.one_of(('', ', eps=1e-2'))})",
        x.shape,
        x.dtype,
        Span(-size, size),
        [x],
        dense=False,
    )


@ROWS.add("local_response_norm", 1)
def _local_response_norm(draft: Draft) -> None:
    x = operand(draft, ("float32",), (3, 4), 1)
    draft.emit(
        f"F.local_response_norm({x.name}, {draft.dice.between(1, 3)})",
        x.shape,
        x.dtype,
        x.span._replace(whole=False, rounded=True),
        [x],
        dense=False,
    )


@ROWS.add("prelu", 2)
def _prelu(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"), (2, 4), 1)
    w = shaped(draft, draft.dice.one_of(((1,), (x.shape[1],))), x.dtype)
    size = x.span.size * max(1, w.span.size)
    draft.emit(f"F.prelu({x.name}, {w.name})", x.shape, x.dtype, Span(-size, size), [x, w])


@ROWS.add("glu", 2)
def _glu(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 5), 1)
    even = [d for d, n in enumerate(x.shape) if n % 2 == 0]
    if not even:
        raise NoFit("no even size")
    dim = draft.dice.one_of(even)
    shape = (*x.shape[:dim], x.shape[dim] // 2, *x.shape[dim + 1 :])
    draft.emit(
        f"F.glu({x.name}, dim={dim})",
        shape,
        x.dtype,
        x.span._replace(whole=False, rounded=True).join(Span(0, 0)),
        [x],
        dense=False,
    )
