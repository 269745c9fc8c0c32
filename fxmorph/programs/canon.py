"""One name and one argument list for the many spellings of an operation.

``x + y``, ``torch.add(x, y)``, ``x.add(y)`` and ``aten.add.Tensor(x, y)`` are the same
operation; ``x += y`` and ``x.add_(y)`` another.  Arguments are bound to the aten schema, so
that position, keyword and default do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import fx

from fxmorph.programs.operators import operator_name
from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet, schema_of

_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "neg": "neg", "invert": "bitwise_not", "inv": "bitwise_not",
    "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "iadd": "add_", "isub": "sub_",
    "imul": "mul_", "itruediv": "div_", "ifloordiv": "floor_divide_", "imod": "remainder_", "ipow": "pow_",
    "iand": "bitwise_and_", "ior": "bitwise_or_", "ixor": "bitwise_xor_", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
_SYNONYMS = {
    "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "absolute": "abs",
    "negative": "neg", "concat": "cat", "concatenate": "cat", "swapaxes": "transpose", "swapdims": "transpose",
    "moveaxis": "movedim", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "clip": "clamp", "fix": "trunc", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "divide_": "div_", "multiply_": "mul_", "clip_": "clamp_", "t": "t",
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """Canonical name and arguments by name (positions for what no schema binds)."""

    name: str
    arguments: tuple[tuple[str, Any], ...]


def operation_name(op: str, target: str | Callable[..., Any]) -> str:
    """The canonical name of a call."""
    if op == "call_method":
        name = str(target)
    elif isinstance(target, OpOverload):
        name = operator_name(target)
    elif isinstance(target, OpOverloadPacket):
        name = target.__name__
    else:
        name = getattr(target, "__name__", str(target))
        if getattr(target, "__module__", "") in ("_operator", "operator"):
            name = _OPERATORS.get(name, name)
    return _SYNONYMS.get(name, name)


def canonical(node: fx.Node) -> Operation:
    """The operation of a ``call_function`` or ``call_method`` node."""
    assert not isinstance(node.target, str) or node.op == "call_method"
    name = operation_name(node.op, node.target)
    kwargs = {k: v for k, v in node.kwargs.items() if not k.startswith("_")}
    if name not in ("getitem", "setitem", "getattr"):
        for params in _schemas(name):
            bound = _bind(params, node.args, kwargs)
            if bound is not None:
                return Operation(name, tuple(sorted(bound.items())))
    positional = {f"#{i}": a for i, a in enumerate(node.args)}
    return Operation(name, tuple(sorted({**positional, **kwargs}.items())))


def names_dimensions(node: fx.Node, argument: int | str) -> bool:
    """Whether an argument of a call, by position or keyword, says which dimensions it works on."""
    if isinstance(argument, str):
        return _of_dimensions(argument)
    assert not isinstance(node.target, str) or node.op == "call_method"
    for params in _schemas(operation_name(node.op, node.target)):
        positional = [p for p in params if not p[4]]
        # x.permute(0, 2, 1): what goes beyond a list belongs to it
        at = min(argument, len(positional) - 1)
        if at >= 0 and _of_dimensions(positional[at][0]) and (at == argument or "List" in positional[at][1]):
            return True
    return False


def _of_dimensions(name: str) -> bool:
    return name.startswith(("dim", "axis")) or (name.endswith(("dim", "dims", "axis")) and name != "keepdim")


@cache
def _schemas(name: str) -> tuple[tuple[tuple[str, str, bool, Any, bool], ...], ...]:
    """(name, type, has default, default, keyword only) of each parameter, an entry an overload."""
    packet = aten_packet(name)
    if packet is None:
        return ()
    out = []
    for overload in packet.overloads():
        schema = schema_of(getattr(packet, overload))
        out.append(
            tuple((a.name, str(a.type), a.has_default_value(), a.default_value, a.kwarg_only) for a in schema.arguments)
        )
    return tuple(out)


def _bind(
    params: tuple[tuple[str, str, bool, Any, bool], ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    positional = [p for p in params if not p[4]]
    values: dict[str, Any] = {}
    rest = list(args)
    if len(positional) > 1 and positional[1][1].startswith("List[int]") and len(rest) > 1 and _is_int(rest[1]):
        rest = [rest[0], rest[1:]] if all(map(_is_int, rest[1:])) else rest  # x.view(2, 3)
    if len(rest) > len(positional):
        return None
    for value, param in zip(rest, positional, strict=False):
        values[param[0]] = value
    renamed = {"input": "self", "axis": "dim", "keepdims": "keepdim"}
    known = {p[0] for p in params}
    for key, value in kwargs.items():
        key = key if key in known else renamed.get(key, key)
        if key not in known or key in values:
            return None
        values[key] = value
    bound: dict[str, Any] = {}
    for name, type_, has_default, default, _ in params:
        if name not in values:
            if not has_default:
                return None
            values[name] = default
        value = values[name]
        if value is not default and not _fits(value, type_):
            return None
        if type_.removeprefix("Optional[").startswith("List[int]") and _is_int(value):
            value = [value]
        value = list(value) if isinstance(value, tuple) else value
        bound[name] = value
    return bound


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, fx.Node)) and not isinstance(value, bool)


def _fits(value: Any, type_: str) -> bool:
    optional = type_.startswith("Optional[")
    if value is None:
        return optional
    inner = type_[9:-1] if optional else type_
    if inner == "Tensor":
        return isinstance(value, fx.Node)
    if inner == "number":
        return isinstance(value, (bool, int, float, complex))
    if inner == "int":
        return isinstance(value, (int, fx.Node)) or type(value).__module__ == "torch"
    if inner == "float":
        return isinstance(value, (int, float))
    if inner == "bool":
        return isinstance(value, bool)
    if inner == "str":
        return isinstance(value, str)
    if inner.startswith("List[Tensor") or inner.startswith("List[Optional[Tensor"):
        return isinstance(value, (list, tuple)) and all(isinstance(v, fx.Node) or v is None for v in value)
    if inner.startswith("List["):
        return isinstance(value, (list, tuple, int)) and not isinstance(value, bool)
    return True
