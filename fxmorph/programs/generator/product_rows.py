"""Products of matrices, of all ranks."""

from __future__ import annotations

from math import prod

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import factor, guarded, operand, shaped
from fxmorph.programs.generator.promotion import FLOATS, sort_of
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import MOST, Shape, broadcast
from fxmorph.programs.generator.spans import NoFit, Span
from fxmorph.programs.generator.spelling import spelled

ROWS = Rows()


#: Dtypes of factors.
TYPES = (*FLOATS, "int64", "complex64")


def product(a: Value, b: Value, n: int) -> Span:
    """The span of sums of ``n`` products."""
    size = a.span.size * b.span.size * n * (2 if sort_of(a.dtype) == 3 else 1)
    whole = a.span.whole and b.span.whole
    return Span(-size, size, whole, not whole or a.span.rounded or b.span.rounded)


def _factors(draft: Draft, rank: int, dtypes: tuple[str, ...] = TYPES) -> tuple[Value, Value, int]:
    """Two values of one dtype whose last dimensions multiply as matrices."""
    a = operand(draft, dtypes, (rank, rank))
    n = draft.dice.one_of((1, 2, 3, 5, 8, 16, 17))
    b = shaped(draft, (*a.shape[:-2], a.shape[-1], n), a.dtype, reuse=0.6)
    return a, b, n


@ROWS.add("matmul", 6)
def _matmul(draft: Draft) -> None:
    a = operand(draft, TYPES, (1, 5))
    k, n = a.shape[-1], draft.dice.one_of((1, 2, 3, 5, 7, 8, 16))
    if a.rank == 1:
        front = draft.dice.one_of(((), (), (2,)))
        shape: Shape = draft.dice.one_of(((k,), (*front, k, n)))
    else:
        batch = a.shape[:-2]
        shape = draft.dice.one_of(
            ((k,), (k, n), (*batch, k, n), (*(1 for _ in batch), k, n), (2, *(1 for _ in batch), k, n))
        )
    b = shaped(draft, shape, a.dtype, reuse=0.6)
    out = _matmul_shape(a.shape, b.shape)
    if draft.dice.chance(0.5):
        draft.emit(f"{a.name} @ {b.name}", out, a.dtype, product(a, b, k), [a, b], dense=False)
    else:
        # Eager folds unlike ranks and then refuses some ``out=``.
        spelled(
            draft,
            "matmul",
            "ffmo" if a.rank == b.rank else "fm",
            [a, b],
            "",
            out,
            a.dtype,
            product(a, b, k),
            dense=False,
        )


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    batch = broadcast(a[:-2], b[:-2])
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


@ROWS.add("mm", 3)
def _mm(draft: Draft) -> None:
    a, b, n = _factors(draft, 2)
    spelled(draft, "mm", "fmo", [a, b], "", (a.shape[0], n), a.dtype, product(a, b, a.shape[1]), dense=False)


@ROWS.add("bmm", 3)
def _bmm(draft: Draft) -> None:
    a, b, n = _factors(draft, 3)
    spelled(draft, "bmm", "fmo", [a, b], "", (*a.shape[:2], n), a.dtype, product(a, b, a.shape[2]), dense=False)


@ROWS.add("vectors", 2)
def _vectors(draft: Draft) -> None:
    a = operand(draft, TYPES, (1, 1))
    name = draft.dice.one_of(("dot", "vdot", "inner", "outer", "kron", "mv"))
    if name == "mv":
        rows = shaped(draft, (draft.dice.between(1, 7), a.shape[0]), a.dtype)
        span = product(rows, a, a.shape[0])
        spelled(draft, "mv", "fmo", [rows, a], "", (rows.shape[0],), a.dtype, span, dense=False)
    elif name in ("outer", "kron"):
        b = operand(draft, (a.dtype,), (1, 1))
        n, m = a.shape[0], b.shape[0]
        if n * m > MOST:
            raise NoFit("too many elements")
        draft.emit(
            f"torch.{name}({a.name}, {b.name})",
            (n, m) if name == "outer" else (n * m,),
            a.dtype,
            product(a, b, 1),
            [a, b],
            dense=False,
        )
    else:
        b = shaped(draft, a.shape, a.dtype, reuse=0.6)
        draft.emit(f"torch.{name}({a.name}, {b.name})", (), a.dtype, product(a, b, a.shape[0]), [a, b], dense=False)


