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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import z3

from fxmorph.prove.sizes.digits import Axis, Digits, regroup
from fxmorph.prove.sizes.extents import ONE, ZERO, Case, Extent, Poly, Refused, Unsupported, exact, product


class Shape(tuple):
    """What ``x.shape`` gives."""

    def numel(self) -> Any:
        out: Any = 1
        for n in self:
            out = out * n
        return out


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
        if not self.ndim:
            return same(self)
        if self.ndim < 2:
            raise Refused("mT of one dimension")
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
        return METHODS["getitem"](self, key)

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


#: Operations by name, as methods and as functions of torch; ``symbolic_lookup.py`` fills them.
METHODS: dict[str, Callable[..., Any]] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
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
        return METHODS["compare"](self, name, *others)

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


def axis_of(x: Sym, d: Any) -> int:
    if not x.ndim:
        raise Refused("no dimension to divide")
    return dim(x, d)


def choose(test: Any, yes: Any, no: Any) -> Any:
    if no is None or (z3.is_bool(yes) != z3.is_bool(no)):
        raise Unsupported("a choice between values of two kinds")
    return z3.If(test, yes, no)


def at_index(x: Sym, like: Sym, ix: Digits) -> Any:
    """The cell at an index of a tensor of the same sizes."""
    pairs = zip(x.axes, like.axes, ix, strict=True)
    return x.cell([regroup(x.case, own, other, digits) for own, other, digits in pairs])


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
            x = drop(x, k)
    return same(x)


def drop(x: Sym, k: int) -> Sym:
    """Without an axis, at its index 0."""
    zeros = [x.case.int_val(0)] * len(x.axes[k])
    return x.of(x.axes[:k] + x.axes[k + 1 :], lambda ix: x.cell([*ix[:k], zeros, *ix[k:]]))


def view(x: Sym, *sizes: Any) -> Sym:
    if (len(sizes) == 1 and isinstance(sizes[0], torch.dtype | str)) or (sizes and isinstance(sizes[0], Token)):
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
    return regrouped(x, [case.norm(n) for n in new if n is not None])


def regrouped(x: Sym, sizes: Sequence[Poly]) -> Sym:
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
    if not x.ndim:
        return view(x, 1)
    return regrouped(x, [*x.sizes[:i], x.case.norm(product(x.sizes[i : j + 1])), *x.sizes[j + 1 :]])


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
    pairs = list(zip(x.axes, used, strict=True))
    return x.of(axes, lambda ix: x.cell([[zero] * len(axis) if k is None else ix[k] for axis, k in pairs]))


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


def span(x: Sym, k: int, start: Poly, length: Poly, step: int = 1) -> Sym:
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
