"""What values hold: tensors and plain values, each by the place where it is.

``fxmorph/triage/folder/repro.py`` writes this module into scripts of programs that return or take objects, so
that they compare the same things: it imports torch and the standard library alone.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

#: Values that are looked at, at most: what holds more may hold a whole program.
MOST_VALUES = 20_000
#: The longest place: what lies deeper is a chain, each link in the one before.
LONGEST_PLACE = 1000
#: Types whose values hold nothing else and are compared by ``==``.
PLAIN = (
    type(None), bool, int, float, complex, str, bytes, bytearray, slice, range, torch.Size,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
_CONTAINERS = (dict, list, tuple, collections.deque, set, frozenset)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType)
#: Attributes of every module of torch: how it works, not what it holds.
_OF_ALL_MODULES = frozenset(vars(torch.nn.Module()))


@dataclass
class Contents:
    """``slots`` has each tensor and plain value by its place, ``forms`` type and parts of each object by its.

    ``unseen`` says of what could not be looked into why; ``again`` are places of objects that have an
    earlier place, where what they hold is; ``equals`` are the objects that have an equality of their own.
    """

    slots: dict[str, Any] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    equals: dict[str, Any] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return {k: v for k, v in self.slots.items() if is_tensor(v)}

    @property
    def plain(self) -> dict[str, Any]:
        return {k: v for k, v in self.slots.items() if not is_tensor(v)}


def is_tensor(value: Any) -> bool:
    """By its type alone: ``isinstance`` asks an object that is none for its ``__class__``, which may raise."""
    return issubclass(type(value), torch.Tensor)


def look_into(named: Iterable[tuple[str, Any]], closed: Collection[int] = ()) -> Contents:
    """What values hold, by place: ``cache.layers[0].keys`` of a ``cache``.

    Each object is looked into once, and no code of its own is run: neither properties nor ``__getattr__``
    nor ``__iter__``.  ``closed`` are the ids of objects that are somebody else's business.
    """
    found = Contents()
    first: dict[int, Any] = {}  # holds what was made on the way, whose id another object might get
    todo = list(named)[::-1]
    while todo:
        place, value = todo.pop()
        plain = is_plain(value)
        if is_tensor(value) or plain:
            found.slots[place] = _kept(value) if plain else value
            continue
        if id(value) in closed:
            found.forms[place] = "the program's own"
            continue
        if id(value) in first:
            found.again.add(place)
            found.forms[place] = type(value).__qualname__
            continue
        first[id(value)] = value
        far = len(first) + len(found.slots) > MOST_VALUES or len(place) > LONGEST_PLACE
        why = "it lies too deep, or there is too much" if far else _closed_to_us(value)
        if why:
            found.unseen[place] = why
        parts = [] if why else _parts(value)
        if parts is None and type(value).__eq__ is not object.__eq__:
            found.slots[place] = value
            continue
        if parts is None:
            found.unseen[place] = f"a {type(value).__qualname__}"
        found.forms[place] = _form(value, parts if parts and not why else None, bool(found.unseen.get(place)))
        if type(value).__eq__ not in (object.__eq__, *(t.__eq__ for t in _CONTAINERS)):
            found.equals[place] = value
        todo += [(place + name, part) for name, part in (parts or [])[::-1]]
    return found


def is_plain(value: Any) -> bool:
    """Whether a value holds no tensor and can be compared as it is."""
    kind = type(value)
    for base in (set, frozenset):
        if issubclass(kind, base):
            return all(map(is_plain, base.__iter__(value)))
    return issubclass(kind, (*PLAIN, enum.Enum, type, types.ModuleType)) or _is_array(value)


def _is_array(value: Any) -> bool:
    """Whether it is an array or a number of numpy that holds no objects."""
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject


def _kept(value: Any) -> Any:
    """As it is now, whatever is written to it later."""
    return value.copy() if issubclass(type(value), (bytearray, set)) or _is_array(value) else value


def _closed_to_us(value: Any) -> str:
    """Why a value cannot be looked into, though it may hold something, or ""."""
    kind = type(value)
    if issubclass(kind, Iterator) and _attributes(value) is None:
        return "an iterator, which looking would consume"
    if issubclass(kind, (weakref.ReferenceType, *weakref.ProxyTypes)):
        return "a weak reference"
    if issubclass(kind, torch.autograd.graph.Node):
        return "a node of autograd"
    if issubclass(kind, types.FunctionType):
        return "a function with variables of its own" if value.__closure__ else ""
    return "a set of objects, which has no order" if issubclass(kind, (set, frozenset)) else ""


def _form(value: Any, parts: list[tuple[str, Any]] | None, unseen: bool) -> str:
    """The type of an object and the names of its parts; of what is not looked into only what can be relied on."""
    kind = type(value)
    if issubclass(kind, _FUNCTIONS):
        return f"function {getattr(value, '__qualname__', '')}"
    if unseen and issubclass(kind, Iterator):
        return "iterator"
    return "object" if unseen else f"{kind.__qualname__}({', '.join(name.lstrip('.') for name, _ in parts or ())})"


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """(name, value) of what an object holds; None where nothing can be seen of it."""
    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        return _of_module(value)
    if issubclass(kind, _FUNCTIONS):
        owner = getattr(value, "__self__", None)
        return [] if owner is None or isinstance(owner, types.ModuleType) else [(".__self__", owner)]
    try:
        held = _elements(value)
    except Exception:  # it is not in order
        held = None
    attributes = _attributes(value)
    return None if held is None and attributes is None else [*(held or ()), *(attributes or ())]


def _elements(value: Any) -> list[tuple[str, Any]] | None:
    """What a container of Python's holds, a subclass too; None of other values."""
    kind = type(value)
    if issubclass(kind, (dict, types.MappingProxyType)):
        ordered = issubclass(kind, collections.OrderedDict)
        plain = value if issubclass(kind, dict) else dict(value)
        items = collections.OrderedDict.items(value) if ordered else dict.items(plain)
        return [(f"[{k!r}]" if is_plain(k) else f"[#{i}]", v) for i, (k, v) in enumerate(items)]
    fields = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(fields, tuple):
        return [(f".{name}", v) for name, v in zip(fields, tuple.__iter__(value), strict=False)]
    if issubclass(kind, _VIEWS):
        return [(f"[{i}]", v) for i, v in enumerate(value)]
    for base in (list, tuple, collections.deque):
        if issubclass(kind, base):
            return [(f"[{i}]", v) for i, v in enumerate(base.__iter__(value))]
    if issubclass(kind, BaseException):
        return [(".args", BaseException.args.__get__(value))]  # type: ignore[attr-defined]
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        return [(f"[{i}]", v) for i, v in enumerate(value.reshape(-1).tolist())]
    return None


