"""Tensors of unknown sizes: index tensors, strides, values, and all operations by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import z3

from fxmorph.prove.sizes.digits import Axis, Digits, in_ranges, regroup, scaled
from fxmorph.prove.sizes.extents import ONE, ZERO, Case, NoFit, Poly, Refused, Unsupported, product
from fxmorph.prove.sizes.symbolic_moves import (
    cat,
    chunk,
    diag_embed,
    diagonal,
    einsum,
    flip,
    joined_along,
    narrow,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    repeat,
    repeat_interleave,
    roll,
    select,
    sliced,
    split,
    stack,
    tile,
    triangle,
    unbind,
    unfold,
)
from fxmorph.prove.sizes.symbolic_tensor import (
    FUNCTIONS,
    METHODS,
    Sym,
    at_index,
    axis_of,
    broadcast,
    choose,
    constant,
    copied,
    dim,
    expand,
    flatten,
    ints,
    movedim,
    permute,
    regrouped,
    same,
    span,
    squeeze,
    t,
    tensor,
    to,
    transpose,
    type_as,
    unflatten,
    unsqueeze,
    view,
)


def getitem(x: Sym, key: Any) -> Sym:
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if any(isinstance(k, bool | list) for k in keys):
        raise Unsupported("indexing with a list or a bool")
    if used > x.ndim:
        raise Refused("too many indices")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at, indices = 0, dict[int, Sym]()
    for place, k in enumerate(keys):
        if k is Ellipsis:
            at = x.ndim - sum(1 for later in keys[place + 1 :] if later is not None)
        elif k is None:
            x, at = unsqueeze(x, at), at + 1
        elif isinstance(k, slice):
            x, at = sliced(x, at, k), at + 1
        elif isinstance(k, Sym):
            indices[at], at = k, at + 1
        else:
            x = select(x, at, k)
    return _advanced(x, indices) if indices else same(x)


def _advanced(x: Sym, indices: dict[int, Sym], wrap: bool = True) -> Sym:
    """Index tensors, one per axis."""
    places = sorted(indices)
    for index in indices.values():
        _positions(index)
    together = places == list(range(places[0], places[-1] + 1))
    out = broadcast(*(indices[k] for k in places))
    rest = [k for k in range(x.ndim) if k not in indices]
    before = sum(k < places[0] for k in rest) if together else 0
    wide = out[0].ndim

    def cell(ix: Digits) -> Any:
        outer, mine, inner = ix[:before], ix[before : before + wide], ix[before + wide :]
        full: dict[int, list[Any]] = dict(zip(rest, outer + inner, strict=True))
        guard, ok = in_ranges(x.case, out[0].axes, mine), []
        for k, index in zip(places, out, strict=True):
            full[k], fine = _lookup(x, k, at_index(index, out[0], mine), wrap)
            ok.append(fine)
        return _read(x, [full[k] for k in range(x.ndim)], ok, guard)

    axes = [x.axes[k] for k in rest[:before]] + list(out[0].axes) + [x.axes[k] for k in rest[before:]]
    return x.of(axes, cell)


def _lookup(x: Sym, k: int, value: Any, wrap: bool) -> tuple[list[Any], Any]:
    """Digits of an axis for an index that is a value, and whether it is in range."""
    known = x.case.joined.get(value.get_id())
    if known and x.case.norm(product(known[1])) == x.sizes[k]:  # digits are in range, so is what they make
        return regroup(x.case, x.axes[k], known[1], known[2]), x.case.bool_val(True)
    size = x.case.term(x.sizes[k])
    if wrap:
        value = z3.If(value < 0, value + size, value)
    return regroup(x.case, x.axes[k], (x.sizes[k],), [value]), z3.And(value >= 0, value < size)


def _read(x: Sym, digits: Digits, ok: Sequence[Any], guard: Sequence[Any]) -> Any:
    """What is read, anything where that is out of range."""
    fine = z3.And([*ok, x.case.bool_val(True)])
    if x.case.assume_reads:
        x.case.reads.append(z3.Implies(z3.And([*guard, x.case.bool_val(True)]), fine))
        return x.cell(digits)
    return choose(fine, x.cell(digits), x.case.int_var("unknown") if _sort(x) == "int" else None)


def _sort(x: Sym) -> str:
    return "bool" if x.dtype is torch.bool else "int"


def _positions(index: Sym) -> None:
    if index.dtype is not torch.int64:
        raise Unsupported("an index that is not int64")


def index_select(x: Sym, d: Any, index: Sym) -> Sym:
    d = dim(x, d)
    if index.ndim != 1 or not x.ndim:
        raise Unsupported("index_select of other ranks")
    _positions(index)

    def cell(ix: Digits) -> Any:
        digits, ok = _lookup(x, d, index.cell([ix[d]]), wrap=False)
        return _read(x, [*ix[:d], digits, *ix[d + 1 :]], [ok], in_ranges(x.case, index.axes, [ix[d]]))

    return x.of((*x.axes[:d], index.axes[0], *x.axes[d + 1 :]), cell)


def gather(x: Sym, d: Any, index: Sym) -> Sym:
    d = dim(x, d)
    if index.ndim != x.ndim or not x.ndim:
        raise Unsupported("gather of other ranks")
    _positions(index)
    for k in range(x.ndim):
        if k != d and not x.case.at_least(x.sizes[k], index.sizes[k]):
            raise Refused("gather with an index larger than the tensor")
    narrowed = x
    for k in range(x.ndim):
        if k != d:
            narrowed = span(narrowed, k, ZERO, index.sizes[k])

    def cell(ix: Digits) -> Any:
        digits, ok = _lookup(narrowed, d, index.cell(ix), wrap=False)
        at = [digits if k == d else regroup(x.case, narrowed.axes[k], index.axes[k], ix[k]) for k in range(x.ndim)]
        return _read(narrowed, at, [ok], in_ranges(x.case, index.axes, ix))

    return x.of(index.axes, cell)


def embedding(index: Sym, weight: Sym) -> Sym:
    if weight.ndim != 2:
        raise Refused("a table of another rank")
    return _advanced(weight, {0: index}, wrap=False)


def take(x: Sym, index: Sym) -> Sym:
    return _advanced(regrouped(x, [x.numel_poly]), {0: index})


def as_strided(x: Sym, size: Any, stride: Any, storage_offset: Any = None) -> Sym:
    """Where every new stride is a sum of old ones, or a row of the whole of row-major memory."""
    if x.memory is None:
        raise Unsupported("as_strided of a computed tensor")
    case, offset, dense = x.case, x.memory[1], x.memory[2]
    strides = [case.norm(s) for s in x.memory[0]]
    sizes, steps = [case.poly(n) for n in size], [case.poly(s) for s in stride]
    start = offset if storage_offset is None else case.poly(storage_offset)
    if len(sizes) != len(steps) or any(not case.at_least(n, ZERO) for n in sizes):
        raise Refused("as_strided of such sizes")
    if case.norm(start - offset) == ZERO and dense and case.norm(product(sizes)) == x.numel_poly:
        rows = [product(sizes[k + 1 :]) for k in range(len(sizes))]
        if all(case.norm(a - b) == ZERO for a, b, n in zip(steps, rows, sizes, strict=True) if case.norm(n) != ONE):
            return regrouped(x, sizes)
    by, moves = (
        _in_strides(case, start - offset, strides),
        [
            [ZERO] * len(strides) if n == ONE else _in_strides(case, s, strides)
            for s, n in zip(steps, sizes, strict=True)
        ],
    )
    axes: list[Axis] = [(n,) for n in sizes]
    same_as: dict[int, int] = {}
    for k in range(x.ndim):  # an axis that is taken as it is keeps its factors
        users = [j for j in range(len(sizes)) if moves[j][k] != ZERO]
        if (
            by[k] == ZERO
            and len(users) == 1
            and moves[users[0]] == [ONE if m == k else ZERO for m in range(x.ndim)]
            and sizes[users[0]] == x.sizes[k]
        ):
            same_as[k] = users[0]
            axes[users[0]] = x.axes[k]

    def cell(ix: Digits) -> Any:
        at, ok = [], []
        for k in range(x.ndim):
            if k in same_as:
                at.append(ix[same_as[k]])
                continue
            place = case.term(by[k])
            for j, move in enumerate(moves):
                if move[k] != ZERO:
                    place = place + scaled(case, ix[j][0], case.norm(sizes[j]).constant or 0, case.norm(move[k]))
            digits, fine = _lookup(x, k, place, wrap=False)
            at.append(digits)
            ok.append(fine)
        return _read(x, at, ok, in_ranges(case, axes, ix))

    return x.of(axes, cell)


def _in_strides(case: Case, p: Poly, strides: Sequence[Poly]) -> list[Poly]:
    """A number of elements as steps along the axes."""
    left, out = case.norm(p), []
    for s in strides:
        quotient, left = left.divide(s)
        out.append(quotient)
    if left != ZERO:
        raise NoFit("a stride that is not made of those of the tensor")
    return out


def full(case: Case, shape: Sequence[Any], value: Any, dtype: Any) -> Sym:
    for n in shape:
        if n < 0:
            raise Refused("a negative size")
    cell = constant(case, value, dtype)
    return Sym(case, tuple((case.poly(n),) for n in shape), lambda ix: cell, dtype)


def filled_like(value: Any) -> Callable[..., Sym]:
    def call(x: Sym, *rest: Any, dtype: Any = None, **_: Any) -> Sym:
        made = full(x.case, x.shape, rest[0] if value is None else value, x.dtype if dtype is None else dtype)
        return made.of(x.axes, made.cell)

    return call


def new_filled(value: Any) -> Callable[..., Sym]:
    def call(x: Sym, *sizes: Any, dtype: Any = None, **_: Any) -> Sym:
        shape = ints(sizes) if value is not None else list(sizes[0])
        return full(x.case, shape, sizes[1] if value is None else value, x.dtype if dtype is None else dtype)

    return call


def compare(name: str, x: Any, *others: Any) -> Sym:
    """Comparisons and sums of what is known: positions, not data."""
    if name == "invert" and x.dtype is torch.bool:
        return x.of(x.axes, lambda ix: z3.Not(x.cell(ix)))
    if name not in ("eq", "ne", "lt", "le", "gt", "ge") or len(others) != 1:
        raise Unsupported(f"arithmetic: {name}")
    y = others[0]
    if not isinstance(y, Sym):
        number = x.case.term(x.case.poly(y))
        y = Sym(x.case, (), lambda ix: number, torch.int64)
    if x.dtype is not torch.int64 or y.dtype is not torch.int64:
        raise Unsupported(f"arithmetic: {name}")
    a, b = broadcast(x, y)
    tests = {
        "eq": lambda p, q: p == q, "ne": lambda p, q: p != q, "lt": lambda p, q: p < q,
        "le": lambda p, q: p <= q, "gt": lambda p, q: p > q, "ge": lambda p, q: p >= q,
    }  # fmt: skip
    return Sym(x.case, a.axes, lambda ix: tests[name](a.cell(ix), at_index(b, a, ix)), torch.bool)


def where(mask: Sym, yes: Any, no: Any) -> Sym:
    if mask.dtype is not torch.bool:
        raise Unsupported("where by a value")
    tensors = [v for v in (yes, no) if isinstance(v, Sym)]
    if not tensors or any(v.dtype is not tensors[0].dtype for v in tensors):
        raise Unsupported("where of several dtypes")
    case, dtype = mask.case, tensors[0].dtype
    if len(tensors) < 2:
        raise Unsupported("where with a number")  # which may change the dtype
    m, a, b = broadcast(mask, *tensors)
    like = max((a, b, m), key=lambda s: sum(map(len, s.axes)))
    return Sym(case, like.axes, lambda ix: choose(*(at_index(s, like, ix) for s in (m, a, b))), dtype)


def dropout(x: Sym, p: float = 0.5, training: bool = True, inplace: bool = False) -> Sym:
    if (training and p) or inplace:
        raise Unsupported("dropout")
    return same(x)


def sort(x: Sym, dim: Any = -1, **_: Any) -> Any:
    d = axis_of(x, dim)
    if x.sizes[d] != ONE:
        raise Unsupported("sort")
    return _Sorted(same(x))


@dataclass(frozen=True)
class _Sorted:
    values: Sym

    def __getitem__(self, k: int) -> Sym:
        if k:
            raise Unsupported("indices of sort")
        return self.values


METHODS |= {
    "getitem": getitem, "compare": lambda x, name, *others: compare(name, x, *others),
    "permute": permute, "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "t": t,
    "adjoint": lambda x: x.mT, "movedim": movedim, "moveaxis": movedim, "unsqueeze": unsqueeze, "squeeze": squeeze,
    "view": view, "reshape": view, "flatten": flatten, "ravel": lambda x: view(x, -1), "unflatten": unflatten,
    "view_as": lambda x, y: view(x, *y.shape), "reshape_as": lambda x, y: view(x, *y.shape),
    "expand": expand, "expand_as": lambda x, y: expand(x, *y.shape), "broadcast_to": expand,
    "narrow": narrow, "select": select, "split": split, "chunk": chunk, "unbind": unbind,
    "split_with_sizes": split, "flip": flip, "fliplr": lambda x: flip(x, 1), "flipud": lambda x: flip(x, 0),
    "roll": roll, "repeat": repeat, "tile": tile, "repeat_interleave": repeat_interleave,
    "contiguous": copied, "clone": copied, "alias": same, "detach": same, "to": to, "type_as": type_as,
    "diagonal": diagonal, "diag_embed": diag_embed, "tril": triangle(True), "triu": triangle(False),
    "unfold": unfold, "as_strided": as_strided, "index_select": index_select, "gather": gather, "take": take,
    "take_along_dim": lambda x, index, dim: gather(x, dim, index), "sort": sort,
    "masked_fill": lambda x, mask, value: where(mask, full(x.case, (), value, x.dtype), x),
    "where": lambda x, mask, other: where(mask, x, other),
    "new_zeros": new_filled(0), "new_ones": new_filled(1), "new_full": new_filled(None),
}  # fmt: skip

#: Methods that are no functions of torch.
NOT_FUNCTIONS = "getitem compare expand view repeat to new_zeros new_ones new_full contiguous".split()

FUNCTIONS |= {
    **{n: f for n, f in METHODS.items() if n not in NOT_FUNCTIONS},
    "cat": cat, "concat": cat, "concatenate": cat, "stack": stack, "where": where, "einsum": einsum,
    "hstack": lambda xs: joined_along(1, lambda n: 0 if n == 1 else 1)(xs), "vstack": joined_along(2, lambda n: 0),
    "pad": pad, "constant_pad_nd": lambda x, pad_, value=0: pad(x, pad_, value=value),
    "embedding": embedding, "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle, "dropout": dropout,
    "zeros_like": filled_like(0), "ones_like": filled_like(1), "full_like": filled_like(None),
    "broadcast_tensors": lambda *xs: tuple(broadcast(*(map(tensor, xs)))), "numel": lambda x: x.numel(),
}  # fmt: skip


def factories(case: Case) -> dict[str, Callable[..., Any]]:
    """Functions that make tensors of nothing."""

    def arange(*bounds: Any, dtype: Any = None, **_: Any) -> Sym:
        if dtype not in (None, torch.int64) or any(isinstance(b, float) for b in bounds):
            raise Unsupported("arange of another dtype")
        start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        by = int(step)
        if by == 0:
            raise Refused("arange with step 0")
        span = end - start if by > 0 else start - end
        if span < 0:
            raise Refused("arange backwards")
        count, first = case.poly((span + abs(by) - 1) // abs(by)), case.term(case.poly(start))
        plain = by == 1 and start == 0
        return Sym(case, ((count,),), lambda ix: ix[0][0] if plain else ix[0][0] * by + first, torch.int64)

    def make(value: Any) -> Callable[..., Sym]:
        def call(*sizes: Any, dtype: Any = None, **_: Any) -> Sym:
            shape = ints(sizes) if value is not None else list(sizes[0])
            return full(case, shape, sizes[1] if value is None else value, "default" if dtype is None else dtype)

        return call

    return {"arange": arange, "zeros": make(0), "ones": make(1), "full": make(None)}