def _scales(draft: Draft, dtype: str) -> tuple[str, float, float]:
    """``beta`` and ``alpha`` as text, and their sizes."""
    beta = draft.dice.one_of(("", factor(draft, dtype), "0.5" if sort_of(dtype) == 2 else "2"))
    alpha = draft.dice.one_of(("", factor(draft, dtype)))
    text = ", ".join(([f"beta={beta}"] if beta else []) + ([f"alpha={alpha}"] if alpha else []))
    return text, abs(float(beta or 1)), abs(float(alpha or 1))


def _added(bias: Value, inner: Span, beta: float, alpha: float) -> Span:
    size = bias.span.size * beta + inner.size * alpha
    whole = bias.span.whole and inner.whole and beta % 1 == 0 and alpha % 1 == 0
    return Span(-size, size, whole, not whole or bias.span.rounded or inner.rounded)


@ROWS.add("addmm", 5)
def _addmm(draft: Draft) -> None:
    a, b, n = _factors(draft, 2)
    m = a.shape[0]
    bias = shaped(draft, draft.dice.one_of(((n,), (m, n), (1, n), (m, 1), ())), a.dtype)
    text, beta, alpha = _scales(draft, a.dtype)
    span = _added(bias, product(a, b, a.shape[1]), beta, alpha)
    spelled(draft, "addmm", "fmio", [bias, a, b], text, (m, n), a.dtype, span, dense=False)


@ROWS.add("baddbmm", 4)
def _baddbmm(draft: Draft) -> None:
    a, b, n = _factors(draft, 3)
    batch, m = a.shape[:2]
    name = draft.dice.one_of(("baddbmm", "baddbmm", "addbmm"))
    shape: Shape
    text, beta, alpha = _scales(draft, a.dtype)
    if name == "baddbmm":
        bias = shaped(draft, draft.dice.one_of(((batch, m, n), (1, m, n), (n,), (batch, 1, n))), a.dtype)
        span, shape = _added(bias, product(a, b, a.shape[2]), beta, alpha), (batch, m, n)
    else:
        bias = shaped(draft, draft.dice.one_of(((m, n), (1, n))), a.dtype)
        span, shape = _added(bias, product(a, b, a.shape[2] * batch), beta, alpha), (m, n)
    spelled(draft, name, "fmio", [bias, a, b], text, shape, a.dtype, span, dense=False)


@ROWS.add("addmv", 2)
def _addmv(draft: Draft) -> None:
    v = operand(draft, FLOATS, (1, 1))
    m = draft.dice.between(1, 7)
    text, beta, alpha = _scales(draft, v.dtype)
    if draft.dice.chance(0.5):
        a = shaped(draft, (m, v.shape[0]), v.dtype)
        bias = shaped(draft, (m,), v.dtype)
        spelled(
            draft,
            "addmv",
            "fmi",
            [bias, a, v],
            text,
            (m,),
            v.dtype,
            _added(bias, product(a, v, v.shape[0]), beta, alpha),
            dense=False,
        )
    else:
        w = shaped(draft, (m,), v.dtype)
        bias = shaped(draft, (v.shape[0], m), v.dtype)
        spelled(
            draft,
            "addr",
            "fmi",
            [bias, v, w],
            text,
            bias.shape,
            v.dtype,
            _added(bias, product(v, w, 1), beta, alpha),
            dense=False,
        )


#: Equations with sizes by letter.
EQUATIONS = (
    "ij,jk->ik",
    "ij,kj->ik",
    "bij,bjk->bik",
    "bhqd,bhkd->bhqk",
    "bqhd,bkhd->bhqk",
    "ij,j->i",
    "ij,ij->",
    "ij->ji",
    "ij->j",
    "bij->bi",
    "ii->i",
    "ij,ik->ijk",
    "bij,jk->bik",
    "abc,cd,ae->bde",
    "i,j->ij",
    "...ij,...jk->...ik",
)


