"""Tensors of unknown sizes, as functions from mixed-radix indices to cells.

An axis is a list of factors and an index into it a list of digits, one per factor, as layouts
are written in mixed radix: a view that splits or merges axes regroups digits and computes
nothing.  What moves elements (flip, roll, slices, cat) is linear in one digit.  Where one side
has an axis as one factor and the other as several, digits are converted if all factors but one
are numbers; otherwise :class:`NoFit`.

Strides are not modelled: a view that eager refuses because of strides is taken to succeed.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import z3

from fxmorph.prove.extents import (
    ONE,
    ZERO,
    Case,
    Extent,
    NoFit,
    Poly,
    Refused,
    Unsupported,
    exact,
    product,
)

Axis = tuple[Poly, ...]
Digits = list[list[Any]]
#: Products of an unknown with a digit of fewer values than this are written out by cases.
FEW = 17


class Shape(tuple):
    """What ``x.shape`` gives."""

    def numel(self) -> Any:
        out: Any = 1
        for n in self:
            out = out * n
        return out


# ---------------------------------------------------------------- digits


def regroup(case: Case, want: Sequence[Poly], have: Sequence[Poly], digits: Sequence[Any]) -> list[Any]:
    """Digits for the factors ``want`` from digits for ``have``, which multiply to the same."""
    want, have = [case.norm(f) for f in want], [case.norm(f) for f in have]
    zero = case.int_val(0)
    if ZERO in want or ZERO in have:
        return [zero] * len(want)  # there is no index
    kept = [(f, d) for f, d in zip(have, digits, strict=True) if f != ONE]
    needed = [f for f in want if f != ONE]
    out: list[Any] = []
    while needed or kept:
        take, give = _block(needed, [f for f, _ in kept])
        factors, parts = [f for f, _ in kept[:give]], [d for _, d in kept[:give]]
        if take == give == 1:
            out += parts
        else:
            out += _cut(case, needed[:take], _join(case, factors, parts))
        needed, kept = needed[take:], kept[give:]
    left = iter(out)
    return [zero if f == ONE else next(left) for f in want]


def _block(want: Sequence[Poly], have: Sequence[Poly]) -> tuple[int, int]:
    """How many of each make the first equal products."""
    seen, p = {}, ONE
    for k, f in enumerate(have):
        p = p * f
        seen.setdefault(p, k + 1)
    p = ONE
    for k, f in enumerate(want):
        p = p * f
        if p in seen:
            return k + 1, seen[p]
    raise NoFit("the indices of the two sides do not line up")


def _join(case: Case, factors: Sequence[Poly], digits: Sequence[Any]) -> Any:
    """The one digit that several make."""
    out, values = case.int_val(0), 1  # of how many values ``out`` is one; 0 for unknown
    for f, digit in zip(factors, digits, strict=True):
        number = f.constant
        if number is not None:
            out = out * number
        elif z3.is_int_value(out):
            out = case.term(f) * out
        elif 0 < values < FEW:
            scaled = case.int_val(0)
            for v in range(1, values):
                scaled = z3.If(out == v, case.term(f) * v, scaled)
            out = scaled
        else:
            raise NoFit("a product of two unknown sizes would have to be computed")
        out = z3.simplify(out + digit)
        values = values * number if number is not None else 0
    return out


def _cut(case: Case, factors: Sequence[Poly], digit: Any) -> list[Any]:
    """The several digits that one is made of."""
    unknown = [k for k, f in enumerate(factors) if f.constant is None]
    if len(unknown) > 1:
        raise NoFit("a quotient by an unknown size would have to be computed")
    at = unknown[0] if unknown else 0
    inner: list[Any] = []
    for f in reversed(factors[at + 1 :]):
        inner.insert(0, digit % f.constant)
        digit = digit / case.int_val(f.constant or 1)
    outer: list[Any] = []
    if unknown and at:
        counts = [f.constant or 0 for f in factors[:at]]
        total = 1
        for n in counts:
            total *= n
        if total >= FEW:
            raise NoFit("a quotient by an unknown size would have to be computed")
        size, block, offset = case.term(factors[at]), case.int_val(0), case.int_val(0)
        for k in range(1, total):
            block, offset = z3.If(digit >= size * k, k, block), z3.If(digit >= size * k, size * k, offset)
        digit = digit - offset
        for n in reversed(counts):
            outer.insert(0, block % n)
            block = block / case.int_val(n)
    return [*outer, digit, *inner]


def in_ranges(case: Case, axes: Sequence[Axis], digits: Digits) -> list[Any]:
    pairs = [(f, d) for axis, ds in zip(axes, digits, strict=True) for f, d in zip(axis, ds, strict=True)]
    return [c for f, d in pairs for c in (d >= 0, d < case.term(f))]


# ---------------------------------------------------------------- tensors


@dataclass(frozen=True, eq=False)
class Sym:
    """A tensor; ``cell`` maps digits per axis to a term that stands for the element there.

    ``dtype`` is a token where it is an argument's.  ``memory`` is set of arguments alone:
    strides, offset, and whether they are known to be row-major.
    """

    case: Case
    axes: tuple[Axis, ...]
    cell: Callable[[Digits], Any]
    dtype: Any
    memory: tuple[tuple[Poly, ...], Poly, bool] | None = None

    @property
    def sizes(self) -> list[Poly]:
        return [self.case.norm(product(axis)) for axis in self.axes]

    @property
    def numel_poly(self) -> Poly:
        return self.case.norm(product(self.sizes))

    def of(self, axes: Iterable[Iterable[Poly]], cell: Callable[[Digits], Any]) -> Sym:
        return Sym(self.case, tuple(tuple(a) for a in axes), cell, self.dtype)

    # ---- what code reads

    @property
    def shape(self) -> Shape:
        return Shape(self.case.number(n) for n in self.sizes)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @property
    def device(self) -> str:
        return "device"

    @property
    def T(self) -> Sym:
        return permute(self, *reversed(range(self.ndim)))

    @property
    def mT(self) -> Sym:
        if self.ndim < 2:
            raise Refused("mT of fewer than two dimensions")
        return transpose(self, -2, -1)

    def size(self, d: Any = None) -> Any:
        return self.shape if d is None else self.shape[dim(self, d)]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> Any:
        return self.case.number(self.numel_poly)

    def stride(self, d: Any = None) -> Any:
        if self.memory is None:
            raise Unsupported("strides of a computed tensor")
        strides = tuple(self.case.number(s) for s in self.memory[0])
        return strides if d is None else strides[dim(self, d)]

    def storage_offset(self) -> Any:
        if self.memory is None:
            raise Unsupported("the offset of a computed tensor")
        return self.case.number(self.memory[1])

    def __len__(self) -> Any:
        return self.case.concrete(self.sizes[0])

    def __bool__(self) -> bool:
        raise Unsupported("the value of a tensor")

    def __getitem__(self, key: Any) -> Sym:
        return getitem(self, key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in METHODS:
            return lambda *args, **kwargs: call(METHODS[name], self, *args, **kwargs)
        raise Unsupported(f"{'writes in place: ' if name.endswith('_') else ''}Tensor.{name}")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise Unsupported("writes in place: setitem")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name not in FUNCTIONS:
            raise Unsupported(f"torch.{name}")
        return call(FUNCTIONS[name], *args, **(kwargs or {}))


#: Keywords of torch for what is ``d`` here, or is given as one sequence or number by number.
_SEQUENCES = ("dims", "size", "shape", "repeats", "sizes")


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """With torch's names for arguments."""
    parameters = inspect.signature(function).parameters
    if "input" in kwargs:
        args = (kwargs.pop("input"), *args)
    if "dim" in kwargs and "dim" not in parameters:
        kwargs["d"] = kwargs.pop("dim")
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        args = (*args, *(kwargs.pop(n) for n in _SEQUENCES if n in kwargs and n not in parameters))
    return function(*args, **kwargs)


