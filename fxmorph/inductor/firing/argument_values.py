"""What an argument of an operator may be, told by its type and its name in the schema, the plainest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.inductor.derive.derived_graph import InputSpec
from fxmorph.inductor.firing.small_program import tensor_spec
from fxmorph.programs.inputs import dtype_name
from fxmorph.torchapi.argument_words import WORDS


@dataclass(frozen=True)
class New:
    """A tensor that is to be an input."""

    spec: InputSpec


@dataclass(frozen=True)
class Fresh:
    """A tensor that is computed for the call alone."""

    spec: InputSpec


@dataclass(frozen=True)
class Given:
    """The value that the call is made on."""


class _Omitted:
    """An argument that is left to its default."""


OMITTED = _Omitted()
#: Names of tensors that an operator writes.
_RESULTS = frozenset("result out output".split())
#: Dtypes by their bytes, of floats and of whole numbers.
_AS_LARGE = {
    2: (torch.bfloat16, torch.float16, torch.int16), 4: (torch.int32, torch.float32), 8: (torch.int64, torch.float64),
}  # fmt: skip
#: A number that each floating dtype rounds otherwise.
_ROUNDED = 0.1
#: What repeats a value along dimensions of size 1.
WIDENING = frozenset("expand expand_copy broadcast_to broadcast_in_dim".split())


@dataclass(frozen=True)
class Words:
    """Numbers, dtypes and lists that a pass names: they are tried where an operator takes such."""

    numbers: tuple[float, ...] = ()
    dtypes: tuple[torch.dtype, ...] = ()
    #: More of them, which values are cast to; ``dtypes`` are also those of inputs.
    casts: tuple[torch.dtype, ...] = ()
    #: What the pass names that graphs call.
    targets: tuple[Any, ...] = ()


def kind_of(argument: Any) -> str:
    """The type as the schema spells it: ``type`` calls dtypes and memory formats whole numbers."""
    return str(getattr(argument, "real_type", argument.type))


def spec_like(value: torch.Tensor, shape: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> InputSpec:
    return tensor_spec(value.shape if shape is None else shape, dtype_name(dtype or value.dtype))


def options_of(name: str, argument: Any, value: torch.Tensor | None, words: Words) -> Iterator[Any]:
    """Values of an argument, the plainest first."""
    kind, own = kind_of(argument), argument.name
    optional = argument.has_default_value()
    if optional:
        yield OMITTED
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if inner == "Tensor":
        tensors = [New(spec) for spec in _tensors(name, own, value)]
        yield from tensors[:1]
        if own == "other" and name not in ("matmul", "mm"):  # graphs have numbers where tensors may be
            yield from dict.fromkeys((*words.numbers[:4], 2, 1, 0, 0.5, -1, _ROUNDED))
        yield from tensors[1:]
    elif inner == "List[Tensor]" or inner == "List[Optional[Tensor]]":
        if isinstance(value, torch.Tensor):
            index = tensor_spec((2,), "int64", "=0")
            yield [New(index)] if own == "indices" else [New(spec_like(value)), New(spec_like(value))]
    elif own in ("dtype", "out_dtype") or inner == "ScalarType":
        if name == "view" and isinstance(value, torch.Tensor):  # the same bytes, in the same shape
            yield from (d for d in _AS_LARGE.get(value.dtype.itemsize, ()) if d != value.dtype)
        named = dict.fromkeys((*words.dtypes, *words.casts, torch.float16, torch.float64, torch.int64))
        yield from sorted((d for d in named if not d.is_complex), key=lambda d: not _widens(value, d))
    elif inner == "MemoryFormat" or own == "memory_format":
        yield torch.contiguous_format
    elif inner == "Layout" or own == "layout":
        yield torch.strided
    elif inner == "bool":
        yield from (bool(argument.default_value) is False, bool(argument.default_value)) if optional else (False, True)
    elif inner in ("int", "SymInt"):
        yield from _whole(name, own, value, words)
    elif inner in ("float", "number", "Scalar"):
        yield from _numbers(own, words)
    elif inner.startswith("List[") and ("int" in inner or "SymInt" in inner):
        yield from _lists(name, own, value)
    elif inner == "str":
        yield from WORDS.get(own, () if optional else ("said",))
    elif inner == "Device" and not optional:
        yield torch.device("cpu")
    if not optional and kind.startswith("Optional["):
        yield None


def _widens(value: Any, dtype: torch.dtype) -> bool:
    """Whether the dtype is a wider one of the value's sort: such casts stand in a row."""
    if not isinstance(value, torch.Tensor):
        return False
    alike = value.dtype.is_floating_point == dtype.is_floating_point
    return alike and dtype.itemsize > value.dtype.itemsize


