"""The operations of Inductor's IR on torch tensors: rows are iterations, columns steps of a reduction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch._inductor.ops_handler import DefaultHandler, OpsHandler, WrapperHandler, list_ops
from torch.utils._sympy.interp import sympy_interp

from fxmorph.model import Kind
from fxmorph.torchapi import kernel_reductions
from fxmorph.torchapi.addresses import Indices, as_tensor
from fxmorph.torchapi.kernel_memory import Lanes, Memory
from fxmorph.torchapi.kernel_precision import Precision
from fxmorph.torchapi.kernels_in_fp64 import hangs_on_dtype
from fxmorph.torchapi.noted_operations import Noted, Operand, Operation
from fxmorph.torchapi.printed_indices import PrintedIndices

#: Operations whose name is another one in torch.
_NAMES = {
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "truediv": "true_divide",
    "int_truediv": "true_divide",
    "div_rn": "true_divide",
    "mul_rn": "mul",
    "mod": "fmod",
    "igamma": "gammainc",
    "igammac": "gammaincc",
}
#: What only code for one kind of GPU can say, or no body of a loop does.
WITHOUT_MEANING = frozenset({"inline_asm_elementwise", "halide_clamp", "placeholder", "partial_accumulate"})
#: What is another function for every dtype.
_OF_DTYPE = frozenset({"nextafter"})
#: Multipliers of a mixer of bits (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


class NotInterpreted(NotImplementedError):
    """What cannot be interpreted; the message names it."""


def not_covered() -> list[str]:
    """Operations of this release of Inductor's IR that have no meaning here."""
    return sorted(
        name for name in list_ops(OpsHandler)
        if name not in WITHOUT_MEANING and name not in vars(Operations) and _of_torch(name) is None
    )  # fmt: skip


def _of_torch(name: str) -> Callable[..., Any] | None:
    torch_name = _NAMES.get(name, name)
    found: Callable[..., Any] | None = getattr(torch, torch_name, None) or getattr(torch.special, torch_name, None)
    return found