def _operator(name: str) -> Callable[..., Any]:
    def call(self: Sym, *others: Any) -> Any:
        return compare(name, self, *others)

    return call


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Sym, f"__{_name}__", _operator(_name))
for _name in "add sub mul truediv floordiv mod pow matmul neg and or xor invert iadd imul radd rsub rmul".split():
    setattr(Sym, f"__{_name}__", _operator(_name))


def dim(x: Sym, d: Any, extra: int = 0) -> int:
    """A dimension as eager counts it, from 0."""
    n = max(x.ndim + extra, 1)
    if not -n <= d < n:
        raise Refused("no such dimension")
    return int(d) % n


def ints(args: Sequence[Any]) -> list[Any]:
    """Numbers that are given one by one or as one sequence."""
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)


def tensor(x: Any) -> Sym:
    if not isinstance(x, Sym):
        raise Unsupported(f"{type(x).__name__} where a tensor is expected")
    return x


def same(x: Sym, *_: Any, **__: Any) -> Sym:
    """A copy or an alias: values alone count."""
    return x.of(x.axes, x.cell)


def copied(x: Sym, memory_format: Any = torch.preserve_format) -> Sym:
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        need = 4 if memory_format is torch.channels_last else 5
        if x.ndim != need:
            raise Refused("channels_last of another rank")
    return same(x)


