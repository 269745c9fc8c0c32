"""Input sets: tensors with their strides, offsets and shared memory."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.model import TensorSpec
from fxmorph.programs.contents import look_into
from fxmorph.torchapi.dispatch import tensors_of, tree_map
from fxmorph.torchapi.storages import storage_key

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Unsupported(Exception):
    """Inputs that cannot be rebuilt (sparse, quantised, tensor subclasses)."""


class NotApplicable(Exception):
    """The value plan has nothing to change in these inputs, or there is no way to."""


def is_float_dtype(dtype: torch.dtype) -> bool:
    """Floating point or complex."""
    return dtype.is_floating_point or dtype.is_complex


def is_integer_dtype(dtype: torch.dtype) -> bool:
    """Whether it is of whole numbers; truth values are none."""
    return dtype != torch.bool and not is_float_dtype(dtype)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class _Plain:
    value: Any


@dataclass(frozen=True)
class _View:
    storage: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    conj: bool
    neg: bool
    #: It is a view, as PyTorch calls it: of a tensor that it knows.
    viewed: bool


class _Memory:
    """Memory that tensors are made in; those that are views are views of one tensor, as they were before.

    For inputs that share memory and are views of nothing AOTAutograd makes a base, as large as they need, and 2.13
    refuses its own base where the memory is larger.
    """

    def __init__(self, raw: torch.Tensor) -> None:
        self._raw = raw
        self._bases: dict[torch.dtype, torch.Tensor] = {}

    def tensor(
        self, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], offset: int, viewed: bool
    ) -> torch.Tensor:
        if not viewed:
            t = torch.empty(0, dtype=dtype, device=self._raw.device)
            return t.set_(self._raw.untyped_storage(), offset, size, stride)
        if dtype not in self._bases:
            self._bases[dtype] = _flat(self._raw.untyped_storage(), dtype, self._raw.device)
        with torch.enable_grad():  # autograd does not let views be written that were made without it
            return self._bases[dtype].as_strided(size, stride, offset)


class InputSet:
    """Values frozen as they were, to be rebuilt any number of times.

    Memory shared between inputs is shared between the rebuilt ones; strides and offsets
    are kept; each rebuilt tensor that requires grad is a leaf.
    """

    def __init__(self, storages: list[torch.Tensor], items: list[_Plain | _View]) -> None:
        self._storages = storages
        self._items = items

    @staticmethod
    def snapshot(values: Sequence[Any]) -> InputSet:
        """Raises :class:`Unsupported`."""
        storages: list[torch.Tensor] = []
        numbers: dict[int, int] = {}
        items: list[_Plain | _View] = []
        for value in values:
            if not isinstance(value, torch.Tensor):
                if look_into([("", value)]).tensors:
                    raise Unsupported(f"tensors inside a {type(value).__name__}")
                items.append(_Plain(copy.deepcopy(value)))
                continue
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
                raise Unsupported(f"{type(value).__name__} of layout {value.layout}")
            if value.is_quantized:
                raise Unsupported("quantised tensor")
            key = storage_key(value)
            if key not in numbers:
                numbers[key] = len(storages)
                storages.append(memory_of(value).clone())
            items.append(
                _View(
                    numbers[key],
                    value.dtype,
                    tuple(value.shape),
                    tuple(value.stride()),
                    int(value.storage_offset()),
                    value.requires_grad,
                    value.is_conj(),
                    value.is_neg(),
                    value._is_view(),
                )
            )
        return InputSet(storages, items)

    def rebuild(self) -> list[Any]:
        """Fresh inputs, equal to those frozen."""
        shared = Counter(item.storage for item in self._items if isinstance(item, _View))
        memories = [_Memory(s.clone()) for s in self._storages]
        out: list[Any] = []
        with torch.no_grad():
            for item in self._items:
                if isinstance(item, _Plain):
                    out.append(copy.deepcopy(item.value))
                    continue
                viewed = item.viewed and shared[item.storage] > 1
                t = memories[item.storage].tensor(item.dtype, item.size, item.stride, item.offset, viewed)
                t = t.conj() if item.conj else t
                t = torch._neg_view(t) if item.neg else t
                out.append(t.requires_grad_(True) if item.requires_grad else t)
        return out

    def specs(self) -> list[TensorSpec | None]:
        """One spec an input; None for what is not a tensor."""
        out: list[TensorSpec | None] = []
        for value, item in zip(self.rebuild(), self._items, strict=True):
            out.append(None if isinstance(item, _Plain) else spec_of(value, item.storage))
        return out


def redrawn(inputs: InputSet, seed: int) -> InputSet:
    """The same inputs with random floating-point values; those that are not negative stay so."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    values = inputs.rebuild()
    seen: set[int] = set()
    with torch.no_grad():
        for t in values:
            if isinstance(t, torch.Tensor) and t.dtype in FLOATING and t.numel() and storage_key(t) not in seen:
                seen.add(storage_key(t))
                flat = flat_storage(t.detach())
                new = torch.randn(flat.numel(), generator=generator, device="cpu")
                flat.copy_(new.abs() if bool(flat.ge(0).all()) else new)
    return InputSet.snapshot(values)


def spec_of(t: torch.Tensor, storage: int = 0) -> TensorSpec:
    """The spec of a strided tensor; ranges only for integers."""
    low = high = None
    if not t.is_floating_point() and not t.is_complex() and t.dtype != torch.bool and t.numel():
        low, high = int(t.min()), int(t.max())
    return TensorSpec(
        dtype=dtype_name(t.dtype),
        shape=tuple(t.shape),
        stride=tuple(t.stride()),
        device=t.device.type,
        offset=int(t.storage_offset()),
        storage=storage,
        storage_size=t.untyped_storage().nbytes() // t.element_size(),
        requires_grad=t.requires_grad,
        low=low,
        high=high,
    )


def flat_storage(t: torch.Tensor) -> torch.Tensor:
    """The whole memory under ``t`` as a 1-D tensor of its dtype, sharing it."""
    return _flat(t.untyped_storage(), t.dtype, t.device)


def memory_of(t: torch.Tensor) -> torch.Tensor:
    """The whole memory under ``t`` as bytes, sharing it."""
    return _flat(t.untyped_storage(), torch.uint8, t.device)


def _flat(storage: torch.UntypedStorage, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=device).set_(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))


def relocate(values: Any, device: str, dtype: torch.dtype | None = None) -> Any:
    """Nested values with every tensor on ``device``, strides, offsets and shared memory kept.

    ``dtype`` converts floating-point tensors (complex ones stay as they are).
    """
    shared = Counter(storage_key(t) for t in tensors_of(values) if t.layout == torch.strided)
    moved: dict[tuple[int, torch.dtype | None], _Memory] = {}

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        converts = dtype is not None and value.is_floating_point() and value.dtype != dtype
        if value.device.type == device and not converts:
            return value
        wanted = dtype if dtype is not None and converts else value.dtype
        key = (storage_key(value), value.dtype if converts else None)
        if key not in moved:
            flat = flat_storage(value) if converts else memory_of(value)
            moved[key] = _Memory(flat.to(device, dtype if converts else None))
        viewed = value._is_view() and shared[storage_key(value)] > 1
        t = moved[key].tensor(wanted, value.shape, value.stride(), int(value.storage_offset()), viewed)
        return t.requires_grad_(value.requires_grad)

    with torch.no_grad():
        return tree_map(move, values)


def strided_clone(t: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides and offset over memory of its own; a leaf without grad."""
    return InputSet.snapshot([t.detach()]).rebuild()[0]
