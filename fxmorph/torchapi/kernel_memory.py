"""The memory that interpreted kernels read and write, every access checked.

An access must lie inside its buffer, exactly; an element that is read must have been written, and not by whoever got
the buffer's memory after it; what a kernel has to write it must write whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from fxmorph.model import Kind
from fxmorph.torchapi.kernel_order import Lanes, Touched
from fxmorph.torchapi.storages import storage_key

#: Says that a kernel does what it may not: the kind, the buffer, and in words what.
Accuse = Callable[[Kind, str, str], None]


class _Shadow:
    """Of one memory, by element, the owner that wrote it: 0 of others than kernels, negative before its first write."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.alive = StorageWeakRef(tensor.untyped_storage())
        self.width = tensor.element_size()
        self.owners = torch.zeros(tensor.untyped_storage().nbytes() // self.width, dtype=torch.int32)


class Owners:
    """Who owns and wrote the memory of buffers, from kernel to kernel.

    A buffer is known by its graph and its name; it becomes the owner of its memory where a kernel that makes it begins.
    """

    def __init__(self) -> None:
        self._last = 0
        self._shadows: dict[int, _Shadow] = {}
        #: The number of a buffer as an owner, and its memory.
        self._owner: dict[tuple[int, str], tuple[int, int]] = {}
        self._names: dict[int, str] = {}

    def clear(self) -> None:
        self._shadows.clear()
        self._owner.clear()
        self._names.clear()

    def shadow(self, tensor: torch.Tensor, make: bool = False) -> _Shadow | None:
        """None where nobody looks after the memory, or it is read as elements of another size."""
        place = storage_key(tensor)
        found = self._shadows.get(place)
        if found is not None and found.alive.expired():
            del self._shadows[place]
            found = None
        if found is None and make:
            self._forget_the_dead()
            found = self._shadows[place] = _Shadow(tensor)
        return found if found is not None and found.width == tensor.element_size() else None

    def _forget_the_dead(self) -> None:
        for place in [p for p, shadow in self._shadows.items() if shadow.alive.expired()]:
            del self._shadows[place]

    def begin(self, graph: int, name: str, tensor: torch.Tensor, in_place: bool) -> None:
        """The buffer owns its memory now, and has written none; ``in_place``: what it takes over is read yet."""
        self._last = number = self._last + 1
        self._owner[graph, name] = number, storage_key(tensor)
        self._names[number] = name
        shadow = self.shadow(tensor, make=True)
        if shadow is not None and not in_place:
            _region(shadow, tensor).fill_(-number)

    def number(self, graph: int, name: str, tensor: torch.Tensor) -> int:
        """The buffer as an owner; 0 where no kernel began it."""
        number, place = self._owner.get((graph, name), (0, 0))
        return number if place == storage_key(tensor) else 0

    @property
    def next(self) -> int:
        """No owner so far has this number, or a higher one."""
        return self._last + 1

    def unwritten(self, tensor: torch.Tensor, since: int) -> int:
        """How many elements of a tensor no owner wrote that began ``since`` then."""
        shadow = self.shadow(tensor)
        return 0 if shadow is None else int((_region(shadow, tensor) < since).sum())

    def given(self, graph: int, name: str, tensor: torch.Tensor) -> None:
        """Nothing is computed of the buffer, and what is in it is meant to be read."""
        shadow, number = self.shadow(tensor), self.number(graph, name, tensor)
        if shadow is not None:
            _region(shadow, tensor).fill_(number)

    def name_of(self, number: int) -> str:
        return self._names.get(number, "another buffer")


def _region(shadow: _Shadow, tensor: torch.Tensor) -> torch.Tensor:
    return shadow.owners.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


OWNERS = Owners()
_graphs = itertools.count(1)
_numbers_of_graphs: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def number_of_graph(graph: Any) -> int:
    """A number that no other graph has."""
    if graph not in _numbers_of_graphs:
        _numbers_of_graphs[graph] = next(_graphs)
    return _numbers_of_graphs[graph]


@dataclass(frozen=True)
class _Buffer:
    """All memory around a tensor in one dimension; ``low`` and ``high`` are the addresses that may be touched."""

    tensor: torch.Tensor
    flat: torch.Tensor
    base: int
    low: int
    high: int
    place: int


class Memory:
    """The buffers of one run of a kernel.

    ``own`` are those in memory of Inductor's making: of others, such as inputs, all of the memory may be reached.
    Where the kernel both reads and writes a memory it is followed which iteration touches an element of it.
    """

    def __init__(
        self, graph: int, tensors: Mapping[str, torch.Tensor], own: Collection[str], written: Collection[str],
        read: Collection[str], accuse: Accuse,
    ) -> None:  # fmt: skip
        self._graph, self.accuse = graph, accuse
        self._buffers = {name: _buffer(t, name in own) for name, t in tensors.items()}
        self._written = {b.place: b.flat for n, b in self._buffers.items() if n in written}
        both = self._written.keys() & {self._buffers[n].place for n in read if n in self._buffers}
        self._touched = {place: Touched(len(self._written[place])) for place in both}
        self.lanes: Lanes | None = None
        self._since = 0
        #: What the written memory held before, and what hangs on the order of iterations, if it matters.
        self._before: dict[int, torch.Tensor] = {}
        self._suspected: dict[str, str] = {}
        self._spoils = False

    @property
    def follows(self) -> bool:
        """Whether any element may be both read and written."""
        return bool(self._touched)

    def dtype(self, name: str) -> torch.dtype:
        return self._buffers[name].flat.dtype

    def forget_touches(self) -> None:
        """What follows runs after all that was."""
        self._touched = {place: Touched(touched.size) for place, touched in self._touched.items()}

    def begin(self, made: Collection[str], in_place: Collection[str]) -> None:
        self._since = OWNERS.next
        for name in made:
            if name in self._buffers:
                OWNERS.begin(self._graph, name, self._buffers[name].tensor, name in in_place)
        if self.follows:
            self._before = {place: flat.clone() for place, flat in self._written.items()}

    def end(self, made: Collection[str], given: Collection[str]) -> None:
        """Accuse of what was left unwritten; ``given`` is left so by the program."""
        for name in made:
            if name not in self._buffers:
                continue
            tensor = self._buffers[name].tensor
            if name in given:
                OWNERS.given(self._graph, name, tensor)
            elif missing := OWNERS.unwritten(tensor, self._since):
                said = f"leaves {missing} of the {tensor.numel()} elements of {name} unwritten"
                self.accuse(Kind.POISON, name, said)
                OWNERS.given(self._graph, name, tensor)

    def judge_order(self, run_again: Callable[[], None]) -> None:
        """Accuse of what hangs on the order of iterations where another one would give other results.

        The kernel runs again on what it was given, and where one iteration reads what another one writes it reads
        something else.  Values that are read so and not used are no fault.
        """
        if not self._suspected:
            return
        results = {place: flat.clone() for place, flat in self._written.items()}
        for place, flat in self._written.items():
            flat.copy_(self._before[place])
        accuse, self.accuse, self._spoils = self.accuse, lambda *_: None, True
        run_again()
        self.accuse, self._spoils = accuse, False
        matters = not all(_near(results[place], flat) for place, flat in self._written.items())
        for place, flat in self._written.items():
            flat.copy_(results[place])
        for name, said in self._suspected.items() if matters else ():
            self.accuse(Kind.ORDER, name, said)

    def load(self, name: str, at: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The elements at these addresses; those that are masked out may lie anywhere."""
        buffer = self._buffers[name]
        at = self._inside(name, buffer, at, mask, "reads")
        shadow = OWNERS.shadow(buffer.tensor)
        if shadow is not None:
            self._check_owner(name, buffer, shadow, at, mask)
        touched = self._touched.get(buffer.place)
        values = _copied(buffer.flat, at)
        if touched is None or self.lanes is None:
            return values
        if self._spoils:
            return torch.where(touched.by_others(at, self.lanes), _spoiled(values), values)
        flat, lanes = _in_one_dimension(at, mask, self.lanes)
        wrong = touched.read(flat, lanes)
        if bool(wrong.any()):
            said = f"one iteration reads element {_one(flat, wrong, buffer)} of {name}, which another one writes"
            self._suspected.setdefault(name, said)
        return values

    def store(self, name: str, at: torch.Tensor, value: torch.Tensor, lanes: Lanes | None, adds: bool) -> None:
        """Write; all is in one dimension, and lanes that share an address write one after another."""
        buffer = self._buffers[name]
        at, value = self._inside(name, buffer, at, None, "writes"), value.to(buffer.flat.dtype)
        touched = self._touched.get(buffer.place)
        if touched is not None and lanes is not None and not self._spoils:
            wrong = touched.write(at, lanes, adds)
            if bool(wrong.any()):
                said = f"one iteration writes element {_one(at, wrong, buffer)} of {name}, which another one"
                self._suspected.setdefault(name, f"{said} reads or writes")
        if adds:
            buffer.flat.index_put_((at,), value, accumulate=True)
        else:
            buffer.flat[at] = value
        shadow = OWNERS.shadow(buffer.tensor)
        if shadow is not None:
            shadow.owners[at] = OWNERS.number(self._graph, name, buffer.tensor)

    def _inside(self, name: str, buffer: _Buffer, at: torch.Tensor, mask: torch.Tensor | None, does: str) -> Any:
        at = at.to(torch.int64)
        beyond = (at < buffer.low) | (at >= buffer.high)
        if bool(beyond.any()):
            wrong = beyond if mask is None else beyond & mask
            if bool(wrong.any()):
                first = int(at.expand(wrong.shape)[wrong][0])
                said = f"{does} element {first} of {name}, which has {buffer.low} to {buffer.high - 1}"
                self.accuse(Kind.OUT_OF_BOUNDS, name, said)
            at = at.clamp(buffer.low, max(buffer.high - 1, buffer.low))
        return at + buffer.base

    def _check_owner(
        self, name: str, buffer: _Buffer, shadow: _Shadow, at: torch.Tensor, mask: torch.Tensor | None
    ) -> None:
        owners = shadow.owners[at]
        number = OWNERS.number(self._graph, name, buffer.tensor)
        other = (owners > 0) & (owners != number) if number else torch.zeros_like(owners, dtype=torch.bool)
        wrong = (owners < 0) | other
        if mask is not None:
            wrong = wrong & mask
        if not bool(wrong.any()):
            return
        place = _one(at.expand(wrong.shape), wrong, buffer)
        owner = int(owners.expand(wrong.shape)[wrong][0])
        if owner < 0:
            said = f"reads element {place} of {name} before it is written"
        else:
            said = f"reads element {place} of {name} after {OWNERS.name_of(owner)} was written over it"
        self.accuse(Kind.POISON, name, said)


def _in_one_dimension(at: torch.Tensor, mask: torch.Tensor | None, lanes: Lanes) -> tuple[torch.Tensor, Lanes]:
    """Addresses and their iterations, without those that are masked out."""
    shape = torch.broadcast_shapes(at.shape, lanes.outer.shape, *([] if mask is None else [mask.shape]))
    if lanes.inner is not None:
        shape = torch.broadcast_shapes(shape, lanes.inner.shape)
    flat, outer = at.expand(shape).reshape(-1), lanes.outer.expand(shape).reshape(-1)
    inner = None if lanes.inner is None else lanes.inner.expand(shape).reshape(-1)
    if mask is None:
        return flat, Lanes(outer, inner)
    kept = mask.expand(shape).reshape(-1)
    return flat[kept], Lanes(outer[kept], None if inner is None else inner[kept])


def _spoiled(value: torch.Tensor) -> torch.Tensor:
    """Something else."""
    if value.is_floating_point() or value.is_complex():
        return torch.full_like(value, torch.nan)
    return ~value if value.dtype == torch.bool else value + 1


def _near(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, 1e-4, 1e-6, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


def _copied(flat: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """The elements at these places, in memory of their own: one place alone would give a view, which a later store
    changes.
    """
    return flat[at.reshape(-1)].reshape(at.shape)


def _one(at: torch.Tensor, wrong: torch.Tensor, buffer: _Buffer) -> int:
    return int(at[wrong][0]) - buffer.base


def _buffer(tensor: torch.Tensor, own: bool) -> _Buffer:
    """Autograd is not told of writes to it."""
    data = tensor.data
    whole, base = data.untyped_storage().nbytes() // data.element_size(), int(data.storage_offset())
    flat = data.as_strided((whole,), (1,), 0)
    low, high = -base, whole - base
    if own:
        low, high = (
            0,
            int(data.numel() and 1 + sum((n - 1) * s for n, s in zip(data.size(), data.stride(), strict=True))),
        )
    return _Buffer(data, flat, base, low, high, storage_key(data))
