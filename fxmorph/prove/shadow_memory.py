"""Running a program natively with a shadow of every storage beside it, in the values of a domain.

A domain says what an element of memory *means*: the term that computes it (``terms/``), or a
number of a finite field (``field/``).  Shadows belong to storages, as in the reference run
(``judge/reference/``): element i of a storage has element i of its shadow.  So views, strides,
in-place writes, aliasing, autograd and Python control flow are torch's own and are not modelled
again; a domain models what operators compute, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode

from fxmorph.programs.memory import overlaps_itself
from fxmorph.programs.operators import RUNNING_STATISTICS, operator_name
from fxmorph.torchapi.dispatch import (
    DispatchMode,
    OpOverload,
    aten_packet,
    is_random,
    schema_of,
    tree_leaves,
    written_tensors,
)
from fxmorph.torchapi.storages import storage_key


class NotModelled(Exception):
    """A domain has no meaning for an operator or for what a program does; says which."""


#: Arguments of operators that do not decide what is computed.
_IMMATERIAL = frozenset("out device layout pin_memory non_blocking memory_format generator implicit copy".split())


@dataclass
class Call:
    """One call of an aten operator that made or wrote memory.

    ``name`` is the functional operator's (``add`` for ``add_`` and ``add.out`` too);
    ``arguments`` are by the schema's names, without those left at their default and those that do
    not decide a value.  ``targets`` are the native tensors made, then those written, as they are
    after the call; ``written`` says how many of them are written ones, at the end.
    """

    name: str
    func: OpOverload
    arguments: dict[str, Any]
    targets: list[torch.Tensor]
    written: int
    memory: Memory

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The native tensors among the arguments, in order."""
        return [t for t in tree_leaves(list(dict.values(self.arguments))) if isinstance(t, torch.Tensor)]

    def shadow(self, t: torch.Tensor) -> torch.Tensor:
        """The shadow of an argument as it was before the call: same shape and strides; do not write to it."""
        return self.memory.shadow(t)

    def shadowed(self, value: Any) -> Any:
        """An argument with each tensor in it replaced by its shadow."""
        if isinstance(value, torch.Tensor):
            return self.shadow(value)
        return type(value)(map(self.shadowed, value)) if isinstance(value, (list, tuple)) else value


class Domain(Protocol):
    """What elements mean.  ``dtype`` is that of shadows."""

    dtype: torch.dtype

    def known(self, native: torch.Tensor) -> torch.Tensor:
        """The shadow of a tensor of which only its values are known, of the same shape."""

    def apply(self, call: Call) -> list[torch.Tensor]:
        """The shadow of each of ``call.targets``, of its shape; raises :class:`NotModelled`."""

    def bitcast(self, shadow: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
        """What the same bits mean in another dtype of the same size; raises :class:`NotModelled`."""


class Memory:
    """Shadows by storage."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._bases: dict[int, torch.Tensor] = {}
        self._natives: dict[int, tuple[Any, torch.dtype]] = {}  # keeps storages alive, so that keys stay unique

    def knows(self, t: torch.Tensor) -> bool:
        return storage_key(t) in self._bases

    def shadow(self, t: torch.Tensor) -> torch.Tensor:
        """The shadow of ``t``; the memory's own, but for memory that ``t`` sees under another dtype."""
        key = storage_key(t)
        if t.is_conj() or t.is_neg():
            raise NotModelled("conjugate views")
        if key not in self._bases:
            self._natives[key] = (t.untyped_storage(), t.dtype)
            flat = torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage())
            self._bases[key] = self.domain.known(flat).clone()
        own = self._natives[key][1]
        if own.itemsize != t.dtype.itemsize:
            raise NotModelled("memory seen under dtypes of two sizes")
        seen = self._bases[key].as_strided(t.shape, t.stride(), t.storage_offset())
        return seen if own == t.dtype else self.domain.bitcast(seen, own, t.dtype)

    def adopt(self, t: torch.Tensor, shadow: torch.Tensor) -> None:
        """Make ``shadow`` what the fresh tensor ``t`` means; memory around it is zeros."""
        key = storage_key(t)
        self._natives[key] = (t.untyped_storage(), t.dtype)
        size = t.untyped_storage().nbytes() // max(t.element_size(), 1)
        self._bases[key] = torch.zeros(size, dtype=self.domain.dtype, device=t.device)
        self._bases[key].as_strided(t.shape, t.stride(), t.storage_offset()).copy_(shadow)

    def whole(self, t: torch.Tensor, base: torch.Tensor) -> None:
        """Make ``base`` (1-D) what all of the memory under ``t`` means, gaps between elements included."""
        self._natives[storage_key(t)] = (t.untyped_storage(), t.dtype)
        self._bases[storage_key(t)] = base.clone()

    def write(self, t: torch.Tensor, shadow: torch.Tensor) -> None:
        """Make ``shadow`` what ``t`` means from now on; shadows that were given out before stay as they were."""
        key = storage_key(t)
        own = self._natives[key][1]
        if own != t.dtype:
            shadow = self.domain.bitcast(shadow, t.dtype, own)
        self._bases[key] = self._bases[key].clone()
        self._bases[key].as_strided(t.shape, t.stride(), t.storage_offset()).copy_(shadow)


