"""Inductor's kernels for CPUs run by us on torch tensors, where C++ would be generated.

Lowering, scheduler, memory planning, the wrapper and calls of other kernels stay torch's.  So what is wrong with
kernels that are interpreted too is wrong before code is generated, and what is right then is generated wrong.
Parts of a fused kernel run one after the other, each over its whole range: fusion is as if it were not.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import sympy
import torch
from torch._inductor.ops_handler import DefaultHandler, WrapperHandler
from torch.utils._sympy.interp import sympy_interp

from fxmorph.torchapi import noted_operations
from fxmorph.torchapi.addresses import Indices, as_tensor, grid, number_of
from fxmorph.torchapi.noted_operations import Noted, Operand, Operation

#: Kernels of the programs compiled inside, by the number that their wrappers call them by.
_KERNELS: dict[int, _Kernel] = {}
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
_HALVES = (torch.float16, torch.bfloat16)
#: Loops of more iterations are run whole, whatever is asked.
_ONE_BY_ONE = 4096


@contextlib.contextmanager
def kernels_interpreted(one_by_one: bool = False, reductions: bool = False) -> Iterator[None]:
    """Compiles inside generate no C++ for kernels of Inductor's own, and may be run inside only.

    ``one_by_one``: an iteration reads what those before it wrote, as in a loop.  A kernel that is right otherwise
    depends on the order of its iterations.  ``reductions``: only kernels that reduce are interpreted.
    """
    from torch._inductor.codegen.cpp import CppScheduling

    original = CppScheduling.codegen_node

    def codegen(self: Any, node: Any) -> None:
        if reductions and not node.is_reduction():
            original(self, node)
        else:
            _call_us(self, node, one_by_one)

    with mock.patch.object(CppScheduling, "codegen_node", codegen):
        try:
            yield
        finally:
            _KERNELS.clear()


def _call_us(self: Any, node: Any, one_by_one: bool) -> None:
    """In the place of a kernel's code: the wrapper calls :func:`run_kernel`."""
    from torch._inductor.virtualized import V

    parts = node.get_nodes()
    for part in parts:
        part.mark_run()
    kernel = _Kernel([(part._body, part.get_ranges()) for part in parts], V.graph.sizevars, one_by_one)
    used = (entry for part in parts for entries in part._body.memory_usage.values() for entry in entries)
    names = {entry.buffer_name for entry in used if entry.buffer_name}
    renamed = V.graph.scheduler.mutation_real_name
    number = len(_KERNELS)
    _KERNELS[number] = kernel
    buffers = ", ".join(f"{name!r}: {renamed.get(name, name)}" for name in sorted(names))
    sizes = ", ".join(f"{name!r}: {name}" for name in sorted(kernel.symbols))
    home = f"__import__('sys').modules[{__name__!r}]"
    V.graph.wrapper_code.writeline(f"{home}.run_kernel({number}, {{{sizes}}}, {{{buffers}}})")
    self.scheduler.free_buffers()


def run_kernel(number: int, sizes: Mapping[str, int], buffers: Mapping[str, torch.Tensor]) -> None:
    """What the wrapper of a compiled program calls."""
    _KERNELS[number].run(sizes, buffers)


class _Kernel:
    """Loop bodies in order, each with its ranges of iteration and of reduction."""

    def __init__(self, parts: Sequence[tuple[Any, Any]], sizevars: Any, one_by_one: bool) -> None:
        self.parts, self.one_by_one = parts, one_by_one
        said = [e for body, ranges in parts for e in (*body.indexing_exprs.values(), *ranges[0], *ranges[1])]
        free = set().union(*(sympy.sympify(e).free_symbols for e in said)) if said else set()
        sizes = set(sizevars.backed_var_to_val)
        self.symbols = {s.name: s for s in free if s in sizes}

    def run(self, sizes: Mapping[str, int], buffers: Mapping[str, torch.Tensor]) -> None:
        """Run all of it on these buffers."""
        from torch._inductor.virtualized import V

        known = {self.symbols[name]: value for name, value in sizes.items()}
        memory = {name: _memory(tensor) for name, tensor in buffers.items() if isinstance(tensor, torch.Tensor)}
        for body, ranges in self.parts:
            points, rounds = ([number_of(n, known) for n in part] for part in ranges)
            if math.prod(points) == 0:
                continue
            outer, inner = grid(points, (-1, 1)), grid(rounds, (1, -1))
            loops = [[sympy.Symbol(f"{n}{i}", integer=True, nonnegative=True) for i in range(len(part))]
                     for n, part in (("outer", points), ("inner", rounds))]  # fmt: skip
            count, along = math.prod(points), dict(zip(loops[1], inner, strict=True))
            step = 1 if self.one_by_one and count <= _ONE_BY_ONE else count
            for at in range(0, count, step):
                here = {loop: numbers[at : at + step] for loop, numbers in zip(loops[0], outer, strict=True)}
                ops = _Ops(memory, {**known, **here, **along}, (step, math.prod(rounds)))
                with V.set_ops_handler(ops if (noted := noted_operations.current()) is None else _Noting(ops, noted)):
                    body(*loops)


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """All memory from a tensor's first element on, in one dimension; autograd is not told of writes to it."""
    rest = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return tensor.data.as_strided((max(rest, 0),), (1,), tensor.storage_offset())


