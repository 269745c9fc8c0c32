"""Running a rule's ``before`` or ``after`` on real tensors while recording FX nodes.

Every operation is executed at once on the values of the site, so shapes are plain numbers,
loops unroll, and the rewrite's own result is known the moment it is recorded.  Reading a
tensor's *values* into Python is refused: the graph would then hold for these values only.
"""

from __future__ import annotations

import builtins
import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode


class TracingError(Exception):
    """The function does something that cannot be recorded."""


#: Attributes and methods that answer from metadata, without a node.
_PLAIN_ATTRIBUTES = frozenset("shape dtype device ndim requires_grad is_cuda layout itemsize nbytes is_leaf".split())
_PLAIN_METHODS = frozenset(
    "size dim stride numel nelement is_contiguous storage_offset is_floating_point is_complex element_size "
    "ndimension is_conj is_neg".split()
)
_TENSOR_ATTRIBUTES = frozenset("T mT H mH real imag data".split())
_READS_VALUES = frozenset("item tolist __bool__ __int__ __float__ __index__ numpy cpu_numpy".split())


class BoundFloat(float):
    """A number that stands for the scalar parameter ``name`` while a pattern is traced."""

    name: str


class BoundInt(int):
    """The same for an integer."""

    name: str


def _unrecorded(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():
        return method(*args, **kwargs)


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of every leaf; tuples of any class come back as tuples."""
    if isinstance(value, dict):
        return {k: _map(function, v) for k, v in value.items()}
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple(_map(function, v) for v in value)
    return [_map(function, v) for v in value] if isinstance(value, list) else function(value)


def _value(argument: Any) -> Any:
    if isinstance(argument, Traced):
        return argument.value
    if isinstance(argument, BoundInt):
        return int(argument)
    return float(argument) if isinstance(argument, BoundFloat) else argument


class Recorder(TorchFunctionMode):
    """Records into ``graph`` at its current insertion point; use as a context manager."""

    def __init__(self, graph: fx.Graph) -> None:
        super().__init__()
        self.graph = graph
        self.made: list[fx.Node] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not any(isinstance(a, Traced) for a in _flat((args, kwargs or {}))) and _is_query(func):
            return func(*args, **(kwargs or {}))
        return self.function(func, args, kwargs or {})

    def input(self, node: fx.Node, value: torch.Tensor) -> Traced:
        return Traced(self, node, value)

    def function(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READS_VALUES:
            raise TracingError(f"{name} reads a tensor's values")
        if type(func).__name__ in ("method_descriptor", "wrapper_descriptor") and hasattr(torch.Tensor, name):
            return self._record("call_method", name, args, kwargs)
        return self._record("call_function", func, args, kwargs)

    def method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._record("call_method", name, args, kwargs)

    def _record(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = _map(_value, (args, kwargs))
        with torch._C.DisableTorchFunction(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of values made up for recording
            if op == "call_method":
                out = getattr(values[0][0], target)(*values[0][1:], **values[1])
            else:
                out = target(*values[0], **values[1])
        nodes = _map(lambda a: a.node if isinstance(a, Traced) else a, (args, kwargs))
        if isinstance(out, (bool, int, float, complex, str, torch.dtype, torch.Size)):
            return out
        node = self._node(op, target, tuple(nodes[0]), nodes[1])
        return self._wrap(node, out)

    def _node(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        node = self.graph.create_node(op, target, args, kwargs)
        self.made.append(node)
        return node

    def _wrap(self, node: fx.Node, out: Any) -> Any:
        if isinstance(out, torch.Tensor):
            return Traced(self, node, out)
        if isinstance(out, (tuple, list)):
            parts = [
                self._wrap(self._node("call_function", operator.getitem, (node, i), {}), o) for i, o in enumerate(out)
            ]
            return _Several(parts)
        return None


class _Several(tuple):
    """The results of an operator with several; ``values`` and ``indices`` as torch names them."""

    @property
    def values(self) -> Any:
        return self[0]

    @property
    def indices(self) -> Any:
        return self[1]


class Traced:
    """A tensor under recording: its value now and the node that computes it."""

    def __init__(self, recorder: Recorder, node: fx.Node, value: torch.Tensor) -> None:
        self.recorder, self.node, self.value = recorder, node, value

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = next(a for a in _flat((args, kwargs or {})) if isinstance(a, Traced))
        return found.recorder.function(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in _PLAIN_ATTRIBUTES:
            return getattr(self.value, name)
        if name in _PLAIN_METHODS:
            return functools.partial(_unrecorded, getattr(torch.Tensor, name), self.value)
        if name in _READS_VALUES:
            raise TracingError(f"{name} reads a tensor's values")
        if name in _TENSOR_ATTRIBUTES:
            return self.recorder.function(builtins.getattr, (self, name), {})
        if not hasattr(torch.Tensor, name):
            raise AttributeError(f"tensors have no {name!r}")
        return lambda *a, **k: self.recorder.method(name, (self, *a), k)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.recorder.function(operator.setitem, (self, index, value), {})

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return iter(self.recorder.method("unbind", (self, 0), {}))

    def __bool__(self) -> bool:
        raise TracingError("control flow on a tensor's values")

    def __hash__(self) -> int:
        return id(self)


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()


def _install() -> None:
    def forward(op: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *rest: self.recorder.function(op, (self, *rest), {})

    def backward(op: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: self.recorder.function(op, (other, self), {})

    for name in _BINARY:
        op = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        setattr(Traced, f"__{name}__", forward(op))
        setattr(Traced, f"__r{name}__", backward(op))
        setattr(Traced, f"__i{name}__", forward(getattr(operator, f"i{name}")))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "invert", "getitem", "abs"):
        setattr(Traced, f"__{name}__", forward(getattr(operator, name) if name != "abs" else torch.abs))


_install()


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return [leaf for part in value for leaf in _flat(part)]
    return [value]


def _is_query(func: Callable[..., Any]) -> bool:
    """Functions of no tensor that give no tensor (``torch.finfo`` and the like)."""
    return getattr(func, "__name__", "") in (
        "is_tensor",
        "is_floating_point",
        "get_default_dtype",
        "result_type",
        "__get__",
    )


def trace(
    function: Callable[..., Any],
    graph: fx.Graph,
    tensors: dict[str, tuple[fx.Node, torch.Tensor]],
    scalars: dict[str, Any],
) -> tuple[Traced, list[fx.Node]]:
    """Run ``function`` recording into ``graph``; (result, nodes made).

    ``tensors`` gives node and value of each tensor argument, ``scalars`` the others; only the
    parameters that the function names are passed.  Raises :class:`TracingError` for what
    cannot be recorded, and whatever the operations raise.
    """
    import inspect

    recorder = Recorder(graph)
    wanted: Sequence[str] = list(inspect.signature(function).parameters)
    given = {n: recorder.input(*tensors[n]) if n in tensors else scalars[n] for n in wanted}
    with recorder:
        out = function(**given)
    if not isinstance(out, Traced):
        raise TracingError(f"returns {type(out).__name__}, not one tensor")
    return out, recorder.made
