"""Changes of dtype, complex numbers and their parts, new tensors."""

from __future__ import annotations

import math

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import companion, number, operand, shaped
from fxmorph.programs.generator.promotion import (
    ANY,
    COMPLEX,
    FLOATS,
    NUMBERS,
    promote,
    sort_of,
)
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import broadcast
from fxmorph.programs.generator.spans import TRUTH, NoFit, Span
from fxmorph.programs.generator.spelling import dtype_of
from fxmorph.programs.generator.unary_rows import WIDE

ROWS = Rows()


@ROWS.add("cast", 6)
def _cast(draft: Draft) -> None:
    x = operand(draft, ANY)
    allowed = [d for d in (*FLOATS, "int64", "int32", "int8", "uint8", "bool", "complex64") if d != x.dtype]
    if x.dtype in COMPLEX:
        allowed = ["complex64", "complex128"]
    if not x.exact:
        allowed = [d for d in allowed if sort_of(d) > 1]
    dtype = draft.dice.one_of([d for d in allowed if d != x.dtype])
    narrower = sort_of(dtype) == 2 and not x.span.whole and promote(dtype, x.dtype) != dtype
    whole = x.span.whole or sort_of(dtype) < 2
    lo, hi = (
        (0.0, 1.0)
        if dtype == "bool"
        else (math.trunc(x.span.lo), math.trunc(x.span.hi))
        if sort_of(dtype) == 1
        else x.span[:2]
    )
    if dtype in COMPLEX:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    short = {
        "float32": "float",
        "float64": "double",
        "float16": "half",
        "int64": "long",
        "int32": "int",
        "bool": "bool",
        "bfloat16": "bfloat16",
    }
    texts = [f"{x.name}.to(torch.{dtype})", f"{x.name}.type(torch.{dtype})", f"{x.name}.to(dtype=torch.{dtype})"]
    texts += [f"{x.name}.{short[dtype]}()"] if dtype in short else []
    draft.emit(
        draft.dice.one_of(texts), x.shape, dtype, Span(lo, hi, whole, x.span.rounded or narrower), [x], saves=False
    )


@ROWS.add("type_as", 1)
def _type_as(draft: Draft) -> None:
    x = operand(draft, FLOATS)
    other = draft.take(lambda v: v.dtype in FLOATS and v.dtype != x.dtype)
    draft.emit(
        f"{x.name}.type_as({other.name})", x.shape, other.dtype, x.span._replace(rounded=True), [x, other], saves=False
    )


@ROWS.add("complex", 3)
def _complex(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"))
    y = shaped(draft, x.shape, x.dtype)
    dtype = "complex64" if x.dtype == "float32" else "complex128"
    if draft.dice.chance(0.7):
        draft.emit(f"torch.complex({x.name}, {y.name})", x.shape, dtype, x.span.join(y.span), [x, y])
    else:
        size = x.span.size
        draft.emit(f"torch.polar({x.name}, {y.name})", x.shape, dtype, Span(-size, size), [x, y])


@ROWS.add("complex_parts", 3)
def _complex_parts(draft: Draft) -> None:
    z = operand(draft, COMPLEX)
    part = "float32" if z.dtype == "complex64" else "float64"
    size = z.span.size * 1.5
    kind = draft.dice.below(4)
    if kind == 0:
        draft.emit(
            f"{draft.dice.one_of(('torch.abs({})', '{}.abs()')).format(z.name)}", z.shape, part, Span(0, size), [z]
        )
    elif kind == 1:
        draft.emit(f"torch.view_as_real({z.name}).sum(-1)", z.shape, part, Span(-2 * size, 2 * size), [z])
    elif kind == 2:
        draft.emit(f"{z.name}.conj() * {z.name}", z.shape, z.dtype, Span(-2 * size * size, 2 * size * size), [z])
    else:
        draft.emit(f"torch.real({z.name}) - torch.imag({z.name})", z.shape, part, Span(-2 * size, 2 * size), [z])


@ROWS.add("complex_mul", 2)
def _complex_mul(draft: Draft) -> None:
    z = operand(draft, COMPLEX)
    other = companion(draft, z, (z.dtype,))
    size = 2 * z.span.size * other.span.size
    draft.emit(f"{z.name} * {other.name}", broadcast(z.shape, other.shape), z.dtype, Span(-size, size), [z, other])


@ROWS.add("complex_unary", 2)
def _complex_unary(draft: Draft) -> None:
    z = guarded_complex(draft)
    name, size = draft.dice.one_of((("exp", 30), ("sin", 30), ("cos", 30), ("sigmoid", 0), ("square", 18), ("tanh", 0)))
    if not size:
        raise NoFit("has poles")
    draft.emit(f"torch.{name}({z.name})", z.shape, z.dtype, Span(-size, size), [z])


def guarded_complex(draft: Draft) -> Value:
    """A complex value whose parts are at most 3."""
    z = operand(draft, COMPLEX)
    if z.span.size <= 3:
        return z
    return draft.emit(f"{z.name} / {max(2, math.ceil(z.span.size / 3))}", z.shape, z.dtype, Span(-3, 3), [z])


@ROWS.add("full_like", 2)
def _full_like(draft: Draft) -> None:
    x = operand(draft, WIDE)
    text, span = number(draft, x.dtype)
    typed, dtype = draft.dice.one_of(
        (("", x.dtype), (", dtype=torch.float64", "float64"), (", dtype=torch.float32", "float32"))
    )
    if sort_of(dtype) < 2 and "." in text:
        raise NoFit("a fraction")
    if dtype == "bool":
        text, span = "True", Span(1, 1, True, False)
    kind = draft.dice.below(3)
    made = [
        f"torch.full_like({x.name}, {text}{typed})",
        f"torch.zeros_like({x.name}{typed})",
        f"torch.ones_like({x.name}{typed})",
    ][kind]
    value = (span, Span(0, 0, True, False), Span(1, 1, True, False))[kind]
    draft.emit(made, x.shape, dtype, value, [x], saves=False)


@ROWS.add("new_full", 1)
def _new_full(draft: Draft) -> None:
    x = operand(draft, NUMBERS)
    text, span = number(draft, x.dtype)
    if sort_of(x.dtype) < 2 and "." in text:
        raise NoFit("a fraction")
    shape = (2, 3)
    made = draft.dice.one_of(
        (f"{x.name}.new_full({shape}, {text})", f"torch.full({shape}, {text}, dtype={dtype_of(x)})")
    )
    draft.emit(made, shape, x.dtype, span, [x], dense=True)


@ROWS.add("arange", 2)
def _arange(draft: Draft) -> None:
    n = draft.dice.one_of((1, 3, 5, 7, 8, 16, 17, 33))
    kind = draft.dice.below(4)
    if kind == 0:
        draft.emit(f"torch.arange({n})", (n,), "int64", Span(0, n - 1, True, False), [], dense=True)
    elif kind == 1:
        draft.emit(
            f"torch.arange(1, {2 * n}, 2, dtype=torch.float32)",
            (n,),
            "float32",
            Span(1, 2 * n, True, False),
            [],
            dense=True,
        )
    elif kind == 2:
        draft.emit(f"torch.linspace(-1, 1, {n})", (n,), "float32", Span(-1, 1), [], dense=True)
    else:
        draft.emit(f"torch.eye({n}, {n + 2})", (n, n + 2), "float32", TRUTH, [], dense=True)