def _tensors(name: str, own: str, value: torch.Tensor | None) -> Iterator[InputSpec]:
    if value is None or not isinstance(value, torch.Tensor):
        yield tensor_spec((4, 6))
        return
    shape, dtype = tuple(value.shape), dtype_name(value.dtype)
    known = _shaped(name, own, shape)
    if known is not None:
        yield tensor_spec(known, dtype)
        return
    if own in ("index", "indices") or (own == "target" and name.endswith("loss")):
        yield tensor_spec(shape if name in ("gather", "scatter", "scatter_add") else (3,), "int64", "=0")
        return
    if own in ("condition", "mask"):
        yield tensor_spec(shape, "bool", "mask")
        return
    if own in ("running_mean", "running_var", "scale", "scales"):
        yield tensor_spec(shape[1:2], dtype, "positive")
        return
    yield tensor_spec(shape, dtype)
    yield tensor_spec(shape[-1:], dtype)
    if own in _RESULTS and shape and shape[-1] % 2 == 0:  # of gated activations
        yield tensor_spec((*shape[:-1], shape[-1] // 2), dtype)
    for other in ("float64", "int64", "float16"):
        if other != dtype:
            yield tensor_spec(shape, other)
    yield tensor_spec((), dtype)
    if shape and shape[0] != 1:
        yield tensor_spec((1, *shape[1:]), dtype)
        yield tensor_spec((3, *shape), dtype)


def _shaped(name: str, own: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Sizes that an operator wants of another argument, given the value's."""
    last = shape[-1] if shape else 1
    if name in ("mm", "addmm", "matmul", "_int_mm") and own in ("mat2", "other"):
        return (last, 8)
    if name == "addmm" and own == "self":
        return (8,)
    if name in ("bmm", "baddbmm") and own in ("mat2", "batch2") and len(shape) == 3:
        return (shape[0], last, 5)
    if name == "baddbmm" and own == "self" and len(shape) == 3:
        return (shape[0], shape[1], 5)
    if name == "linear":
        return (8, last) if own == "weight" else (8,)
    if "layer_norm" in name or "rms_norm" in name:
        return (last,)
    if name.startswith("conv") and own in ("weight", "bias") and len(shape) > 2:
        return (4, shape[1], *[3] * (len(shape) - 2)) if own == "weight" else (4,)
    if "batch_norm" in name or "group_norm" in name or "instance_norm" in name:
        return shape[1:2]
    if name == "embedding":
        return (10, 6) if own == "weight" else shape
    if "dot_product" in name and own in ("key", "value"):
        return shape
    return None


def _whole(name: str, own: str, value: Any, words: Words) -> Iterator[int]:
    ndim = value.ndim if isinstance(value, torch.Tensor) else 2
    if own in ("dim", "axis", "dim0", "dim1", "start_dim", "end_dim", "dimension"):
        first = {"dim0": 0, "dim1": 1, "start_dim": 0, "end_dim": -1}.get(own, -1)
        yield from dict.fromkeys((first, 0, 1, ndim - 1, -2, *range(2, ndim)))
    elif own == "start":
        yield from (0, 1, -2)
    elif own == "end":
        yield from (4, 2**63 - 1, 2, -1)
    elif own == "step":
        yield from (1, 2)
    elif own in ("split_size", "chunks", "groups", "num_groups"):
        yield from (1, 2) if own == "groups" else (2, 3)
    elif name == "native_group_norm" and isinstance(value, torch.Tensor) and value.ndim > 1:
        sizes = {"N": value.shape[0], "C": value.shape[1], "HxW": value[0, 0].numel(), "group": 2}
        yield int(sizes.get(own, 1))
    else:
        yield from dict.fromkeys((1, 2, 0, -1, *(int(n) for n in words.numbers if abs(n) < 64 and n == int(n))))


def _numbers(own: str, words: Words) -> Iterator[float]:
    told = [n for n in words.numbers if abs(n) < 1e6]
    if own in ("alpha", "beta"):
        yield from dict.fromkeys((2, *told, 0.5))
    elif own in ("eps", "epsilon"):
        yield from (1e-5, 0.1)
    elif own in ("p", "momentum"):
        yield from (0.1, 0.0)
    elif own == "scale":
        yield from (0.5, 0.125)
    else:
        yield from dict.fromkeys((2, *told, 0.5, 0, 1, -1, 3.0, _ROUNDED))


def _orders(ndim: int) -> Iterator[list[int]]:
    """Orders of dims: all moved, the last two exchanged, from the end too, channels last and back, none."""
    yield [*range(1, ndim), 0]
    yield [n - ndim for n in (*range(ndim - 2), ndim - 1, ndim - 2)] if ndim > 1 else [-1]
    yield [*range(ndim - 2), ndim - 1, ndim - 2] if ndim > 1 else [0]
    if ndim == 4:
        yield from ([0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3])
    yield list(range(ndim))
    yield [ndim - 1, *range(ndim - 1)]


def _lists(name: str, own: str, value: Any) -> Iterator[list[int]]:
    shape = [int(n) for n in value.shape] if isinstance(value, torch.Tensor) and value.ndim else [1]
    ndim, total = len(shape), 1
    for n in shape:
        total *= n
    if name in ("roll", "flip", "sum", "mean"):
        yield from ([-1], [0], [1])
        if ndim > 2:
            yield from ([ndim - 2, ndim - 1], [-2, -1], [-1, -2])
    elif own in ("dims",) or name == "permute":
        yield from _orders(ndim)
    elif name in ("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy"):
        yield from ([total], [shape[0], -1], shape, [-1, shape[-1]])
        if shape[0] % 2 == 0:
            yield [2, shape[0] // 2, *shape[1:]]
        yield from ([2, total // 2], [*shape, 1])
        for k in range(ndim - 1) if ndim > 2 else ():
            yield [*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]]
    elif name in WIDENING:
        if 1 in shape:
            yield [2 if n == 1 else n for n in shape]
        yield from (shape, [2, *shape], [-1] * ndim)
    elif own == "split_sizes":
        yield from ([1, shape[0] - 1], [2, 2], [shape[0]], [1, 1, shape[0] - 2])
    elif own in ("repeats", "reps"):
        yield from ([2] + [1] * (ndim - 1), [1] * ndim, [1] * (ndim - 1) + [2])
    elif own == "normalized_shape":
        yield shape[-1:]
    elif own == "pad":
        yield from ([1, 1], [0, 0], [1, 0], [-1, 0], [0, 0, 1, 1])
    elif own in ("stride",) and name.startswith("as_strided"):
        yield list(reversed([1, *shape[:0:-1]])) if ndim < 3 else [shape[1] * shape[2], shape[2], 1]
    elif own in ("kernel_size", "output_size", "scale_factors"):
        yield from ([2, 2], [3, 3], [1, 1])
    elif own in ("stride", "padding", "dilation", "output_padding"):
        spatial = max(1, ndim - 2)
        plain = 0 if own in ("padding", "output_padding") else 1
        yield from ([plain] * spatial, [plain + 1] * spatial)
    elif own == "size":
        yield from (shape, [2, 3], [])
    else:
        yield from ([-1], [0], [0, 1], [1], list(range(ndim)))