def _attributes(value: Any) -> list[tuple[str, Any]] | None:
    """By name, from the instance's dict and its slots; None where it can have none."""
    named = dict(_slots_of(value))
    has_any = any("__slots__" in vars(t) for t in type(value).__mro__[:-1])
    try:
        own = object.__getattribute__(value, "__dict__")
    except Exception:
        own = None
    if isinstance(own, dict):
        named.update((k, v) for k, v in own.items() if isinstance(k, str))
    elif not has_any:
        return None
    return [(f".{k}", named[k]) for k in sorted(named) if not k.startswith("__") or not k.endswith("__")]


def _slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    for base in type(value).__mro__:
        if "__slots__" not in vars(base) and base is not functools.partial:
            continue  # members of types written in C are addresses and the like
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                try:
                    yield name, member.__get__(value)
                except Exception:  # it holds nothing yet
                    continue


def _of_module(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Parameters, buffers, modules and what its author put there beside them."""
    own = vars(module)
    named = {**own.get("_parameters", {}), **own.get("_buffers", {}), **own.get("_modules", {})}
    named |= {k: v for k, v in own.items() if k not in _OF_ALL_MODULES and not k.startswith("_")}
    return [(f".{k}", named[k]) for k in sorted(named)]


def same_plain(a: Any, b: Any) -> bool | None:
    """Whether two plain values are equal, NaN being equal to NaN; None where asking them raises or gives no bool."""
    if a is b:
        return True
    named = (type, types.ModuleType, enum.Enum)
    if issubclass(type(a), named) and issubclass(type(b), named) and type(a).__qualname__ == type(b).__qualname__:
        return _name_of(a) == _name_of(b)  # a class that a function defines is another one in each call
    try:
        if _is_array(a) or _is_array(b):
            alike = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
            return bool(alike and ((a == b) | ((a != a) & (b != b))).all())
        if isinstance(a, float) and isinstance(b, float) and a != a and b != b:
            return True
        if isinstance(a, complex) and isinstance(b, complex):
            return all(same_plain(x, y) for x, y in ((a.real, b.real), (a.imag, b.imag)))
        equal = a == b
    except Exception:
        return None
    return equal if isinstance(equal, bool) else None


def _name_of(value: Any) -> str:
    name = value.name if isinstance(value, enum.Enum) else getattr(value, "__qualname__", value.__name__)
    return f"{getattr(value, '__module__', '')}.{name}"


def differing(mine: Contents, theirs: Contents) -> Iterator[tuple[str, str, str]]:
    """(place, what is there, what the others have there) where objects differ in type or in the names of their parts.

    What an object holds that has an earlier place is compared there, and what cannot be looked into is not compared.
    """
    for place in sorted(mine.forms.keys() | theirs.forms.keys()):
        a, b = _what(mine, place), _what(theirs, place)
        objects = place in mine.forms and place in theirs.forms
        if place in mine.again | theirs.again:
            a, b = a.partition("(")[0], b.partition("(")[0]
        if a and b and a != b and not (objects and "object" in (a, b)):
            yield place, a, b


def _what(contents: Contents, place: str) -> str:
    """In words; "" where there is no such place, which its owner's form says."""
    if place in contents.slots:
        return "a tensor" if is_tensor(contents.slots[place]) else shown(contents.slots[place])
    return contents.forms.get(place, "")


def shown(value: Any) -> str:
    """A value in words, not too many of them."""
    try:
        return repr(value)[:200]
    except Exception:
        return f"a {type(value).__qualname__}"
