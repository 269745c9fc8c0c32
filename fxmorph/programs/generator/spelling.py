"""How a call is spelled: as a function, a method, in place, with ``out=``; arguments by place and by name."""

from __future__ import annotations

from collections.abc import Sequence

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.promotion import can_hold
from fxmorph.programs.generator.shapes import Shape, sizes
from fxmorph.programs.generator.spans import Span
from fxmorph.programs.generator.strided import contiguous, permuted

#: f: ``torch.name(x)``, m: ``x.name()``, i: ``x.name_()``, o: ``torch.name(x, out=y)``, n: ``F.name(x)``,
#: N: ``F.name(x, inplace=True)``, l: ``torch.special.name(x)``.
WEIGHTS = {"f": 4, "m": 4, "i": 3, "o": 1.5, "n": 4, "N": 2, "l": 3}


def spelled(
    draft: Draft, name: str, forms: str, operands: Sequence[Value], arguments: str, shape: Shape, dtype: str,
    span: Span, saves: bool = True, dense: bool | None = None,
) -> None:  # fmt: skip
    """The call of ``name`` on operands, then on ``arguments`` (text), in one of the forms.

    Of the operands the first is what methods are called on and what is written in place.
    """
    first, names = operands[0], ", ".join(o.name for o in operands)
    form = _form(draft, forms, operands, shape, dtype)
    behind = f", {arguments}" if arguments else ""
    if form in "iN":
        # An operator of single elements may read what it writes.
        _in_place(draft, name, form, operands, arguments, span, saves, elementwise=dense is None)
    elif form == "o":
        out = _out(draft, operands, shape, dtype)
        draft.write(f"torch.{name}({names}{behind}, out={out.name})", out, span, operands, saves=False, named=0.1)
    elif form == "m":
        others = ", ".join([*(o.name for o in operands[1:]), *([arguments] if arguments else [])])
        draft.emit(f"{first.name}.{name}({others})", shape, dtype, span, operands, dense, saves)
    else:
        module = {"f": "torch", "n": "F", "l": "torch.special"}[form]
        draft.emit(f"{module}.{name}({names}{behind})", shape, dtype, span, operands, dense, saves)


def _form(draft: Draft, forms: str, operands: Sequence[Value], shape: Shape, dtype: str) -> str:
    first = operands[0]
    able = draft.writable(first) and first.shape == shape and can_hold(first.dtype, dtype)
    able = able and draft.may_take_grad(first, operands[1:])
    grad = any(o.grad for o in operands)
    allowed = [f for f in forms if not (f in "iN" and not able) and not (f == "o" and grad)]
    return draft.dice.weighted(allowed, [WEIGHTS[f] for f in allowed])


def _in_place(
    draft: Draft,
    name: str,
    form: str,
    operands: Sequence[Value],
    arguments: str,
    span: Span,
    saves: bool,
    elementwise: bool,
) -> None:
    target = operands[0]
    others = [draft.apart(o, target, same=elementwise) for o in operands[1:]]
    given = ", ".join([*others, *([arguments] if arguments else [])])
    if form == "N":
        text = f"F.{name}({target.name}, {given}{', ' if given else ''}inplace=True)"
    else:
        text = f"{target.name}.{name}_({given})"
    draft.write(text, target, span, operands[1:], saves)


def _out(draft: Draft, operands: Sequence[Value], shape: Shape, dtype: str) -> Value:
    """Where ``out=`` writes: an old value, or zeros, turned now and then."""
    memory = [o.storage for o in operands]
    old = draft.existing(
        lambda v: v.shape == shape and v.dtype == dtype and draft.writable(v) and not v.grad
        and not any(v.storage is m for m in memory)
    )  # fmt: skip
    if old is not None and draft.dice.chance(0.6):
        return old
    zero = Span(0, 0, True, False)
    typed = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    if len(shape) == 2 and draft.dice.chance(0.4):
        base = draft.emit(f"torch.zeros({shape[1]}, {shape[0]}{typed})", shape[::-1], dtype, zero, [], dense=True)
        return draft.alias(f"{base.name}.t()", base, permuted(contiguous(base.shape), (1, 0)))
    return draft.emit(f"torch.zeros({sizes(shape)}{typed})", shape, dtype, zero, [], dense=True)


def dims_text(draft: Draft, dims: Sequence[int], rank: int) -> str:
    """Dimensions as text, counted from the front or the back; one alone without brackets mostly."""
    shown = [d - rank if draft.dice.chance(0.4) else d for d in dims]
    if len(shown) == 1 and draft.dice.chance(0.8):
        return str(shown[0])
    return draft.dice.one_of(("({})", "[{}]")).format(", ".join(map(str, shown)) + ("," if len(shown) == 1 else ""))


def dim_text(draft: Draft, dim: int, rank: int) -> str:
    """One dimension as text, counted from the front or the back."""
    return str(dim - rank) if draft.dice.chance(0.45) else str(dim)


def named_dim(draft: Draft, dim: int, rank: int) -> str:
    """A dimension, with ``dim=`` before it or without."""
    return ("dim=" if draft.dice.chance(0.5) else "") + dim_text(draft, dim, rank)


def dtype_of(value: Value) -> str:
    return f"torch.{value.dtype}"
