"""Tensors of unknown sizes: parts, joins, and what moves elements."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import z3

from fxmorph.prove.sizes.digits import Axis, Digits, in_ranges, regroup, scaled
from fxmorph.prove.sizes.extents import ONE, ZERO, Poly, Refused, Unsupported, exact, product
from fxmorph.prove.sizes.symbolic_tensor import (
    Sym,
    axis_of,
    choose,
    constant,
    dim,
    drop,
    flatten,
    ints,
    permute,
    regrouped,
    same,
    single,
    span,
    tensor,
    unsqueeze,
    view,
)


def narrow(x: Sym, d: Any, start: Any, length: Any) -> Sym:
    if not x.ndim:
        raise Refused("narrow of no dimension")
    d = dim(x, d)
    n = x.shape[d]
    if isinstance(start, Sym) or not (length >= 0 and -n <= start <= n):
        raise Refused("narrow out of range")
    if start < 0:
        start = start + n
    if not start + length <= n:
        raise Refused("narrow out of range")
    return span(x, d, x.case.poly(start), x.case.poly(length))


def select(x: Sym, d: Any, index: Any) -> Sym:
    if not x.ndim:
        raise Refused("select of no dimension")
    d = dim(x, d)
    n = x.shape[d]
    if not -n <= index < n:
        raise Refused("select out of range")
    if index < 0:
        index = index + n
    return drop(span(x, d, x.case.poly(index), ONE), d)


def sliced(x: Sym, k: int, s: slice) -> Sym:
    n, step = x.shape[k], 1 if s.step is None else int(s.step)
    if step < 1:
        raise Refused("a step that is not positive")

    def bound(v: Any, default: Any) -> Any:
        if v is None:
            return default
        if v < 0:
            v = v + n
        if v < 0:
            return 0
        return n if v > n else v

    start, stop = bound(s.start, 0), bound(s.stop, n)
    if stop < start:
        stop = start
    length = stop - start if step == 1 else (stop - start + step - 1) // step
    return span(x, k, x.case.poly(start), x.case.poly(length), step)


def parts(x: Sym, lengths: Sequence[Any], d: int) -> tuple[Sym, ...]:
    out, at = [], 0
    for n in lengths:
        if n < 0:
            raise Refused("a negative size")
        out.append(narrow(x, d, at, n))
        at = at + n
    if at != x.shape[d]:
        raise Refused("sections of another sum")
    return tuple(out)


def split(x: Sym, size: Any, dim: Any = 0) -> tuple[Sym, ...]:
    d = axis_of(x, dim)
    if isinstance(size, (list, tuple)):
        return parts(x, size, d)
    n = x.shape[d]
    if size < 0 or (size == 0 and n != 0):
        raise Refused("split in parts of such a size")
    if n == 0 or size >= n:
        return (same(x),)
    count = int((n + size - 1) // size)
    return parts(x, [size] * (count - 1) + [n - size * (count - 1)], d)


def chunk(x: Sym, chunks: Any, dim: Any = 0) -> tuple[Sym, ...]:
    d = axis_of(x, dim)
    n, count = x.shape[d], int(chunks)
    if count < 1:
        raise Refused("no chunks")
    size = (n + count - 1) // count
    if n == 0:  # as many empty parts as were asked for
        return tuple(same(x) for _ in range(count))
    whole = 1
    while whole < count and n > size * whole:
        whole += 1
    return parts(x, [size] * (whole - 1) + [n - size * (whole - 1)], d)


def unbind(x: Sym, dim: Any = 0) -> tuple[Sym, ...]:
    d = axis_of(x, dim)
    return tuple(select(x, d, k) for k in range(int(x.shape[d])))


def cat(tensors: Sequence[Sym], dim: Any = 0) -> Sym:
    xs = [tensor(x) for x in tensors]
    if not xs or any(x.ndim == 0 for x in xs):
        raise Refused("cat of nothing")
    if any(x.dtype is not xs[0].dtype for x in xs):
        raise Unsupported("cat of several dtypes")
    case, rank = xs[0].case, max(x.ndim for x in xs)
    if any(x.ndim != rank for x in xs):  # tensors of shape (0,) fit all others
        xs = [x for x in xs if x.ndim != 1 or not case.equal(x.sizes[0], ZERO)]
    if any(x.ndim != rank for x in xs):
        raise Refused("cat of several ranks")
    if rank == 1 and not -1 <= dim < 1 and all(case.equal(x.sizes[0], ZERO) for x in xs):
        raise Unsupported("cat of nothing in no dimension")  # which eager accepts
    d = axis_of(xs[0], dim)
    for k in range(rank):
        if k != d and not all(case.equal(x.sizes[k], xs[0].sizes[k]) for x in xs):
            raise Refused("cat of other sizes")
    along = [[case.norm(f) for f in x.axes[d] if case.norm(f) != ONE] for x in xs]
    inner: list[Poly] = []
    while all(along) and all(a[-1] == along[0][-1] for a in along):
        inner.insert(0, along[0][-1])
        for a in along:
            a.pop()
    counts = [product(a) for a in along]
    axes = [max((x.axes[k] for x in xs), key=len) for k in range(rank)]
    total = ZERO
    for n in counts:
        total = total + n
    axes[d] = (case.norm(total), *inner)

    def cell(ix: Digits) -> Any:
        out, start = None, ZERO
        made = []
        for x, n in zip(xs, counts, strict=True):
            own = (n, *inner)
            digits = [ix[d][0] - case.term(start), *ix[d][1:]]
            at = [
                regroup(case, x.axes[k], own if k == d else axes[k], digits if k == d else ix[k]) for k in range(rank)
            ]
            start = start + n
            made.append((ix[d][0] < case.term(start), x.cell(at)))
        for test, value in reversed(made):
            out = value if out is None else choose(test, value, out)
        return out

    return xs[0].of(axes, cell)


def stack(tensors: Sequence[Sym], dim: Any = 0) -> Sym:
    xs = [tensor(x) for x in tensors]
    if not xs or any(x.ndim != xs[0].ndim for x in xs):
        raise Refused("stack of several ranks")
    for x in xs:
        if not all(x.case.equal(n, m) for n, m in zip(x.sizes, xs[0].sizes, strict=True)):
            raise Refused("stack of other sizes")
    return cat([unsqueeze(x, dim) for x in xs], dim)


def joined_along(least: int, axis: Callable[[int], int]) -> Callable[[Sequence[Sym]], Sym]:
    def call(tensors: Sequence[Sym]) -> Sym:
        xs = [tensor(x) for x in tensors]
        while any(x.ndim < least for x in xs):
            xs = [unsqueeze(x, 0) if x.ndim < least else x for x in xs]
        return cat(xs, axis(xs[0].ndim))

    return call


def flip(x: Sym, *dims: Any) -> Sym:
    ks = [dim(x, d) for d in ints(dims)]
    if len(set(ks)) < len(ks):
        raise Refused("a dimension twice")
    sizes = [[x.case.term(f) for f in axis] for axis in x.axes]

    def cell(ix: Digits) -> Any:
        return x.cell(
            [[n - 1 - i for n, i in zip(sizes[k], ix[k], strict=True)] if k in ks else ix[k] for k in range(x.ndim)]
        )

    return x.of(x.axes, cell)


def roll(x: Sym, shifts: Any, dims: Any = None) -> Sym:
    by = ints([shifts])
    if dims is None or dims in ((), []):
        if len(by) != 1:
            raise Refused("several shifts and no dimension")
        return view(roll(flatten(x), by[0], 0), *x.shape)
    ks = ints([dims])
    if len(by) != len(ks):
        raise Refused("other numbers of shifts and dimensions")
    for shift, d in zip(by, ks, strict=True):
        if not -x.ndim <= d < x.ndim and x.case.equal(x.numel_poly, ZERO):
            raise Unsupported("roll of nothing in no dimension")  # which eager accepts
        if not x.ndim:
            raise Refused("roll of no dimension")
        x = _rolled(x, x.case.poly(shift), dim(x, d))
    return same(x)


def _rolled(x: Sym, shift: Poly, k: int) -> Sym:
    case = x.case
    axis = [case.norm(f) for f in x.axes[k]]
    lead = next((p for p, f in enumerate(axis) if f != ONE), None)
    if lead is None:
        return x
    inner = product(axis[lead + 1 :])
    by = exact(case.norm(shift), inner)
    if by is None:
        x, lead, by = single(x, k), 0, shift
        axis = [x.sizes[k]]
    if case.equal(axis[lead], ZERO):
        return x
    n = case.term(axis[lead])
    s = case.term(case.divmod(by, axis[lead])[1])

    def cell(ix: Digits) -> Any:
        digits = list(ix[k])
        i = digits[lead] - s
        digits[lead] = z3.If(i < 0, i + n, i)
        return x.cell([*ix[:k], digits, *ix[k + 1 :]])

    return x.of(x.axes, cell)


def repeat(x: Sym, *reps: Any) -> Sym:
    counts = ints(reps)
    if len(counts) < x.ndim:
        raise Refused("fewer repetitions than dimensions")
    for _ in range(len(counts) - x.ndim):
        x = unsqueeze(x, 0)
    for n in counts:
        if n < 0:
            raise Refused("a negative repetition")
    axes = [(x.case.poly(n), *axis) for n, axis in zip(counts, x.axes, strict=True)]
    return x.of(axes, lambda ix: x.cell([digits[1:] for digits in ix]))


def tile(x: Sym, *dims: Any) -> Sym:
    counts = ints(dims)
    return repeat(x, *([1] * (x.ndim - len(counts)) + counts))


def repeat_interleave(x: Sym, repeats: Any, dim: Any = None) -> Sym:
    if isinstance(repeats, Sym):
        raise Unsupported("repeat_interleave by a tensor")
    if repeats < 0:
        raise Refused("a negative repetition")
    if dim is None:
        x, dim = flatten(x), 0
    d = axis_of(x, dim)
    axes = [(*axis, x.case.poly(repeats)) if k == d else axis for k, axis in enumerate(x.axes)]
    return x.of(axes, lambda ix: x.cell([digits[:-1] if k == d else digits for k, digits in enumerate(ix)]))


def pad(x: Sym, pad: Sequence[Any], mode: str = "constant", value: Any = None) -> Sym:
    widths = list(pad)
    if mode != "constant":
        raise Unsupported(f"padding by {mode}")
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise Refused("padding of other dimensions")
    fill = constant(x.case, 0 if value is None else value, x.dtype)
    for p in range(len(widths) // 2):
        x = _padded(x, x.ndim - 1 - p, widths[2 * p], widths[2 * p + 1], fill)
    return same(x)


def _padded(x: Sym, k: int, left: Any, right: Any, fill: Any) -> Sym:
    case, n = x.case, x.shape[k]
    if not n + min(left, 0) + min(right, 0) >= 0:  # cropping comes first
        raise Refused("padding below nothing")
    if left == 0 and right == 0:
        return x
    x = single(x, k)
    size, start = case.term(x.sizes[k]), case.term(case.poly(left))

    def cell(ix: Digits) -> Any:
        i = ix[k][0] - start
        inside = z3.And(i >= 0, i < size)
        return choose(inside, x.cell([*ix[:k], [i], *ix[k + 1 :]]), fill)

    return x.of((*x.axes[:k], (case.poly(n + left + right),), *x.axes[k + 1 :]), cell)


def diagonal(x: Sym, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Sym:
    i, j = dim(x, dim1), dim(x, dim2)
    if i == j or x.ndim < 2:
        raise Refused("the diagonal of one dimension")
    case = x.case
    x = single(single(x, i), j)
    rows, columns = (x.shape[i], x.shape[j] - offset) if offset >= 0 else (x.shape[i] + offset, x.shape[j])
    length = rows if rows <= columns else columns
    if length < 0:
        length = 0
    down, right = (0, offset) if offset >= 0 else (-offset, 0)
    a, b = case.term(case.poly(down)), case.term(case.poly(right))
    rest = [k for k in range(x.ndim) if k not in (i, j)]

    def cell(ix: Digits) -> Any:
        full = dict(zip(rest, ix[:-1], strict=True))
        full[i], full[j] = [ix[-1][0] + a], [ix[-1][0] + b]
        return x.cell([full[k] for k in range(x.ndim)])

    return x.of([*(x.axes[k] for k in rest), (case.poly(length),)], cell)


def diag_embed(x: Sym, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Sym:
    if not x.ndim or (offset, dim1, dim2) != (0, -2, -1):
        raise Unsupported("diag_embed of other dimensions")
    x = single(x, x.ndim - 1)
    zero = constant(x.case, 0, x.dtype)
    return x.of((*x.axes, x.axes[-1]), lambda ix: choose(ix[-1][0] == ix[-2][0], x.cell(ix[:-1]), zero))


def triangle(lower: bool) -> Callable[..., Sym]:
    def call(x: Sym, diagonal: Any = 0) -> Sym:
        if x.ndim < 2:
            raise Refused("a triangle of fewer than two dimensions")
        x = single(single(x, x.ndim - 1), x.ndim - 2)
        zero, by = constant(x.case, 0, x.dtype), x.case.term(x.case.poly(diagonal))

        def cell(ix: Digits) -> Any:
            row, column = ix[-2][0], ix[-1][0]
            return choose(column <= row + by if lower else column >= row + by, x.cell(ix), zero)

        return x.of(x.axes, cell)

    return call


def unfold(x: Sym, d: Any, size: Any, step: Any) -> Sym:
    k = dim(x, d)
    if not x.ndim:
        raise Unsupported("unfold of no dimension")
    n = x.shape[k]
    if size < 0 or step < 1 or size > n:
        raise Refused("unfold out of range")
    case, by, count = x.case, x.case.poly(step), x.case.poly((n - size) // step + 1)
    x = single(x, k)
    axes: list[Axis] = [*x.axes, (case.poly(size),)]
    axes[k] = (count,)
    length = case.term(x.sizes[k])

    def cell(ix: Digits) -> Any:
        at = scaled(case, ix[k][0], case.norm(count).constant or 0, case.norm(by)) + ix[-1][0]
        # The last window ends in range, by the choice of their number.
        inside = z3.And(in_ranges(case, [axes[k], axes[-1]], [ix[k], ix[-1]]))
        case.reads.append(z3.Implies(inside, z3.And(at >= 0, at < length)))
        return x.cell([*ix[:k], [at], *ix[k + 1 : -1]])

    return x.of(axes, cell)


def pixel_shuffle(x: Sym, r: Any) -> Sym:
    if x.ndim < 3 or not r >= 1:
        raise Refused("pixel_shuffle of such a tensor")
    *lead, c, h, w = x.shape
    if c % (r * r) != 0:
        raise Refused("channels do not divide")
    n = len(lead)
    y = regrouped(x, [x.case.poly(s) for s in (*lead, c // (r * r), r, r, h, w)])
    y = permute(y, *range(n), n, n + 3, n + 1, n + 4, n + 2)
    return regrouped(y, [x.case.poly(s) for s in (*lead, c // (r * r), h * r, w * r)])


def pixel_unshuffle(x: Sym, r: Any) -> Sym:
    if x.ndim < 3 or not r >= 1:
        raise Refused("pixel_unshuffle of such a tensor")
    *lead, c, h, w = x.shape
    if h % r != 0 or w % r != 0:
        raise Refused("sizes do not divide")
    if x.case.equal(x.numel_poly, ZERO):
        return same(x)  # eager leaves what is empty as it is, its sizes too
    n = len(lead)
    y = regrouped(x, [x.case.poly(s) for s in (*lead, c, h // r, r, w // r, r)])
    y = permute(y, *range(n), n, n + 2, n + 4, n + 1, n + 3)
    return regrouped(y, [x.case.poly(s) for s in (*lead, c * r * r, h // r, w // r)])


def einsum(equation: str, *operands: Any) -> Sym:
    left, _, right = equation.replace(" ", "").partition("->")
    if (
        len(operands) != 1
        or sorted(left) != sorted(right)
        or len(set(left)) < len(left)
        or not set(left) <= set(string.ascii_letters)
    ):
        raise Unsupported("einsum that is not a permutation")
    x = tensor(operands[0])
    if len(left) != x.ndim:
        raise Refused("einsum of another rank")
    return permute(x, *(left.index(c) for c in right))