def functional_name(func: OpOverload) -> str:
    """``add`` for ``aten.add.Tensor``, ``aten.add_.Tensor`` and ``aten.add.out``."""
    name = operator_name(func)
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _arguments(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for i, a in enumerate(schema_of(func).arguments):
        if i < len(args):
            value = args[i]
        elif a.name in kwargs:
            value = kwargs[a.name]
        else:
            continue
        default = a.default_value if a.has_default_value() else None
        same = not isinstance(value, torch.Tensor) and type(value) is type(default) and value == default
        if a.name not in _IMMATERIAL and not (same and a.has_default_value()):
            out[a.name] = value
    return out


def shape_of_values(call: Call) -> bool:
    """Whether the shape of the result depends on values, as that of ``nonzero`` and ``x[mask]`` does."""
    if torch.Tag.dynamic_output_shape not in call.func.tags:
        return False
    if call.name in ("index", "_unsafe_index"):
        places = [t for t in tree_leaves(call.arguments["indices"]) if isinstance(t, torch.Tensor)]
        return any(t.dtype in (torch.bool, torch.uint8) for t in places)
    return True


#: Methods by which Python reads memory, or gets at it, past the dispatcher.
_READERS = frozenset(
    "tolist numpy __array__ __dlpack__ data_ptr storage untyped_storage _typed_storage __cuda_array_interface__".split()
)


def _given(arguments: dict[str, Any]) -> set[str]:
    """Arguments that are there and not false."""
    return {n for n, v in arguments.items() if v is not None and v is not False}


class Unread(TorchFunctionMode):
    """Raises :class:`NotModelled` where a program reads values, or memory, into Python past the dispatcher."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READERS:
            raise NotModelled(f"{name}: values read into Python")
        return func(*args, **(kwargs or {}))


class Shadowing(DispatchMode):
    """Dispatch mode that carries a domain's shadows beside a native run.

    Raises :class:`NotModelled` out of the program for what cannot be followed: random numbers,
    sparse tensors and subclasses, memory whose address or size is changed, values read into Python.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, OpOverload):
            raise NotModelled(str(func))
        name = functional_name(func)
        if name.startswith("_foreach_"):
            return self._one_by_one(func, args, kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in tensors):
            raise NotModelled(f"{name} of a tensor that is not plain and strided")
        if name in ("set", "resize", "resize_as", "_local_scalar_dense", "item"):
            raise NotModelled(name)
        if is_random(func, args, kwargs):
            raise NotModelled(f"random numbers of {name}")
        for t in tensors:
            self.memory.shadow(t)
        written = written_tensors(func, args, kwargs)
        if any(map(overlaps_itself, written)):
            raise NotModelled(f"{name} writes elements that lie in one place")
        if name in RUNNING_STATISTICS and {"training", "running_mean"} <= _given(_arguments(func, args, kwargs)):
            raise NotModelled(f"running statistics of {name}")

        out = func(*args, **kwargs)

        made = [o for o in tree_leaves(out) if isinstance(o, torch.Tensor)]
        fresh: list[torch.Tensor] = []
        for o in made:
            if o.layout != torch.strided:
                raise NotModelled(f"{name} gives a {o.layout} tensor")
            if self.memory.knows(o):
                continue
            if any(storage_key(o) == storage_key(f) for f in fresh):
                raise NotModelled(f"{name} gives tensors over one memory")
            fresh.append(o)
        targets = [*fresh, *written]
        if not made and any(isinstance(o, (bool, int, float)) for o in tree_leaves(out)):
            raise NotModelled(f"{name}: values read into Python")
        if not targets:
            return out  # views, or nothing
        call = Call(name, func, _arguments(func, args, kwargs), targets, len(written), self.memory)
        try:
            shadows = self.memory.domain.apply(call)
        except NotModelled:
            raise
        except Exception as error:  # an operator used as the domain does not expect
            raise NotModelled(f"{name}: {type(error).__name__}: {error}") from error
        for t, shadow in zip(targets, shadows, strict=True):
            if self.memory.knows(t):
                self.memory.write(t, shadow)
            else:
                self.memory.adopt(t, shadow)
        return out

    def _one_by_one(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A ``_foreach`` operator as what it is defined to be: its operator on each tensor in turn."""
        name = operator_name(func)
        packet = aten_packet(name.removeprefix("_foreach_"))
        lists = [a for a in args if isinstance(a, (list, tuple)) and any(isinstance(t, torch.Tensor) for t in a)]
        if packet is None or not lists:
            raise NotModelled(name)
        out = []
        with self:
            for i in range(len(lists[0])):
                out.append(packet(*(a[i] if isinstance(a, (list, tuple)) else a for a in args), **kwargs))
        return None if name.endswith("_") else out