def to(x: Sym, *args: Any, copy: bool = False, dtype: Any = None) -> Sym:
    for a in [*args, *([dtype] if dtype is not None else [])]:
        if a is not x.dtype and a != "device":
            raise Unsupported("a conversion of the dtype")
    return same(x)


def type_as(x: Sym, other: Sym) -> Sym:
    return to(x, other.dtype)


# ---- views


def permute(x: Sym, *dims: Any) -> Sym:
    order = [dim(x, d) for d in ints(dims)]
    if sorted(order) != list(range(x.ndim)):
        raise Refused("not a permutation")
    place = [order.index(k) for k in range(x.ndim)]
    return x.of((x.axes[k] for k in order), lambda ix: x.cell([ix[p] for p in place]))


def transpose(x: Sym, i: Any, j: Any) -> Sym:
    i, j = dim(x, i), dim(x, j)
    order = list(range(x.ndim))
    if order:
        order[i], order[j] = order[j], order[i]
    return permute(x, *order)


def t(x: Sym) -> Sym:
    if x.ndim > 2:
        raise Refused("t of more than two dimensions")
    return transpose(x, 0, 1) if x.ndim == 2 else same(x)


def movedim(x: Sym, source: Any, destination: Any) -> Sym:
    src, dst = ([dim(x, d) for d in ints([a])] for a in (source, destination))
    if len(src) != len(dst) or len(set(src)) < len(src) or len(set(dst)) < len(dst):
        raise Refused("movedim of other dimensions")
    rest = iter(k for k in range(x.ndim) if k not in src)
    return permute(x, *(src[dst.index(k)] if k in dst else next(rest) for k in range(x.ndim)))


def unsqueeze(x: Sym, d: Any) -> Sym:
    d = dim(x, d, 1)
    return x.of((*x.axes[:d], (), *x.axes[d:]), lambda ix: x.cell(ix[:d] + ix[d + 1 :]))


def squeeze(x: Sym, d: Any = None) -> Sym:
    dims = list(range(x.ndim)) if d is None else [dim(x, k) for k in ints([d])]
    for k in sorted(dims, reverse=True):
        if x.ndim and x.case.equal(x.sizes[k], ONE):
            x = _drop(x, k)
    return same(x)


def _drop(x: Sym, k: int) -> Sym:
    """Without an axis, at its index 0."""
    zeros = [x.case.int_val(0)] * len(x.axes[k])
    return x.of(x.axes[:k] + x.axes[k + 1 :], lambda ix: x.cell([*ix[:k], zeros, *ix[k:]]))


def view(x: Sym, *sizes: Any) -> Sym:
    if len(sizes) == 1 and isinstance(sizes[0], torch.dtype | str) or sizes and isinstance(sizes[0], Token):
        raise Unsupported("a view as another dtype")
    case = x.case
    new: list[Poly | None] = []
    for n in ints(sizes):
        if n == -1:
            new.append(None)
        elif n < 0:
            raise Refused("a negative size")
        else:
            new.append(case.poly(n))
    known, total = product([n for n in new if n is not None]), x.numel_poly
    if new.count(None) > 1:
        raise Refused("two sizes to infer")
    if None in new:
        if case.equal(known, ZERO):
            raise Refused("an ambiguous size")
        inferred, left = case.divmod(total, known)
        if not case.equal(left, ZERO):
            raise Refused("a size that does not divide")
        new[new.index(None)] = inferred
    elif not case.equal(known, total):
        raise Refused("another number of elements")
    return _regrouped(x, [case.norm(n) for n in new if n is not None])


