"""Calls of an overload with arguments changed on purpose: those that rewrites, decompositions and lowerings forget.

The schema says what an argument is: numbers and flags that have a default leave it, or are left to it, words and
dimensions become others, sizes become 1 or 0, lists and tensors that need not be given are omitted, tensors get another
dtype or other strides than the rest, lists other lengths and orders.
What eager refuses of it nobody has to judge.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from fxmorph.torchapi.argument_words import WORDS
from fxmorph.torchapi.first_on_cpu import refused_call
from fxmorph.torchapi.varied_calls import described, passes_shape_check

#: Calls that are tried for each that is wanted.
TRIES = 4
#: One of so many calls has one change alone, and a third change.
ALONE, THIRD = 4, 3
#: What a number becomes, and one that has to be whole.
_NUMBERS, _WHOLE = (2, -1, 0.5, 0, 3), (0, 1, 2, 3, -1)
#: Dtypes that one of several tensors gets.
_DTYPES = (
    torch.float16, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.float32, torch.int32, torch.uint8,
)  # fmt: skip
#: Dtypes of indices.
_INDICES = (torch.int64, torch.int32)
#: Names of arguments that say dimensions.
_DIMENSIONS = frozenset({"dim", "dims", "dim0", "dim1", "dim2", "axis", "start_dim", "end_dim", "tail_dims"})
#: Arguments that promise what a result is; those that decide how it is made, or draw random numbers, beside them.
_PROMISES = frozenset({"output_size", "scales", "scales_d", "scales_h", "scales_w", "scale_factors"})
_LEFT = _PROMISES | frozenset(
    {"generator", "out", "layout", "device", "pin_memory", "dtype", "memory_format", "names", "implicit"}
)
#: Tensors that another argument says to be there: kernels read them without a look.
_RELIED_ON = frozenset({"running_mean", "running_var"})
#: Arguments that kernels follow wherever they lead: rows that a factorisation exchanged.
_FOLLOWED = frozenset({"pivots", "LU_pivots"})
#: What the dimensions of a product's tensors are, letter by letter: equal ones have equal sizes.
_PRODUCTS = {
    "mm": ("mk", "kn"),
    "bmm": ("bmk", "bkn"),
    "mv": ("mk", "k"),
    "dot": ("k", "k"),
    "vdot": ("k", "k"),
    "inner": ("mk", "nk"),
    "outer": ("m", "n"),
    "linear": ("mk", "nk", "n"),
    "addmm": ("mn", "mk", "kn"),
    "addmv": ("m", "mk", "k"),
    "addr": ("mn", "m", "n"),
    "addbmm": ("mn", "bmk", "bkn"),
    "baddbmm": ("bmn", "bmk", "bkn"),
}
#: Numbers that say one of a few.
_CHOICES = {"reduction": (0, 1, 2)}

_Values = dict[str, Any]
_Change = Callable[[OpOverload, _Values, random.Random], None]


def changed_calls(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], key: str, count: int, start: int = 0
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """At most ``count`` calls near this one that eager and torch's shape functions take; the same for equal keys.

    From number ``start`` on each begins with another change in turn, so that every flag and number that has a default
    leaves it before one does again, and in the next turn goes on with another second one: code for one row forgets a
    factor that code for many has.  None of a call that promises what its result is: another would break it.
    """
    promises = [a.name for a in overload._schema.arguments if a.name in _PROMISES and a.has_default_value()]
    given = bound(overload, args, kwargs)
    if _is_torchs_own(overload) or given.keys() & _FOLLOWED or any(given[name] is not None for name in promises):
        return
    leads = _leads(overload, given)
    seen = {described(_unbound(overload, given))}
    for number in range(start, start + TRIES * count):
        if count <= 0:
            return
        rng, values = random.Random(f"{key} {number}"), bound(overload, args, kwargs)
        for change in _combined(leads, number, rng):
            change(overload, values, rng)
        call = _unbound(overload, values)
        said = described(call)
        if said in seen:
            continue
        seen.add(said)
        if _is_taken(overload, *call):
            count -= 1
            yield call


def _is_torchs_own(overload: OpOverload) -> bool:
    """Whether only torch itself calls it: such an overload need not look at what it is given.

    Python's arithmetic with a number calls the overload that takes a tensor.
    """
    packet = overload.overloadpacket
    name = packet.__name__
    of_number = overload._overloadname == "Scalar" and "Tensor" in packet.overloads()
    return of_number or name.startswith("_") or "backward" in name or "unsafe" in name


def bound(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Values:
    """The value of each argument, by name; defaults too."""
    values = {}
    for place, argument in enumerate(overload._schema.arguments):
        given = args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        values[argument.name] = list(given) if isinstance(given, (list, tuple)) else given
    return values


def _unbound(overload: OpOverload, values: _Values) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that have no default by place, others by name where they are not their default, as people write."""
    arguments = overload._schema.arguments
    given = next((i for i, a in enumerate(arguments) if a.kwarg_only or a.has_default_value()), len(arguments))
    named = {a.name: values[a.name] for a in arguments[given:] if not _is_default(values[a.name], a.default_value)}
    return tuple(values[a.name] for a in arguments[:given]), named