@ROWS.add("einsum", 4)
def _einsum(draft: Draft) -> None:
    equation = draft.dice.one_of(EQUATIONS)
    inputs, out = equation.split("->")
    sizes: dict[str, int] = {}
    parts: list[Value] = []
    for letters in inputs.split(","):
        dotted, letters = letters.startswith("..."), letters.replace("...", "")
        for letter in letters:
            sizes.setdefault(letter, draft.dice.one_of((1, 2, 3, 4, 5, 7, 8, 9)))
        shape = tuple(sizes[c] for c in letters)
        parts.append(
            shaped(draft, (2, *shape) if dotted else shape, "float32" if not parts else parts[0].dtype, reuse=0.7)
        )
    summed = prod(n for letter, n in sizes.items() if letter not in out)
    size = float(summed)
    for part in parts:
        size *= part.span.size
    whole = all(p.span.whole for p in parts)
    shape = tuple(sizes[c] for c in out.replace("...", ""))
    span = Span(-size, size, whole, not whole or any(p.span.rounded for p in parts))
    names, shape = ", ".join(p.name for p in parts), (2, *shape) if "..." in out else shape
    if (len(parts) == 1 and summed == 1) or equation == "ii->i":
        raise NoFit("may be a view")
    draft.emit(f"torch.einsum('{equation}', {names})", shape, parts[0].dtype, span, parts, dense=False)


@ROWS.add("tensordot", 2)
def _tensordot(draft: Draft) -> None:
    a = operand(draft, ("float32", "float64"), (2, 3), 1)
    if draft.dice.chance(0.5):
        b = shaped(draft, (a.shape[-1], draft.dice.between(1, 5)), a.dtype)
        draft.emit(
            f"torch.tensordot({a.name}, {b.name}, dims=1)",
            (*a.shape[:-1], b.shape[1]),
            a.dtype,
            product(a, b, a.shape[-1]),
            [a, b],
            dense=False,
        )
    else:
        b = shaped(draft, (draft.dice.between(1, 5), a.shape[0]), a.dtype)
        draft.emit(
            f"torch.tensordot({a.name}, {b.name}, dims=([0], [1]))",
            (*a.shape[1:], b.shape[0]),
            a.dtype,
            product(a, b, a.shape[0]),
            [a, b],
            dense=False,
        )


@ROWS.add("linear", 6)
def _linear(draft: Draft) -> None:
    x = operand(draft, FLOATS, (1, 4))
    n = draft.dice.one_of((1, 2, 3, 5, 8, 16, 17))
    w = shaped(draft, (n, x.shape[-1]), x.dtype)
    span = product(x, w, x.shape[-1])
    if draft.dice.chance(0.3):
        draft.emit(f"F.linear({x.name}, {w.name})", (*x.shape[:-1], n), x.dtype, span, [x, w], dense=False)
        return
    b = shaped(draft, (n,), x.dtype)
    draft.emit(
        f"F.linear({x.name}, {w.name}, {b.name})",
        (*x.shape[:-1], n),
        x.dtype,
        _added(b, span, 1, 1),
        [x, w, b],
        dense=False,
    )


@ROWS.add("bilinear", 1)
def _bilinear(draft: Draft) -> None:
    a = guarded(draft, operand(draft, ("float32",), (2, 2), 1), -6, 6)
    b = shaped(draft, (a.shape[0], draft.dice.between(1, 5)), a.dtype)
    w = shaped(draft, (3, a.shape[1], b.shape[1]), a.dtype)
    size = a.span.size * b.span.size * w.span.size * a.shape[1] * b.shape[1]
    draft.emit(
        f"F.bilinear({a.name}, {b.name}, {w.name})", (a.shape[0], 3), a.dtype, Span(-size, size), [a, b, w], dense=False
    )