class Operations(DefaultHandler):
    """Operations of a loop body over all its steps at once.

    ``printed``: index expressions are computed as the text says that is printed of them; None: as they are meant.
    """

    def __init__(
        self, memory: Memory, values: dict[Any, Any], shape: tuple[int, int], precision: Precision,
        printed: PrintedIndices | None = None,
    ) -> None:  # fmt: skip
        self.memory, self.values, self.shape, self.precision = memory, values, shape, precision
        self.printed = printed
        self.masks: list[torch.Tensor] = []

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = _of_torch(name)
        if name in _OF_DTYPE:
            self._hangs_on_dtype()
        if function is None or name in WITHOUT_MEANING:
            raise NotInterpreted(f"ops.{name}")
        return function(*(as_tensor(a) for a in args))

    def _hangs_on_dtype(self) -> None:
        if self.precision.wide:
            hangs_on_dtype()

    def truncdiv(self, a: Any, b: Any) -> Any:
        return torch.div(as_tensor(a), as_tensor(b), rounding_mode="trunc")

    def floordiv(self, a: Any, b: Any) -> Any:
        return torch.div(as_tensor(a), as_tensor(b), rounding_mode="floor")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return (as_tensor(a).double() * as_tensor(b).double() + as_tensor(c).double()).to(as_tensor(a).dtype)

    def polygamma(self, x: Any, y: Any) -> Any:
        order, y = as_tensor(x), as_tensor(y)
        made = {o: torch.special.polygamma(o, y) for o in {int(o) for o in order.unique()}}
        return functools.reduce(lambda rest, o: torch.where(order == o, made[o], rest), made, torch.zeros_like(y))

    def identity(self, x: Any) -> Any:
        return x

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, sympy.Basic):
            value = self._index(value).item()
        return torch.tensor(value, dtype=self.precision.computed(dtype))

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Any:
        return self._index(expr).to(self.precision.computed(dtype))

    value_expr = index_expr

    def to_dtype(self, x: Any, dtype: torch.dtype, src_dtype: Any = None, use_compute_types: bool = True) -> Any:
        if src_dtype is not None:
            self._assert_dtype(x, src_dtype, "casts")
        return self.precision.cast(as_tensor(x), dtype, exactly=not use_compute_types)

    def to_dtype_bitcast(self, x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> Any:
        self._assert_dtype(x, src_dtype, "takes the bits of")
        self._hangs_on_dtype()
        bits = as_tensor(x).to(src_dtype).view(dtype)
        return bits.to(self.precision.computed(dtype))

    def trunc_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.trunc(as_tensor(x)).to(dtype)

    def floor_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.floor(as_tensor(x)).to(dtype)

    def ceil_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.ceil(as_tensor(x)).to(dtype)

    def round_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.round(as_tensor(x)).to(dtype)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return torch.where(as_tensor(condition).bool(), as_tensor(a), as_tensor(b))

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        mask = as_tensor(mask).bool()
        self.masks.append(mask)
        made = body()
        self.masks.pop()
        results = [
            torch.where(mask, as_tensor(r), as_tensor(other).to(as_tensor(r).dtype)) for r in _several(made)
        ]  # fmt: skip
        return tuple(results) if isinstance(made, tuple) else results[0]

    # -- random numbers: some function of seed and place, since which one is not laid down

    def load_seed(self, name: str, offset: Any) -> Any:
        return self.load(name, offset)

    def rand(self, seed: Any, offset: Any) -> Any:
        return ((_bits(seed, offset) >> 9 & 0x7FFFFF) + 0.5).to(self.precision.computed(torch.float32)) / 2**23

    def rand_eager(self, seed: Any, base: Any, threads: Any = None, tid: Any = None, vec: Any = None, *_: Any) -> Any:
        raise NotInterpreted("ops.rand_eager")

    def randn(self, seed: Any, offset: Any) -> Any:
        return torch.special.ndtri(self.rand(seed, offset).double()).to(self.precision.computed(torch.float32))

    def randint64(self, seed: Any, offset: Any, low: Any, high: Any) -> Any:
        return as_tensor(low) + torch.remainder(_bits(seed, offset), as_tensor(high) - as_tensor(low))

    def _assert_dtype(self, value: Any, stated: torch.dtype, does: str, buffer: str = "") -> None:
        """A body says of what dtype a value is where dtypes change: generated code believes it."""
        got, wanted = as_tensor(value).dtype, self.precision.computed(stated)
        if got != wanted:
            said = f"{does} a value of {_named(got)} where it is to be one of {_named(wanted)}"
            self.memory.accuse(Kind.DTYPE, buffer, said)

    # -- memory

    def _index(self, expr: Any) -> torch.Tensor:
        value = expr if isinstance(expr, int | float) else self._computed(expr)
        return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else as_tensor(value)

    def _computed(self, expr: Any) -> Any:
        text = self.printed.computation(expr) if self.printed is not None else None
        if text is None:
            return sympy_interp(Indices, self.values, expr)
        return text({symbol.name: value for symbol, value in self.values.items()})

    def _mask(self) -> torch.Tensor | None:
        return functools.reduce(torch.logical_and, self.masks) if self.masks else None

    def load(self, name: str, index: Any) -> Any:
        value = self.memory.load(name, self._index(index), self._mask())
        return value.to(self.precision.computed(value.dtype))

    def store(self, name: str, index: Any, value: Any, mode: str | None = None) -> None:
        if mode not in (None, "atomic_add", "tma"):
            raise NotInterpreted(f"ops.store(mode={mode})")
        at, value, adds = self._index(index), as_tensor(value), mode == "atomic_add"
        self._assert_dtype(value, self.memory.dtype(name), f"writes to {name}", name)
        full = torch.broadcast_shapes(at.shape, value.shape, self.shape if adds or _hangs(index) else ())
        full = torch.broadcast_shapes(full, (1, 1))
        at, value = at.expand(full).reshape(-1).to(torch.int64), value.expand(full).reshape(-1)
        self.memory.store(name, at, value, self._lanes(full), adds)

    def _lanes(self, shape: torch.Size) -> Lanes | None:
        """The iterations of values of this shape, in one dimension; inner loops alone where the values hang on them."""
        lanes = self.memory.lanes
        if lanes is None or shape[0] != lanes.outer.shape[0]:
            return None
        whole = lanes.inner is not None and tuple(shape) == tuple(torch.broadcast_shapes(shape, lanes.inner.shape))
        inner = lanes.inner.expand(shape).reshape(-1) if whole and lanes.inner is not None else None
        return Lanes(lanes.outer.expand(shape).reshape(-1), inner)

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        self.store(name, index, value)

    def indirect_indexing(self, value: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> Any:
        value, limit = as_tensor(value), self._index(size)
        if value.dtype.is_floating_point or value.dtype == torch.bool:
            self.memory.accuse(Kind.DTYPE, "", f"takes a value of {_named(value.dtype)} for an index")
        value = value.to(torch.int64)
        value = torch.where(value < 0, value + limit, value) if wrap_neg else value
        if check:
            self._assert_inside(value, limit, lower=True, upper=True)
        symbol = sympy.Symbol(f"{_INDIRECT}{len(self.values)}", integer=True)
        self.values[symbol] = value
        return symbol

    def check_bounds(self, index: Any, size: Any, lower: bool, upper: bool) -> None:
        self._assert_inside(self._index(index), self._index(size), lower, upper)

    def _assert_inside(self, index: torch.Tensor, size: torch.Tensor, lower: bool, upper: bool) -> None:
        """As code does that is generated: an index of the program's own that lies outside is the program's error."""
        wrong = torch.zeros_like(index, dtype=torch.bool)
        wrong = wrong | (index < 0) if lower else wrong
        wrong = wrong | (index >= size) if upper else wrong
        mask = self._mask()
        if bool((wrong if mask is None else wrong & mask).any()):
            raise RuntimeError("index out of bounds")

    def bucketize(
        self, values: Any, boundaries: tuple[str, Any, Any, Any], boundary_indices: Any, indexing_dtype: torch.dtype,
        right: bool, sorter: tuple[str, Any] | None = None, sorter_indices: Any = None,
    ) -> Any:  # fmt: skip
        """``boundaries`` are a buffer, how many there are in a row, in all, and the stride along a row."""
        name, count, _, stride = boundaries
        values, start, step = as_tensor(values), as_tensor(boundary_indices), self._index(stride)
        rows = torch.broadcast_shapes(values.shape, start.shape)

        def boundary(number: torch.Tensor) -> torch.Tensor:
            if sorter is not None:
                behind = self._index(sorter[1]) if len(sorter) > 1 else torch.tensor(1)
                number = self.memory.load(sorter[0], as_tensor(sorter_indices) + number * behind, self._mask())
            return self.memory.load(name, start + number * step, self._mask())

        found = kernel_reductions.search(values.expand(rows), int(self._index(count)), boundary, right)
        return found.to(indexing_dtype)

    def device_assert_async(self, condition: Any, message: str) -> Any:
        mask, holds = self._mask(), as_tensor(condition).bool()
        assert bool((holds if mask is None else holds | ~mask).all()), message
        return holds

    def output(self, *args: Any) -> Any:
        return args

    # -- along the reduction

    def whole(self, value: Any) -> torch.Tensor:
        """A value with all its rows and columns."""
        return as_tensor(value).expand(self.shape)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> Any:
        parts = [self.whole(v) for v in _several(value)]
        self._assert_dtype(parts[0], src_dtype, f"reduces ({kind})")
        return kernel_reductions.reduce(kind, parts, self.precision.computed(dtype))

    def dot(self, x: Any, y: Any) -> Any:
        return as_tensor(x) * as_tensor(y)  # what is reduced as a dot product

    def scan(self, dtypes: Any, combine: Callable[..., Any], values: Any) -> Any:
        return kernel_reductions.scan(combine, [self.whole(v) for v in values])

    def sort(self, dtypes: Any, values: Any, stable: bool, descending: bool) -> Any:
        return kernel_reductions.sort([self.whole(v) for v in values], descending)


#: Names of indices that were read from memory begin so.
_INDIRECT = "indirect_of_ours"


def _hangs(index: Any) -> bool:
    """Whether an address was read from memory, so that lanes may share one."""
    symbols: Iterable[Any] = getattr(index, "free_symbols", ())
    return any(s.name.startswith(_INDIRECT) for s in symbols)


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _bits(seed: Any, offset: Any) -> torch.Tensor:
    bits = as_tensor(seed).to(torch.int64) * _MIX[0] + as_tensor(offset).to(torch.int64)
    for factor, shift in zip(_MIX, (30, 27), strict=True):
        bits = (bits ^ (bits >> shift & (1 << 64 - shift) - 1)) * factor
    return bits ^ (bits >> 31 & (1 << 33) - 1)


def interpreted_alone(operation: Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    """What an operation means on operands of one shape."""
    from torch._inductor.virtualized import V

    def given(argument: Any) -> Any:
        if not isinstance(argument, Operand):
            return argument
        if argument.constant is None:
            return operands[argument.number]
        return torch.tensor(argument.constant, dtype=argument.dtype)

    shape = tuple(operands[0].shape)
    nowhere = Memory(0, {}, (), (), (), lambda *_: None)
    ops = Operations(nowhere, {}, (shape[0], shape[1]) if len(shape) == 2 else (1, 1), configured_precision())
    with V.set_ops_handler(ops):
        result: torch.Tensor = getattr(ops, operation.name)(
            *map(given, operation.arguments), **{k: given(v) for k, v in operation.keywords}
        )
    return result


def configured_precision() -> Precision:
    """As Inductor is configured now."""
    from torch._inductor import config

    return Precision(bool(config.emulate_precision_casts))


class NotingOperations(WrapperHandler):
    """Notes what is computed on the way."""

    def __init__(self, inner: Operations, noted: Noted) -> None:
        super().__init__(inner)
        self.ops, self.noted = inner, noted

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = args
        if name == "reduction":  # of the whole loop
            given = (*args[:3], self.ops.whole(args[3]) if isinstance(args[3], torch.Tensor) else args[3])
        if name == "store" and args[3:] == ("atomic_add",):
            self._accumulating(*args[1:3])
        result = super()._default(name, args, kwargs)
        self.noted.note(name, given, kwargs, result)
        return result

    def _accumulating(self, index: Any, value: Any) -> None:
        at, value = torch.broadcast_tensors(self.ops._index(index), as_tensor(value))
        at, value = at.reshape(-1), value.reshape(-1)
        zeros = torch.zeros(int(at.max()) + 1 if len(at) else 0, dtype=value.dtype)
        self.noted.note("store", (at, value, "atomic_add"), {}, zeros.index_put((at,), value, accumulate=True))