def _is_default(value: Any, default: Any) -> bool:
    return not isinstance(value, torch.Tensor) and type(value) is type(default) and value == default


def _is_taken(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Torch's shape functions first: kernels of some operators look at less, and read what is not theirs."""
    first, *rest = args or (None,)
    if not passes_shape_check(overload, (first, rest, kwargs)) or refused_call(overload, args, kwargs):
        return False
    try:
        with torch.no_grad():
            overload(*tree_map(_copied, args), **tree_map(_copied, kwargs))
    except Exception:
        return False
    return True


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


# -- what arguments are --------------------------------------------------------------


def _tensors(values: _Values) -> list[tuple[str, int | None, torch.Tensor]]:
    """(argument, place in its list, tensor)."""
    found: list[tuple[str, int | None, torch.Tensor]] = []
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            found.append((name, None, value))
        elif isinstance(value, list):
            found += [(name, i, t) for i, t in enumerate(value) if isinstance(t, torch.Tensor)]
    return found


def _put(values: _Values, name: str, place: int | None, value: Any) -> None:
    if place is None:
        values[name] = value
    else:
        values[name] = [*values[name][:place], value, *values[name][place + 1 :]]


def _rank(values: _Values) -> int:
    return max((t.dim() for _, _, t in _tensors(values)), default=0)


# -- changes -------------------------------------------------------------------------


def _leads(overload: OpOverload, given: _Values) -> list[_Change]:
    """Changes that the overload has arguments for, as they are ``given``, in an order of its own."""
    leads: list[_Change] = [functools.partial(_leave, argument) for argument in _defaults(overload)]
    leads += [functools.partial(_omit, argument) for argument in _omissible(overload)]
    arguments = {a.name: str(a.type) for a in overload._schema.arguments}
    whole = {name for name, kind in arguments.items() if re.fullmatch(r"(Optional\[)?(List\[)?int\]*", kind)}
    if arguments.keys() & _DIMENSIONS:
        leads.append(_other_dimension)
    if whole - _DIMENSIONS - _LEFT - _CHOICES.keys():
        leads.append(_other_number)
        if any(t.dtype in _INDICES for _, _, t in _tensors(given)):
            leads.append(_number_met)
    if any("List" in kind and "Tensor" in kind for kind in arguments.values()):
        leads += [_other_list, _other_list]
    if any("Tensor" in kind for kind in arguments.values()):
        leads.append(_other_dtype)
    axes = sorted(set("".join(_PRODUCTS.get(overload.overloadpacket.__name__, ()))))
    leads += [functools.partial(_axis_of_one, axis) for axis in axes]
    leads += [_other_size, _other_size, _other_strides]
    if sum("Tensor" in kind for kind in arguments.values()) == 1 or torch.Tag.pointwise in overload.tags:
        leads.append(_other_rank)
    random.Random(str(overload)).shuffle(leads)
    return leads


def _combined(leads: list[_Change], number: int, rng: random.Random) -> list[_Change]:
    """Two changes: in the first turn neighbours, in the next those two apart, and so on; at times one, or three."""
    turn, place = divmod(number, len(leads))
    changes = [leads[place], leads[(place + 1 + turn) % len(leads)]]
    if number % ALONE == 1:
        return changes[:1]
    return [*changes, rng.choice(leads)] if rng.randrange(THIRD) == 0 else changes


def _defaults(overload: OpOverload) -> list[Any]:
    """Arguments that are flags or numbers and have a default, and those that take one of a few words."""
    chosen = [a for a in overload._schema.arguments if a.has_default_value() and a.name not in _LEFT | _DIMENSIONS]
    plain = [a for a in chosen if not any(kind in str(a.type) for kind in ("List", "Tensor", "str"))]
    return [*plain, *(a for a in overload._schema.arguments if "str" in str(a.type) and a.name in WORDS)]


def _omissible(overload: OpOverload) -> list[Any]:
    """Lists and tensors that need not be given."""
    left = _LEFT | _DIMENSIONS | _RELIED_ON
    lists = [a for a in overload._schema.arguments if a.has_default_value() and "List" in str(a.type)]
    tensors = [a for a in overload._schema.arguments if str(a.type) == "Optional[Tensor]"]
    return [a for a in (*lists, *tensors) if a.name not in left]


def _omit(argument: Any, overload: OpOverload, values: _Values, rng: random.Random) -> None:
    default = argument.default_value
    values[argument.name] = list(default) if isinstance(default, (list, tuple)) else default


def _leave(argument: Any, overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """What has another value than its default takes that in every other call: most samples give some arguments always,
    and what is written for those that do not is not run.
    """
    kind, now = str(argument.type), values[argument.name]
    if argument.has_default_value() and not _is_default(now, argument.default_value) and rng.random() < 0.5:
        _omit(argument, overload, values, rng)
    elif "bool" in kind:
        values[argument.name] = not now
    elif "str" in kind:
        values[argument.name] = rng.choice([word for word in WORDS[argument.name] if word != now])
    else:
        numbers = _CHOICES.get(argument.name, _WHOLE if "int" in kind else _NUMBERS)
        values[argument.name] = rng.choice([n for n in numbers if n != now])


def _other_dimension(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """Dimensions are others, counted from the front or from the back; several are more, fewer, or in another order."""
    names, rank = [n for n in values if n in _DIMENSIONS and values[n] is not None], _rank(values)
    if not names or not rank:
        return
    drawn = rng.sample(range(rank), rank)
    for name in names if rng.random() < 0.5 else [rng.choice(names)]:
        if isinstance(values[name], list):
            chosen = drawn if len(values[name]) == rank else drawn[: rng.randint(1, rank)]
            values[name] = [d - rank if rng.random() < 0.3 else d for d in chosen]
        elif type(values[name]) is int:
            dim = drawn.pop() if drawn else 0
            values[name] = dim - rank if rng.random() < 0.3 else dim


def _other_number(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """A whole number, or one of a list of them, is one more or less, or small; or the list is in another order."""
    names = [
        n
        for n, v in values.items()
        if n not in _DIMENSIONS | _LEFT | set(_CHOICES) and (type(v) is int or _is_whole(v))
    ]
    if not names:
        return
    name = rng.choice(names)
    value = values[name]
    if isinstance(value, list):
        place = rng.randrange(len(value))
        moved = [*value[1:], value[0]]
        values[name] = (
            moved if rng.random() < 0.3 else [_near(v, rng) if i == place else v for i, v in enumerate(value)]
        )
    else:
        values[name] = _near(value, rng)


def _number_met(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """A whole number that a call is told is among those of a tensor: what says which of them to leave out does.

    Often that is 0, which code may take for none.
    """
    names = [n for n, v in values.items() if n not in _DIMENSIONS | _LEFT | set(_CHOICES) and type(v) is int]
    told = [(n, i, t) for n, i, t in _tensors(values) if t.dtype in _INDICES and t.numel()]
    if not names or not told:
        return
    name, (where, place, tensor) = rng.choice(names), rng.choice(told)
    if rng.random() < 0.3:
        values[name] = int(tensor.flatten()[rng.randrange(tensor.numel())])
        return
    values[name] = rng.choice((0, max(values[name], 0)))
    met = tensor.clone(memory_format=torch.contiguous_format)
    met.view(-1)[:: rng.choice((1, 2, 3))] = values[name]
    _put(values, where, place, met)


def _is_whole(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(v) is int for v in value)


def _near(number: int, rng: random.Random) -> int:
    return rng.choice((number + 1, number - 1, -number, *_WHOLE))


def _other_size(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """A size is 1, 0 or one more, in all tensors that have it there; or, of pointwise operators, in one of them alone.

    Where another tensor has that size elsewhere, as the weights of channels do, nothing changes: some operators take
    such calls in eager without a look, and read what is not theirs.  Of products it is known what belongs together.
    """
    tensors = [(n, i, t) for n, i, t in _tensors(values) if t.dim()]
    if not tensors:
        return
    new = rng.choice((1, 1, 0, None))
    axes = _PRODUCTS.get(overload.overloadpacket.__name__)
    if axes is not None:
        _with_axis(overload, values, rng.choice(sorted(set("".join(axes)))), new)
        return
    chosen = rng.choice(tensors)
    dim = -rng.randint(1, min(chosen[2].dim(), 3))
    size = chosen[2].shape[dim]
    concerned = [(n, i, t) for n, i, t in tensors if t.dim() >= -dim and t.shape[dim] == size]
    if torch.Tag.pointwise in overload.tags:
        concerned = [chosen] if rng.random() < 0.5 else concerned
    elif any(size in t.shape for _, _, t in tensors if not any(t is c for _, _, c in concerned)):
        return
    for name, place, t in concerned:
        _put(values, name, place, _with_size(t, dim, new))


def _axis_of_one(axis: str, overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """One row, one column, or products of one term: such products are taken apart otherwise."""
    _with_axis(overload, values, axis, 1)


def _with_axis(overload: OpOverload, values: _Values, axis: str, new: int | None) -> None:
    for (name, place, t), named in zip(_tensors(values), _PRODUCTS[overload.overloadpacket.__name__], strict=False):
        own = named[len(named) - t.dim() :] if t.dim() <= len(named) else ""  # what is added may be broadcast
        if axis in own:
            _put(values, name, place, _with_size(t, own.index(axis), new))


def _other_rank(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """A tensor has a dimension more, of one or two elements, anywhere."""
    tensors = _tensors(values)
    if tensors:
        name, place, t = rng.choice(tensors)
        _put(values, name, place, torch.stack([t] * rng.choice((1, 2)), rng.randint(0, t.dim())))


def _with_size(t: torch.Tensor, dim: int, new: int | None) -> torch.Tensor:
    """None is for one more."""
    if new is None:
        return torch.cat([t, t.narrow(dim, 0, min(1, t.shape[dim]))], dim)
    return t.narrow(dim, 0, min(new, t.shape[dim])).clone()


def _other_dtype(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """One of several tensors is of another dtype, or all that have its own are."""
    tensors = _tensors(values)
    if not tensors:
        return
    chosen = rng.choice(tensors)
    dtype = rng.choice([d for d in _DTYPES if d != chosen[2].dtype])
    alike = [(n, i, t) for n, i, t in tensors if t.dtype == chosen[2].dtype]
    for name, place, t in alike if rng.random() < 0.4 else [chosen]:
        _put(values, name, place, t.to(dtype))


def _other_strides(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """One tensor is transposed in memory, a part of a larger one, or expanded."""
    tensors = [(n, i, t) for n, i, t in _tensors(values) if t.dim()]
    if not tensors:
        return
    name, place, t = rng.choice(tensors)
    way = rng.choice(("transposed", "part", "expanded"))
    if way == "transposed" and t.dim() > 1:
        a, b = rng.sample(range(t.dim()), 2)
        t = t.transpose(a, b).contiguous().transpose(a, b)
    elif way == "part":
        t = torch.stack([t, t], -1).select(-1, 0)
    elif t.shape[0]:
        t = t[:1].expand(t.shape)
    _put(values, name, place, t)


def _other_list(overload: OpOverload, values: _Values, rng: random.Random) -> None:
    """A list of tensors is one alone, has an empty one more, of another dtype, the same one twice, or another order."""
    names = [n for n, v in values.items() if isinstance(v, list) and v and all(isinstance(t, torch.Tensor) for t in v)]
    if not names:
        return
    name = rng.choice(names)
    tensors = values[name][: 1 if rng.random() < 0.4 else None]
    dtype = rng.choice([d for d in _DTYPES if d != tensors[0].dtype])
    nothing = tensors[0].narrow(-1, 0, 0).to(dtype) if tensors[0].dim() else tensors[0]
    more = rng.choice((torch.empty(0, dtype=dtype, device=tensors[-1].device), nothing, tensors[-1], None))
    turned = rng.random() < 0.5
    values[name] = [*reversed(tensors)] if more is None else [more, *tensors] if turned else [*tensors, more]
