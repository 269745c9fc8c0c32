"""Dispatch modes, pytrees and operator schemas."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import fx
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.autograd import forward_ad
from torch.utils import _pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from fxmorph.torchapi.storages import storage_key

__all__ = [
    "DispatchMode",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "aten_packet",
    "decomposition_of",
    "dispatch_keys_kept",
    "in_backward_pass",
    "is_control_flow",
    "is_random",
    "mutated_arguments",
    "no_dispatch",
    "noting_shared_operands",
    "opens_transform",
    "schema_of",
    "symbolic_arguments",
    "tensors_of",
    "transforms_kept",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_unflatten",
    "unset_fake_temporarily",
    "watched",
    "written_tensors",
]

#: What most operators are given; the tree of anything else is looked for where torch registers it.
_LEAVES = frozenset({torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None), torch.dtype, torch.device})


#: What kernels of higher-order operators ask whether a mode is on.
_ASKED = "_get_current_dispatch_mode"
#: Control flow by name.  Its own rules for autograd trace each part anew in the backward pass: that takes parts that
#: Dynamo has made, which return tuples and close over nothing.
_CONTROL_FLOW = frozenset({"associative_scan", "cond", "map_impl", "scan", "while_loop"})


def dispatch_keys_kept() -> AbstractContextManager[Any]:
    """A context after which operators are dispatched by the keys that they were dispatched by before."""
    return torch._C._PreserveDispatchKeyGuard()


@contextmanager
def transforms_kept() -> Iterator[None]:
    """A context after which no level of forward-mode AD or of ``torch.func`` is open that was not open before.

    A compiler that raises while it traces ``torch.func.jvp`` leaves its level open: whatever is differentiated forward
    later would be "nested", which torch refuses.
    """
    depth, was_open = torch._C._functorch.get_dynamic_layer_stack_depth(), _differentiates_forward()
    level = forward_ad._current_level
    try:
        yield
    finally:
        if torch._C._functorch.get_dynamic_layer_stack_depth() > depth:
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if not was_open and _differentiates_forward():
            torch._C._exit_dual_level(level=0)
        forward_ad._current_level = level


def opens_transform(graph: fx.Graph) -> bool:
    """Whether calls of the graph open a level of ``torch.func`` (``vmap``, ``grad``, ``jvp``) or of forward-mode AD."""
    names = (getattr(n.target, "__name__", "") for n in graph.nodes if n.op == "call_function")
    return any(name.endswith("_increment_nesting") or name == "_enter_dual_level" for name in names)


def _differentiates_forward() -> bool:
    """Whether a level of forward-mode AD is open: torch does not tell, but opens no second one."""
    try:
        torch._C._exit_dual_level(level=torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


class DispatchMode(TorchDispatchMode):
    """A mode that sees every operator by :meth:`called`.

    The zeros without memory that autograd makes for gradients (of ``sgn``, say) are given some: below a mode nothing
    else does, and kernels read from address 0.  Higher-order operators (``cond``, ``while_loop``, ``scan``,
    ``flex_attention``) are seen by the operators that they call.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten._efficientzerotensor.default:
            func = torch.ops.aten.zeros.default
        if isinstance(func, HigherOrderOperator):
            return self.inside(func, args, kwargs or {})
        return self.called(func, args, kwargs or {})

    def inside(self, operator: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a higher-order operator gives in eager, its parts called with the mode on."""
        native = _native(operator)
        if native is None:
            return operator(*args, **kwargs)
        with self:
            return native(*args, **kwargs)

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the operator gives; the mode is not on while it is asked."""
        raise NotImplementedError


def is_control_flow(operator: HigherOrderOperator) -> bool:
    """Whether a higher-order operator does nothing but call its parts: what they compute is the program's own."""
    return operator.name() in _CONTROL_FLOW


def _has_values(t: torch.Tensor) -> bool:
    """Whether it is no tensor of tracing."""
    return type(t) in (torch.Tensor, torch.nn.Parameter)


def _native(operator: HigherOrderOperator) -> Callable[..., Any] | None:
    """The kernel that calls an operator's parts one by one; None where it has none."""
    kernel: Any = operator.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    if kernel is None:
        return None
    module = sys.modules[getattr(kernel, "func", kernel).__module__]

    def native(*args: Any, **kwargs: Any) -> Any:
        # Some ask whether a mode is on, which is not meant to reach them.
        asks = hasattr(module, _ASKED)
        with patch.object(module, _ASKED, lambda: None) if asks else nullcontext():
            return kernel(*args, **kwargs)

    return native


@contextmanager
def _control_flow_by_its_parts() -> Iterator[None]:
    """A context in which control flow is what its parts are, to autograd too, where it is given tensors with values."""
    original = HigherOrderOperator.__call__

    def call(self: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
        native = _native(self) if is_control_flow(self) else None
        if native is None or not all(map(_has_values, tensors_of([args, kwargs]))):
            return original(self, *args, **kwargs)
        return native(*args, **kwargs)

    with patch.object(HigherOrderOperator, "__call__", call):
        yield


@contextmanager
def noting_shared_operands() -> Iterator[list[str]]:
    """A context in which control flow is noted whose operands, not one tensor given twice, share memory."""
    original = HigherOrderOperator.__call__
    found: list[str] = []

    def call(self: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
        if is_control_flow(self):
            operands = {id(t): t for t in tensors_of([args, kwargs]) if _has_values(t)}
            if len({storage_key(t) for t in operands.values()}) < len(operands):
                found.append(self.name())
        return original(self, *args, **kwargs)

    with patch.object(HigherOrderOperator, "__call__", call):
        yield found


@contextmanager
def watched(mode: AbstractContextManager[Any]) -> Iterator[None]:
    """A context in which a mode is on, and torch.compile leaves functions as they are: those inside of a program, and
    what eager compiles of higher-order operators.

    Dynamo takes no frame while a mode is on, and remembers that it did not: they would fail without the mode, too.
    """
    with torch.compiler.set_stance("force_eager"), _control_flow_by_its_parts(), mode:
        yield


def tree_leaves(values: Any) -> list[Any]:
    """As torch's own, and several times faster on what operators take and return: tuples, lists and dicts."""
    found: list[Any] = []
    _gather(values, found)
    return found


def _gather(values: Any, found: list[Any]) -> None:
    kind = type(values)
    if kind is tuple or kind is list:
        for value in values:
            _gather(value, found)
    elif kind is dict:
        for value in values.values():
            _gather(value, found)
    elif kind in _LEAVES:
        found.append(values)
    else:
        found += _pytree.tree_leaves(values)


def tree_map(fn: Callable[..., Any], values: Any) -> Any:
    """As torch's own, and several times faster on what operators take and return."""
    kind = type(values)
    if kind is tuple or kind is list:
        return kind([tree_map(fn, value) for value in values])
    if kind is dict:
        return {key: tree_map(fn, value) for key, value in values.items()}
    return fn(values) if kind in _LEAVES else _pytree.tree_map(fn, values)


def tensors_of(values: Any) -> list[torch.Tensor]:
    """The tensors among nested values, in order."""
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


def in_backward_pass() -> bool:
    """Whether autograd calls what runs now."""
    return torch._C._current_graph_task_id() != -1


def aten_packet(name: str) -> OpOverloadPacket | None:
    """``torch.ops.aten.<name>``, or None where aten has no such operator."""
    try:
        packet = getattr(torch.ops.aten, name)
    except (AttributeError, RuntimeError):
        return None
    return packet if isinstance(packet, OpOverloadPacket) else None


def gives_one_tensor(name: str) -> bool:
    """Whether aten has an operator of this name, and all overloads of it return one tensor, by their schemas.

    Functions that return indices where they are asked to (``max_pool2d``) have a sibling that always does.
    """
    # The others are of TorchScript's lists and numbers.
    schemas = [
        schema
        for sibling in (name, f"{name}_with_indices")
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{sibling}")
        if any("Tensor" in str(argument.type) for argument in schema.arguments)
    ]
    return bool(schemas) and all([str(r.type) for r in schema.returns] == ["Tensor"] for schema in schemas)


def decomposition_of(overload: OpOverload) -> Callable[..., Any] | None:
    """torch's own spelling of an operator in simpler ones, or None."""
    from torch._decomp import decomposition_table

    return decomposition_table.get(overload)


def schema_of(overload: OpOverload) -> Any:
    """The ``torch.FunctionSchema`` of an overload."""
    return overload._schema


def symbolic_arguments(overload: OpOverload) -> list[bool]:
    """Of each argument whether symbols may stand for it, or for what a list of it holds."""
    schema = schema_of(overload)
    text = str(schema)  # types of arguments call symbols whole numbers
    return [re.search(rf"\bSymInt(\[\d*\])?\?? {a.name}\b", text) is not None for a in schema.arguments]


def mutated_arguments(overload: OpOverload) -> list[tuple[int, str]]:
    """(position, name) of each argument that the schema says is written."""
    return [
        (i, a.name)
        for i, a in enumerate(schema_of(overload).arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]


def written_tensors(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the schema says are written; not the statistics that a batch norm keeps."""
    return tensors_of([args[i] if i < len(args) else kwargs.get(name) for i, name in mutated_arguments(overload)])


def is_random(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this call draws from a random generator.

    Attention and dropout carry the tag whatever their arguments are; with probability 0, or
    outside training, they draw nothing.
    """
    if torch.Tag.nondeterministic_seeded not in overload.tags:
        return False
    for i, a in enumerate(schema_of(overload).arguments):
        value = args[i] if i < len(args) else kwargs.get(a.name, a.default_value if a.has_default_value() else None)
        if (a.name in ("dropout_p", "p") and value == 0) or (a.name in ("train", "training") and value is False):
            return False
    return True