def _computed(dtype: torch.dtype) -> torch.dtype:
    """The type that values of this type are computed in."""
    return torch.float32 if dtype in _HALVES else dtype


class _Ops(DefaultHandler):
    """Operations of a loop body over all its steps at once: rows are iterations, columns steps of a reduction."""

    def __init__(self, memory: dict[str, torch.Tensor], values: dict[Any, Any], shape: tuple[int, int]) -> None:
        self.memory, self.values, self.shape = memory, values, shape
        self.masks: list[torch.Tensor] = []

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        torch_name = _NAMES.get(name, name)
        function = getattr(torch, torch_name, None) or getattr(torch.special, torch_name, None)
        if function is None:
            raise NotImplementedError(f"ops.{name}")
        return function(*(as_tensor(a) for a in args))

    def truncdiv(self, a: Any, b: Any) -> Any:
        return torch.div(as_tensor(a), as_tensor(b), rounding_mode="trunc")

    def floordiv(self, a: Any, b: Any) -> Any:
        return torch.div(as_tensor(a), as_tensor(b), rounding_mode="floor")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return (as_tensor(a).double() * as_tensor(b).double() + as_tensor(c).double()).to(as_tensor(a).dtype)

    def identity(self, x: Any) -> Any:
        return x

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        return torch.tensor(value, dtype=_computed(dtype))

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Any:
        return self._index(expr).to(_computed(dtype))

    value_expr = index_expr

    def to_dtype(self, x: Any, dtype: torch.dtype, src_dtype: Any = None, use_compute_types: bool = True) -> Any:
        from torch._inductor import config

        rounds = config.emulate_precision_casts or not use_compute_types
        return x.to(dtype).to(_computed(dtype)) if rounds else x.to(_computed(dtype))

    def to_dtype_bitcast(self, x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> Any:
        bits = x.to(src_dtype).view(dtype)
        return bits.to(_computed(dtype))

    def trunc_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.trunc(x).to(dtype)

    def floor_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.floor(x).to(dtype)

    def ceil_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.ceil(x).to(dtype)

    def round_to_int(self, x: Any, dtype: torch.dtype) -> Any:
        return torch.round(x).to(dtype)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return torch.where(as_tensor(condition).bool(), as_tensor(a), as_tensor(b))

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        mask = as_tensor(mask).bool()
        self.masks.append(mask)
        made = body()
        self.masks.pop()
        results = [
            torch.where(mask, as_tensor(r), torch.as_tensor(other, dtype=as_tensor(r).dtype)) for r in _several(made)
        ]
        return tuple(results) if isinstance(made, tuple) else results[0]

    # -- memory

    def _index(self, expr: Any) -> torch.Tensor:
        return as_tensor(expr if isinstance(expr, int | float) else sympy_interp(Indices, self.values, expr))

    def load(self, name: str, index: Any) -> Any:
        memory, at = self.memory[name], self._index(index)
        if self.masks:  # what is masked out may lie anywhere
            at = at.clamp(0, memory.numel() - 1)
        value = memory[at]
        return value.to(_computed(value.dtype))

    def store(self, name: str, index: Any, value: Any, mode: str | None = None) -> None:
        memory, at = self.memory[name], self._index(index)
        value = as_tensor(value).to(memory.dtype)
        if mode == "atomic_add":
            full = torch.broadcast_shapes(at.shape, value.shape, self.shape)
            memory.index_put_((at.expand(full).reshape(-1),), value.expand(full).reshape(-1), accumulate=True)
        else:
            at, value = torch.broadcast_tensors(at, value)
            memory[at.reshape(-1)] = value.reshape(-1)

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        self.store(name, index, value)

    def indirect_indexing(self, value: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> Any:
        value, limit = as_tensor(value).to(torch.int64), self._index(size)
        symbol = sympy.Symbol(f"indirect_of_ours{len(self.values)}", integer=True)
        self.values[symbol] = torch.where(value < 0, value + limit, value) if wrap_neg else value
        return symbol

    def check_bounds(self, *args: Any, **kwargs: Any) -> None:
        """Memory is checked by torch."""

    def device_assert_async(self, condition: Any, message: str) -> None:
        assert bool(as_tensor(condition).all()), message

    def output(self, *args: Any) -> Any:
        return args

    # -- along the reduction

    def _whole(self, value: Any) -> torch.Tensor:
        return as_tensor(value).expand(self.shape)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> Any:
        parts = [self._whole(v) for v in _several(value)]
        if kind == "welford_reduce":
            mean = parts[0].mean(1, True)
            return mean, ((parts[0] - mean) ** 2).sum(1, True), torch.full_like(mean, self.shape[1])
        if kind == "welford_combine":
            means, squares, weights = parts
            weight = weights.sum(1, True)
            mean = (means * weights).sum(1, True) / weight
            return mean, (squares + weights * (means - mean) ** 2).sum(1, True), weight
        if kind == "online_softmax_reduce":
            largest = parts[0].amax(1, True)
            return largest, torch.exp(parts[0] - largest).sum(1, True)
        return _reduced(kind, parts[0], _computed(dtype))

    def scan(self, dtypes: Any, combine: Callable[..., Any], values: Any) -> Any:
        whole = [self._whole(v) for v in values]
        steps = [tuple(w[:, :1] for w in whole)]
        for i in range(1, self.shape[1]):
            now = tuple(w[:, i : i + 1] for w in whole)
            steps.append(tuple(as_tensor(v) for v in combine(steps[-1], now)))
        return tuple(torch.cat(column, 1) for column in zip(*steps, strict=True))

    def sort(self, dtypes: Any, values: Any, stable: bool, descending: bool) -> Any:
        whole = [self._whole(v) for v in values]
        keys, order = torch.sort(whole[0], dim=1, stable=True, descending=descending)
        return (keys, *(w.gather(1, order) for w in whole[1:]))


def interpreted_alone(operation: Operation, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """What an operation means on operands of one shape."""
    from torch._inductor.virtualized import V

    def given(argument: Any) -> Any:
        if not isinstance(argument, Operand):
            return argument
        if argument.constant is None:
            return operands[argument.number]
        return torch.tensor(argument.constant, dtype=argument.dtype)

    shape = tuple(operands[0].shape)
    ops = _Ops({}, {}, (shape[0], shape[1]) if len(shape) == 2 else (1, 1))
    with V.set_ops_handler(ops):
        result: torch.Tensor = getattr(ops, operation.name)(
            *map(given, operation.arguments), **{k: given(v) for k, v in operation.keywords}
        )
    return result


class _Noting(WrapperHandler):
    """Notes what is computed on the way."""

    def __init__(self, inner: _Ops, noted: Noted) -> None:
        super().__init__(inner)
        self.ops, self.noted = inner, noted

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = args
        if name == "reduction":  # of the whole loop
            given = (*args[:3], self.ops._whole(args[3]) if isinstance(args[3], torch.Tensor) else args[3])
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


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _reduced(kind: str, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One reduction over columns."""
    boolean = value.dtype == torch.bool
    if kind in ("argmax", "argmin"):
        index: torch.Tensor = getattr(torch, kind)(value.int() if boolean else value, 1, True)
        return index
    if kind == "any" or (boolean and kind in ("sum", "max")):
        return value.bool().any(1, True)
    if boolean and kind == "min":
        return value.all(1, True)
    if kind == "xor_sum":
        return functools.reduce(torch.bitwise_xor, value.unbind(1)).unsqueeze(1)
    if kind == "prod":
        return value.to(dtype).prod(1, True).to(dtype)
    if kind in ("sum", "dot"):
        return value.to(dtype).sum(1, True).to(dtype)
    if kind in ("max", "min"):
        return value.amax(1, True) if kind == "max" else value.amin(1, True)
    raise NotImplementedError(f"reduction {kind}")
