"""What is seen of objects: what they hold, by place, without a line of their own code being run."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import re
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fxmorph.programs.contents import LONGEST_PLACE, MOST_VALUES, differing, look_into, same_plain

X = torch.ones(2)


class Plain:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class Slotted:
    __slots__ = ("given", "unset")

    def __init__(self, given: Any) -> None:
        self.given = given


class Hostile:
    def __init__(self, held: Any) -> None:
        object.__getattribute__(self, "__dict__")["held"] = held

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("==")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    @property
    def computed(self) -> Any:
        raise RuntimeError("computed")


@dataclasses.dataclass
class Output(collections.OrderedDict):  # type: ignore[type-arg]
    """Like the outputs of transformers: a dict whose entries are attributes too."""

    logits: Any = None

    def __post_init__(self) -> None:
        collections.OrderedDict.__setitem__(self, "logits", self.logits)

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("iterated")


class Stepping:
    """An iterator that has attributes, which can be looked at."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __iter__(self) -> Stepping:
        return self

    def __next__(self) -> Any:
        raise RuntimeError("consumed")


class Held(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(X.clone())
        self.last = X


Pair = collections.namedtuple("Pair", "left right")

PLACES: dict[str, tuple[Any, set[str]]] = {
    "attributes": (Plain(layers=[Plain(keys=X), Plain(keys=X)]), {"out.layers[0].keys", "out.layers[1].keys"}),
    "slots": (Slotted(X), {"out.given"}),
    "raising attributes": (Hostile(X), {"out.held"}),
    "dict subclass": (Output(X), {"out['logits']", "out.logits"}),
    "namedtuple": (Plain(pair=Pair(X, {"k": X})), {"out.pair.left", "out.pair.right['k']"}),
    "containers": (Plain(a=(X,), b=collections.deque([X]), c=types.MappingProxyType({1: X})), {
        "out.a[0]", "out.b[0]", "out.c[1]"}),
    "user dict": (collections.UserDict(a=X), {"out.data['a']"}),
    "module": (Held(), {"out.weight", "out.last"}),
    "partial": (functools.partial(torch.add, X), {"out.args[0]"}),
    "bound method": (Plain(f=Slotted(X).__init__), {"out.f.__self__.given"}),
    "exception": (ValueError(X), {"out.args[0]"}),
    "objects in numpy": (np.array([X, None], dtype=object), {"out[0]"}),
    "iterator with attributes": (Stepping(X), {"out.held"}),
    "dict values": ({1: X}.values(), {"out[0]"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_tensors_are_found_where_they_are(name: str) -> None:
    value, places = PLACES[name]
    found = look_into([("out", value)])
    assert set(found.tensors) == places
    assert not found.unseen


def numbers() -> Iterator[int]:
    yield 1
    yield 2


CLOSED: dict[str, Any] = {
    "generator": numbers(),
    "iterator": iter([1, 2]),
    "zip": zip([1, 2], [1, 2], strict=True),
    "closure": (lambda y: lambda: y)(X),
    "weak reference": weakref.ref(Hostile),
    "set of objects": {Plain(), Plain()},
    "random generator": torch.Generator(),
    "node": (X.clone().requires_grad_() * 2).grad_fn,
}


@pytest.mark.parametrize("name", CLOSED)
def test_what_cannot_be_looked_into_is_said_and_is_no_difference(name: str) -> None:
    found = look_into([("out", Plain(inside=CLOSED[name]))])
    assert list(found.unseen) == ["out.inside"]
    other = look_into([("out", Plain(inside=torch.Generator()))])
    if name not in ("closure", "generator", "iterator", "zip"):
        assert not list(differing(found, other))


def test_iterators_are_not_consumed() -> None:
    given = numbers()
    look_into([("out", [given, map(abs, given), itertools.chain(given)])])
    assert list(given) == [1, 2]


def test_cycles_end_and_objects_are_looked_into_once() -> None:
    shared = Plain(t=X)
    ring = Plain(first=shared, second=shared)
    ring.me = ring
    found = look_into([("a", ring), ("b", [ring])])
    assert set(found.tensors) == {"a.first.t"}
    assert found.again == {"a.me", "a.second", "b[0]"}
    apart = Plain(first=Plain(t=X), second=Plain(t=X))
    apart.me = apart
    assert not list(differing(found, look_into([("a", apart), ("b", [apart])])))


def test_huge_and_deep_objects_are_cut_off_and_said() -> None:
    chain: Any = None
    for _ in range(LONGEST_PLACE):
        chain = [chain]
    assert len(look_into([("out", chain)]).unseen) == 1
    assert look_into([("out", [Plain() for _ in range(MOST_VALUES + 9)])]).unseen


def test_what_belongs_to_somebody_else_is_left_to_it() -> None:
    module = Held()
    assert not look_into([("out", Plain(owner=module))], {id(module)}).slots


def test_types_and_names_of_parts_are_compared() -> None:
    def told(a: Any, b: Any) -> list[str]:
        return [place for place, *_ in differing(look_into([("o", a)]), look_into([("o", b)]))]

    assert told(Plain(a=Plain(b=X)), Plain(a=Plain(b=X + 1))) == []
    assert told(Plain(a=Plain(b=X)), Plain(a=Slotted(X))) == ["o.a"]
    assert told(Plain(a=X), Plain(c=X)) == ["o"]
    assert told(Plain(a=[X]), Plain(a=X)) == ["o.a"]
    assert told(Plain(a=len), Plain(a=max)) == ["o.a"]
    assert told(Plain(a=[X, X]), Plain(a=[X])) == ["o.a"]


def local_class() -> type:
    class Local(enum.Enum):
        ONE = 1

    return Local


def test_plain_values() -> None:
    nan = float("nan")
    alike = [
        (nan, float("nan")), (complex(nan, 1), complex(float("nan"), 1)), (torch.float32, torch.float32),
        (np.array([1, np.nan]), np.array([1, np.nan])), (np.float32(nan), np.float32(nan)), ({1, 2}, {2, 1}),
        (re.compile("a"), re.compile("a")), (local_class(), local_class()), ("a", "a"),
        (local_class()["ONE"], local_class()["ONE"]), (torch.Size([1]), torch.Size([1])),
    ]  # fmt: skip
    assert all(same_plain(a, b) is True for a, b in alike)
    other = [
        (1, 2), (np.array([1]), np.array([2])), (np.array([1]), np.array([1.0])), (torch.float32, torch.float64),
        (int, float), (np.zeros(2), np.zeros(3)), ("a", "b"), (None, 0),
    ]  # fmt: skip
    assert all(same_plain(a, b) is False for a, b in other)
    assert same_plain(Hostile(1), Hostile(1)) is None


def test_arrays_are_kept_as_they_were() -> None:
    array = np.zeros(2)
    found = look_into([("out", Plain(a=array))])
    array += 1
    assert found.slots["out.a"].tolist() == [0, 0]