def _regrouped(x: Sym, sizes: Sequence[Poly]) -> Sym:
    """The same elements in row-major order in other sizes of the same product."""
    case = x.case
    flat = [f for axis in x.axes for f in axis]
    axes = _factored([f for f in map(case.norm, flat) if f != ONE], sizes)

    def cell(ix: Digits) -> Any:
        digits = iter(regroup(case, flat, [f for axis in axes for f in axis], [d for ds in ix for d in ds]))
        return x.cell([[next(digits) for _ in axis] for axis in x.axes])

    return x.of(axes, cell)


def _factored(factors: list[Poly], sizes: Sequence[Poly]) -> list[list[Poly]]:
    """Sizes as lists of factors, of ``factors`` in their order as far as they divide."""
    left, right = list(factors), len(sizes)
    head: list[list[Poly]] = []
    while len(head) < right and (made := _take(left, sizes[len(head)])) is not None:
        head.append(made)
    tail: list[list[Poly]] = []
    left.reverse()
    while len(head) < right and (made := _take(left, sizes[right - 1])) is not None:
        tail.insert(0, made[::-1])
        right -= 1
    return [*head, *([n] for n in sizes[len(head) : right]), *tail]


def _take(factors: list[Poly], size: Poly) -> list[Poly] | None:
    """Factors of a size from the front of a list, which loses them; None where they do not fit."""
    taken: list[Poly] = []
    queue = list(factors)
    while size != ONE:
        if not queue or not size.terms:
            return None
        if (rest := exact(size, queue[0])) is not None:
            taken.append(queue.pop(0))
            size = rest
        elif (rest := exact(queue[0], size)) is not None:
            taken.append(size)
            queue[0], size = rest, ONE
        else:
            return None
    factors[:] = queue
    return taken


def single(x: Sym, k: int) -> Sym:
    """The same tensor with an axis as one factor."""
    axis, size = x.axes[k], x.sizes[k]
    if len(axis) == 1:
        return x
    return x.of(
        (*x.axes[:k], (size,), *x.axes[k + 1 :]),
        lambda ix: x.cell([*ix[:k], regroup(x.case, axis, (size,), ix[k]), *ix[k + 1 :]]),
    )


def flatten(x: Sym, start_dim: Any = 0, end_dim: Any = -1) -> Sym:
    i, j = dim(x, start_dim), dim(x, end_dim)
    if i > j:
        raise Refused("flatten from after to before")
    return view(x, *x.shape[:i], x.shape[i : j + 1].numel() if i != j else x.shape[i], *x.shape[j + 1 :]) \
        if x.ndim else view(x, 1)


def unflatten(x: Sym, d: Any, sizes: Any) -> Sym:
    d = dim(x, d)
    if not x.ndim:
        raise Refused("unflatten of no dimension")
    if not sizes:
        raise Refused("unflatten to nothing")
    alone = Sym(x.case, (x.axes[d],), lambda ix: x.case.int_val(0), x.dtype)
    made = view(alone, *sizes)  # infers and checks the sizes
    return view(x, *x.shape[:d], *made.shape, *x.shape[d + 1 :])


def expand(x: Sym, *sizes: Any) -> Sym:
    case, new = x.case, ints(sizes)
    lead = len(new) - x.ndim
    if lead < 0:
        raise Refused("expand to fewer dimensions")
    axes: list[Axis] = []
    used: list[int | None] = []  # of the old axes, by the new one that it follows
    for k, n in enumerate(new):
        old = x.sizes[k - lead] if k >= lead else None
        if old is None:
            if n < 0:
                raise Refused("a negative size")
            axes.append((case.poly(n),))
        elif n == -1 or case.equal(old, case.poly(n)):
            axes.append(x.axes[k - lead])
            used.append(k)
        elif case.equal(old, ONE) and n >= 0:
            axes.append((case.poly(n),))
            used.append(None)
        else:
            raise Refused("expand of another size")
    zero = case.int_val(0)
    return x.of(axes, lambda ix: x.cell([[zero] * len(a) if u is None else ix[u] for a, u in zip(x.axes, used)]))


def broadcast(*xs: Sym) -> list[Sym]:
    case, rank = xs[0].case, max(x.ndim for x in xs)
    sizes: list[Poly] = []
    for k in range(-rank, 0):
        out = ONE
        for x in xs:
            n = x.sizes[k] if -k <= x.ndim else ONE
            if case.equal(n, out):
                continue
            if case.equal(out, ONE):
                out = n
            elif not case.equal(n, ONE):
                raise Refused("shapes do not broadcast")
        sizes.append(out)
    shape = [case.number(n) for n in sizes]
    return [expand(x, *shape) for x in xs]


# ---- parts


def _range(x: Sym, k: int, start: Poly, length: Poly, step: int = 1) -> Sym:
    """Indices start, start + step, ... of an axis, which are in range."""
    case = x.case
    axis = [case.norm(f) for f in x.axes[k]]
    start, length = case.norm(start), case.norm(length)
    if step == 1 and start == ZERO and length == x.sizes[k]:
        return same(x)
    lead = next((p for p, f in enumerate(axis) if f != ONE), 0)
    inner = product(axis[lead + 1 :])
    first, count = exact(start, inner), exact(length, inner)
    if step != 1 or first is None or count is None or not axis:
        x, lead, first, count, axis = single(x, k), 0, start, length, [x.sizes[k]]
    offset, axes = case.term(first), [*x.axes]
    axes[k] = (*axis[:lead], count, *axis[lead + 1 :])

    def cell(ix: Digits) -> Any:
        digits = list(ix[k])
        digits[lead] = digits[lead] * step + offset
        return x.cell([*ix[:k], digits, *ix[k + 1 :]])

    return x.of(axes, cell)


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
    return _range(x, d, x.case.poly(start), x.case.poly(length))


def select(x: Sym, d: Any, index: Any) -> Sym:
    if not x.ndim:
        raise Refused("select of no dimension")
    d = dim(x, d)
    n = x.shape[d]
    if not -n <= index < n:
        raise Refused("select out of range")
    if index < 0:
        index = index + n
    return _drop(_range(x, d, x.case.poly(index), ONE), d)


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
    return _range(x, k, x.case.poly(start), x.case.poly(length), step)


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


def _advanced(x: Sym, indices: dict[int, Sym]) -> Sym:
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
            full[k], fine = _lookup(x, k, index.cell(mine), wrap=True)
            ok.append(fine)
        return _read(x, [full[k] for k in range(x.ndim)], ok, guard)

    axes = [x.axes[k] for k in rest[:before]] + list(out[0].axes) + [x.axes[k] for k in rest[before:]]
    return x.of(axes, cell)


def _lookup(x: Sym, k: int, value: Any, wrap: bool) -> tuple[list[Any], Any]:
    """Digits of an axis for an index that is a value, and whether it is in range."""
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
    return _choose(fine, x.cell(digits), x.case.int_var("unknown") if _sort(x) == "int" else None)


def _sort(x: Sym) -> str:
    return "bool" if x.dtype is torch.bool else "int"


def _choose(test: Any, yes: Any, no: Any) -> Any:
    if no is None or (z3.is_bool(yes) != z3.is_bool(no)):
        raise Unsupported("a choice between values of two kinds")
    return z3.If(test, yes, no)


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
            narrowed = _range(narrowed, k, ZERO, index.sizes[k])

    def cell(ix: Digits) -> Any:
        digits, ok = _lookup(narrowed, d, index.cell(ix), wrap=False)
        at = [
            digits if k == d else regroup(x.case, narrowed.axes[k], index.axes[k], ix[k]) for k in range(x.ndim)
        ]
        return _read(narrowed, at, [ok], in_ranges(x.case, index.axes, ix))

    return x.of(index.axes, cell)


def take(x: Sym, index: Sym) -> Sym:
    return _advanced(_regrouped(x, [x.numel_poly]), {0: index})


# ---- joins and moves


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
    d = _axis(x, dim)
    if isinstance(size, (list, tuple)):
        return parts(x, size, d)
    n = x.shape[d]
    if size < 0 or (size == 0 and n != 0):
        raise Refused("split in parts of such a size")
    if n == 0 or size >= n:
        return (same(x),)
    count = int((n + size - 1) // size)
    return parts(x, [size] * (count - 1) + [n - size * (count - 1)], d)


def _axis(x: Sym, d: Any) -> int:
    if not x.ndim:
        raise Refused("no dimension to divide")
    return dim(x, d)


def chunk(x: Sym, chunks: Any, dim: Any = 0) -> tuple[Sym, ...]:
    d = _axis(x, dim)
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
    d = _axis(x, dim)
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
    d = _axis(xs[0], dim)
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
            out = value if out is None else _choose(test, value, out)
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


def _joined(least: int, axis: Callable[[int], int]) -> Callable[[Sequence[Sym]], Sym]:
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
        return x.cell([[n - 1 - i for n, i in zip(sizes[k], ix[k], strict=True)] if k in ks else ix[k]
                       for k in range(x.ndim)])

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
        if not x.ndim:
            raise Refused("roll of no dimension")
        x = _rolled(x, x.case.poly(shift), dim(x, d))
    return same(x)


def _rolled(x: Sym, shift: Poly, k: int) -> Sym:
    case = x.case
    if case.equal(x.numel_poly, ZERO):
        return x
    axis = [case.norm(f) for f in x.axes[k]]
    lead = next((p for p, f in enumerate(axis) if f != ONE), None)
    if lead is None:
        return x
    inner = product(axis[lead + 1 :])
    by = exact(case.norm(shift), inner)
    if by is None:
        x, lead, by = single(x, k), 0, shift
        axis = [x.sizes[k]]
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
    d = _axis(x, dim)
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
    if not n + left + right >= 0:
        raise Refused("padding below nothing")
    if left == 0 and right == 0:
        return x
    x = single(x, k)
    size, start = case.term(x.sizes[k]), case.term(case.poly(left))

    def cell(ix: Digits) -> Any:
        i = ix[k][0] - start
        inside = z3.And(i >= 0, i < size)
        return _choose(inside, x.cell([*ix[:k], [i], *ix[k + 1 :]]), fill)

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
    return x.of((*x.axes, x.axes[-1]), lambda ix: _choose(ix[-1][0] == ix[-2][0], x.cell(ix[:-1]), zero))


def triangle(lower: bool) -> Callable[..., Sym]:
    def call(x: Sym, diagonal: Any = 0) -> Sym:
        if x.ndim < 2:
            raise Refused("a triangle of fewer than two dimensions")
        x = single(single(x, x.ndim - 1), x.ndim - 2)
        zero, by = constant(x.case, 0, x.dtype), x.case.term(x.case.poly(diagonal))

        def cell(ix: Digits) -> Any:
            row, column = ix[-2][0], ix[-1][0]
            return _choose(column <= row + by if lower else column >= row + by, x.cell(ix), zero)

        return x.of(x.axes, cell)

    return call


def unfold(x: Sym, d: Any, size: Any, step: Any) -> Sym:
    k = dim(x, d)
    if not x.ndim:
        raise Unsupported("unfold of no dimension")
    n = x.shape[k]
    if size < 0 or step < 1 or size > n:
        raise Refused("unfold out of range")
    by = int(step)
    x = single(x, k)
    axes = [*x.axes, (x.case.poly(size),)]
    axes[k] = (x.case.poly((n - size) // by + 1),)
    return x.of(axes, lambda ix: x.cell([*ix[:k], [ix[k][0] * by + ix[-1][0]], *ix[k + 1 : -1]]))


def pixel_shuffle(x: Sym, r: Any) -> Sym:
    if x.ndim < 3 or not r >= 1:
        raise Refused("pixel_shuffle of such a tensor")
    *lead, c, h, w = x.shape
    if c % (r * r) != 0:
        raise Refused("channels do not divide")
    n = len(lead)
    y = _regrouped(x, [x.case.poly(s) for s in (*lead, c // (r * r), r, r, h, w)])
    y = permute(y, *range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _regrouped(y, [x.case.poly(s) for s in (*lead, c // (r * r), h * r, w * r)])


def pixel_unshuffle(x: Sym, r: Any) -> Sym:
    if x.ndim < 3 or not r >= 1:
        raise Refused("pixel_unshuffle of such a tensor")
    *lead, c, h, w = x.shape
    if h % r != 0 or w % r != 0:
        raise Refused("sizes do not divide")
    n = len(lead)
    y = _regrouped(x, [x.case.poly(s) for s in (*lead, c, h // r, r, w // r, r)])
    y = permute(y, *range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _regrouped(y, [x.case.poly(s) for s in (*lead, c * r * r, h // r, w // r)])


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
            return _regrouped(x, sizes)
    by, moves = _in_strides(case, start - offset, strides), [
        [ZERO] * len(strides) if n == ONE else _in_strides(case, s, strides) for s, n in zip(steps, sizes, strict=True)
    ]
    axes: list[Axis] = [(n,) for n in sizes]
    same_as: dict[int, int] = {}
    for k in range(x.ndim):  # an axis that is taken as it is keeps its factors
        users = [j for j in range(len(sizes)) if moves[j][k] != ZERO]
        if by[k] == ZERO and len(users) == 1 and moves[users[0]] == [ONE if m == k else ZERO for m in range(x.ndim)] \
                and sizes[users[0]] == x.sizes[k]:
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
                    if move[k].constant is None:
                        raise NoFit("a product of two unknown sizes would have to be computed")
                    place = place + ix[j][0] * move[k].constant
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


# ---- values


@dataclass(frozen=True)
class Token:
    """The dtype of arguments, whichever it is."""

    name: str = "dtype"


def constant(case: Case, value: Any, dtype: Any) -> Any:
    if isinstance(value, Extent):
        raise Unsupported("a size as a value")
    if dtype is torch.bool:
        return case.bool_val(bool(value))
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and str(value) != "-0.0"):
        return case.int_val(int(value))
    return z3.Int(f"value.{value}", case.ctx)


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
    if name not in ("eq", "ne", "lt", "le", "gt", "ge") or len(others) != 1:
        raise Unsupported(f"arithmetic: {name}")
    y = others[0]
    if not isinstance(y, Sym):
        y = Sym(x.case, (), lambda ix: x.case.term(x.case.poly(y)), torch.int64)
    if x.dtype is not torch.int64 or y.dtype is not torch.int64:
        raise Unsupported(f"arithmetic: {name}")
    a, b = broadcast(x, y)
    tests = {
        "eq": lambda p, q: p == q, "ne": lambda p, q: p != q, "lt": lambda p, q: p < q,
        "le": lambda p, q: p <= q, "gt": lambda p, q: p > q, "ge": lambda p, q: p >= q,
    }  # fmt: skip
    return Sym(x.case, a.axes, lambda ix: tests[name](a.cell(ix), _at(b, a, ix)), torch.bool)


def _at(x: Sym, like: Sym, ix: Digits) -> Any:
    """The cell at an index of a tensor of the same sizes."""
    pairs = zip(x.axes, like.axes, ix, strict=True)
    return x.cell([regroup(x.case, own, other, digits) for own, other, digits in pairs])


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
    return Sym(case, like.axes, lambda ix: _choose(_at(m, like, ix), _at(a, like, ix), _at(b, like, ix)), dtype)


def einsum(equation: str, *operands: Any) -> Sym:
    left, _, right = equation.replace(" ", "").partition("->")
    if len(operands) != 1 or sorted(left) != sorted(right) or len(set(left)) < len(left) \
            or not set(left) <= set(string.ascii_letters):
        raise Unsupported("einsum that is not a permutation")
    x = tensor(operands[0])
    if len(left) != x.ndim:
        raise Refused("einsum of another rank")
    return permute(x, *(left.index(c) for c in right))


def dropout(x: Sym, p: float = 0.5, training: bool = True, inplace: bool = False) -> Sym:
    if training and p or inplace:
        raise Unsupported("dropout")
    return same(x)


def sort(x: Sym, dim: Any = -1, **_: Any) -> Any:
    d = _axis(x, dim)
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


METHODS: dict[str, Callable[..., Any]] = {
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

#: As ``torch.name``, with the tensor first; those that take none are made per case.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: f for n, f in METHODS.items() if n not in ("where", "expand", "view", "repeat", "to", "new_zeros")},
    "cat": cat, "concat": cat, "concatenate": cat, "stack": stack, "where": where, "einsum": einsum,
    "hstack": lambda xs: _joined(1, lambda n: 0 if n == 1 else 1)(xs), "vstack": _joined(2, lambda n: 0),
    "pad": pad, "constant_pad_nd": lambda x, pad_, value=0: pad(x, pad_, value=value),
    "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle, "dropout": dropout,
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
        return Sym(case, ((count,),), lambda ix: ix[0][0] * by + first, torch.int64)

    def make(value: Any) -> Callable[..., Sym]:
        def call(*sizes: Any, dtype: Any = None, **_: Any) -> Sym:
            shape = ints(sizes) if value is not None else list(sizes[0])
            return full(case, shape, sizes[1] if value is None else value, "default" if dtype is None else dtype)

        return call

    return {"arange": arange, "zeros": make(0), "ones": make(1), "full": make(None)}
