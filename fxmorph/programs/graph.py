"""FX graphs as readable Python text, and back; their hash; their windows.

The text is ordinary Python over ``torch``: what a person reads, what a worker executes and
what ``repro.py`` holds are the same characters.  :func:`read` parses the text with ``ast``
(nothing is executed) into a graph whose :func:`graph_hash` equals the printed one's.
Complex constants are spelled out part by part, since ``repr`` loses the sign of zero and
NaN in them.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import hashlib
import itertools
import keyword
import linecache
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import HigherOrderOperator, OpOverload, OpOverloadPacket


class Unprintable(ValueError):
    """The graph holds something that has no text form; the message names it."""


class Unreadable(ValueError):
    """The text is not of the form that :func:`print_graph` writes."""


_INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_PREFIX = {operator.neg: "-", operator.invert: "~"}

_BIN = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_CMP = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

#: Where a function is looked for, the most readable home first.
_HOMES: tuple[tuple[str, Any], ...] = (
    ("operator", operator),
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.Tensor", torch.Tensor),
    ("math", math),
    ("builtins", builtins),
    ("torch._C._nn", torch._C._nn),
)
_paths: dict[int, str] = {}


def _known_paths() -> dict[int, str]:
    if not _paths:
        for home, where in _HOMES:
            for name in dir(where):
                value = getattr(where, name, None)
                if callable(value) and not (name.startswith("__") and home != "torch.Tensor"):
                    _paths.setdefault(id(value), f"{home}.{name}")
    return _paths


_ROOTS: dict[str, Any] = {"torch": torch, "operator": operator, "math": math, "builtins": builtins}


def resolve(path: str) -> Any:
    """The object at a dotted path that starts at torch, operator, math or builtins."""
    head, *rest = path.split(".")
    if head not in _ROOTS:
        raise Unreadable(f"{path}: not rooted at {', '.join(_ROOTS)}")
    value = _ROOTS[head]
    for name in rest:
        try:
            value = getattr(value, name)
        except AttributeError:
            raise Unreadable(f"{path}: no {name!r} in this torch ({torch.__version__})") from None
    return value


def target_path(target: Any) -> str:
    """The dotted path of a call target; raises :class:`Unprintable` where there is none."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{target}"
    found = _known_paths().get(id(target))
    if found is not None:
        return found
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if module and name and "<" not in name:
        path = f"{module}.{name}"
        try:
            if resolve(path) is target:
                return path
        except Unreadable:
            pass
    if isinstance(target, HigherOrderOperator):
        raise Unprintable(f"higher-order operator {target}")
    raise Unprintable(f"call target {target!r} has no path in torch")


def _name(node: fx.Node) -> str:
    """The node's name in text: a value must not hide a module that the text needs."""
    return f"{node.name}_value" if node.name in _ROOTS else node.name


def literal(value: Any) -> str:
    """A constant as Python text; raises :class:`Unprintable` for what has none."""
    if isinstance(value, fx.Node):
        return _name(value)
    if value is Ellipsis:
        return "..."
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device('{value}')"
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if value is builtins or isinstance(value, types.ModuleType):
        raise Unprintable(f"module {value!r} as an argument")
    if isinstance(value, (type, types.BuiltinFunctionType, types.FunctionType)):
        return target_path(value)
    raise Unprintable(f"constant of type {type(value).__name__}")


def _operand(value: Any) -> str:
    text = literal(value)
    return f"({text})" if text.startswith("-") else text


def _index(value: Any) -> str:
    def one(part: Any) -> str:
        if isinstance(part, slice):
            ends = [("" if e is None else literal(e)) for e in (part.start, part.stop)]
            return ":".join(ends) + (f":{literal(part.step)}" if part.step is not None else "")
        return literal(part)

    if isinstance(value, tuple):
        return ", ".join(map(one, value)) + ("," if len(value) == 1 else "") if value else "()"
    return one(value)


def _call(node: fx.Node) -> str:
    args, kwargs, target = node.args, node.kwargs, node.target
    if node.op == "call_function" and not kwargs:
        if target in _INFIX and len(args) == 2:
            return f"{_operand(args[0])} {_INFIX[target]} {_operand(args[1])}"
        if target in _PREFIX and len(args) == 1 and isinstance(args[0], fx.Node):
            return f"{_PREFIX[target]}{_name(args[0])}"
        if target is getattr and len(args) == 2 and isinstance(args[0], fx.Node) and str(args[1]).isidentifier():
            return f"{_name(args[0])}.{args[1]}"
        if target is operator.getitem and isinstance(args[0], fx.Node):
            return f"{_name(args[0])}[{_index(args[1])}]"
        if target is operator.setitem and isinstance(args[0], fx.Node):
            return f"{_name(args[0])}[{_index(args[1])}] = {literal(args[2])}"
    rest = list(args[1:] if node.op == "call_method" else args)
    inside = ", ".join([*map(literal, rest), *(f"{k}={literal(v)}" for k, v in kwargs.items())])
    if node.op == "call_method":
        return f"{_operand(args[0])}.{target}({inside})"
    return f"{target_path(target)}({inside})"


def print_graph(graph: fx.Graph, name: str = "fn") -> str:
    """The graph as a Python function; raises :class:`Unprintable`."""
    params, lines = [], []
    used = set()
    for node in graph.nodes:
        if node.name in used or not node.name.isidentifier() or keyword.iskeyword(node.name):
            raise Unprintable(f"node name {node.name!r}")
        used.add(node.name)
        if node.op == "placeholder":
            params.append(_name(node))
        elif node.op == "output":
            lines.append(f"return {literal(node.args[0])}")
        elif node.op in ("call_function", "call_method"):
            text = _call(node)
            bare = not node.users or (node.target is operator.setitem and node.op == "call_function")
            if node.target is operator.setitem and node.users:
                raise Unprintable("the result of setitem is used")
            lines.append(text if bare else f"{_name(node)} = {text}")
        else:
            raise Unprintable(f"{node.op} {node.target}")
    return f"def {name}({', '.join(params)}):\n" + "".join(f"    {line}\n" for line in lines)


class _Reader:
    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.names: dict[str, fx.Node] = {}

    def read(self, text: str) -> fx.Graph:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise Unreadable(f"line {error.lineno}: {error.msg}") from None
        functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
        if len(functions) != 1:
            raise Unreadable("want exactly one function")
        function = functions[0]
        for arg in function.args.args:
            self.names[arg.arg] = self.graph.create_node("placeholder", arg.arg, name=arg.arg)
        for statement in function.body:
            self.statement(statement)
        return self.graph

    def statement(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Return):
            self.graph.output(self.value(s.value) if s.value is not None else None)
        elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            name = s.targets[0].id
            made = self.call(s.value, name)
            self.names[name] = made
        elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Subscript):
            t = s.targets[0]
            args = (self.value(t.value), self.index(t.slice), self.value(s.value))
            self.graph.create_node("call_function", operator.setitem, args)
        elif isinstance(s, ast.Expr):
            self.call(s.value, None)
        else:
            raise Unreadable(f"line {s.lineno}: statement {type(s).__name__}")

    def call(self, e: ast.expr, name: str | None) -> fx.Node:
        def make(op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> fx.Node:
            return self.graph.create_node(op, target, args, kwargs or {}, name=name)

        if isinstance(e, ast.BinOp):
            return make("call_function", _BIN[type(e.op)], (self.value(e.left), self.value(e.right)))
        if isinstance(e, ast.Compare) and len(e.ops) == 1:
            return make("call_function", _CMP[type(e.ops[0])], (self.value(e.left), self.value(e.comparators[0])))
        if isinstance(e, ast.UnaryOp):
            target = {ast.USub: operator.neg, ast.Invert: operator.invert}.get(type(e.op))
            if target is not None:
                return make("call_function", target, (self.value(e.operand),))
        if isinstance(e, ast.Subscript):
            return make("call_function", operator.getitem, (self.value(e.value), self.index(e.slice)))
        if isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id in self.names:
            return make("call_function", getattr, (self.value(e.value), e.attr))
        if isinstance(e, ast.Call):
            args = tuple(self.value(a) for a in e.args)
            kwargs = {k.arg: self.value(k.value) for k in e.keywords if k.arg is not None}
            path = self.path(e.func)
            if path is not None:
                return make("call_function", resolve(path), args, kwargs)
            if isinstance(e.func, ast.Attribute):
                return make("call_method", e.func.attr, (self.value(e.func.value), *args), kwargs)
        raise Unreadable(f"line {e.lineno}: expression {ast.unparse(e)!r}")

    def path(self, e: ast.expr) -> str | None:
        parts = []
        while isinstance(e, ast.Attribute):
            parts.append(e.attr)
            e = e.value
        if isinstance(e, ast.Name) and e.id not in self.names and e.id in _ROOTS:
            return ".".join([e.id, *reversed(parts)])
        return None

    def index(self, e: ast.expr) -> Any:
        if isinstance(e, ast.Tuple):
            return tuple(self.index(x) for x in e.elts)
        if isinstance(e, ast.Slice):
            return slice(*(None if p is None else self.value(p) for p in (e.lower, e.upper, e.step)))
        return self.value(e)

    def value(self, e: ast.expr) -> Any:
        if isinstance(e, ast.Name):
            if e.id in self.names:
                return self.names[e.id]
            raise Unreadable(f"line {e.lineno}: unknown name {e.id!r}")
        if isinstance(e, ast.Constant):
            return e.value
        if isinstance(e, ast.Tuple):
            return tuple(self.value(x) for x in e.elts)
        if isinstance(e, ast.List):
            return [self.value(x) for x in e.elts]
        if isinstance(e, ast.Dict):
            return {self.value(k): self.value(v) for k, v in zip(e.keys, e.values, strict=True) if k is not None}
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            inner = self.value(e.operand)
            if isinstance(inner, (int, float)):
                return -inner
        if isinstance(e, ast.Attribute):
            path = self.path(e)
            if path is not None:
                return resolve(path)
        if isinstance(e, ast.Call):
            name = ast.unparse(e.func)
            args = [self.value(a) for a in e.args]
            maker = {"float": float, "complex": complex, "slice": slice, "torch.device": torch.device}.get(name)
            if maker is not None:
                return maker(*args)
        raise Unreadable(f"line {e.lineno}: constant {ast.unparse(e)!r}")


def read_graph(text: str) -> fx.Graph:
    """The graph that ``text`` (of :func:`print_graph`) describes; raises :class:`Unreadable`."""
    return _Reader().read(text)


def numbered(value: Any, number: Mapping[fx.Node, int]) -> str:
    """An argument as text in which nodes are numbers; raises :class:`Unprintable` for a constant that has none."""
    if isinstance(value, fx.Node):
        return f"%{number[value]}"
    if isinstance(value, (tuple, list)):
        opening, closing = ("(", ")") if isinstance(value, tuple) else ("[", "]")
        return opening + ",".join(numbered(part, number) for part in value) + closing
    if isinstance(value, slice):
        return "slice(" + ",".join(numbered(part, number) for part in (value.start, value.stop, value.step)) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{numbered(v, number)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, complex) and cmath.isnan(value):
        return f"complex({numbered(value.real, number)},{numbered(value.imag, number)})"
    return literal(value)


def graph_hash(graph: fx.Graph) -> str:
    """16 hex digits over structure, targets and constants; node names do not enter."""
    number = {node: i for i, node in enumerate(graph.nodes)}

    def show(value: Any) -> str:
        return numbered(value, number)

    lines = []
    for node in graph.nodes:
        target = ""
        if node.op == "call_function":
            target = target_path(node.target)
        elif node.op != "placeholder":
            target = str(node.target)
        kwargs = ",".join(f"{k}={show(v)}" for k, v in sorted(node.kwargs.items()))
        lines.append(f"{node.op} {target} {show(node.args) if node.op != 'placeholder' else ''} {kwargs}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


_serial = itertools.count()


def imports_of(text: str) -> str:
    """The import lines that printed text needs besides torch."""
    return "".join(f"import {root}\n" for root in sorted(_ROOTS) if root != "torch" and f"{root}." in text)


def function_of(text: str, name: str = "fn") -> Callable[..., Any]:
    """The function that printed text defines, with its source visible to Dynamo and tracebacks."""
    filename = f"<fxmorph graph {next(_serial)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = dict(_ROOTS)
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]


def calls(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that compute something, in order."""
    return [n for n in graph.nodes if n.op in ("call_function", "call_method")]


def copy_graph(graph: fx.Graph) -> fx.Graph:
    """A copy with the same node names and shared ``meta`` values, in an order in which it runs.

    Amid a pass nodes may stand before what they read: it is brought forward.  Raises ``ValueError`` for a circle.
    """
    new = fx.Graph()
    seen: dict[fx.Node, fx.Node] = {}
    left, opened = list(reversed(graph.nodes)), set[fx.Node]()
    while left:
        node = left[-1]
        unread = [n for n in node.all_input_nodes if n not in seen]
        if unread:
            if node in opened:
                raise ValueError(f"{node.name} reads what is computed from it")
            opened.add(node)
            left += reversed(unread)
            continue
        left.pop()
        if node in seen:
            continue
        made = new.create_node(
            node.op,
            node.target,
            fx.node.map_arg(node.args, lambda n: seen[n]),
            fx.node.map_arg(node.kwargs, lambda n: seen[n]),
            name=node.name,
            type_expr=node.type,
        )
        made.meta = dict(node.meta)
        seen[node] = made
    return new


def windows(graph: fx.Graph, size: int) -> Iterator[tuple[fx.Graph, list[str]]]:
    """Cut a large graph into consecutive graphs of at most ``size`` calls.

    Yields each window with the names of the original nodes that feed its placeholders.
    What a window computes and a later node reads is its output.
    """
    nodes = calls(graph)
    for start in range(0, len(nodes), size):
        part = nodes[start : start + size]
        inside = set(part)
        new = fx.Graph()
        seen: dict[fx.Node, fx.Node] = {}
        feeds: list[str] = []
        for node in part:
            for feed in node.all_input_nodes:
                if feed not in inside and feed not in seen:
                    seen[feed] = new.create_node("placeholder", feed.name, name=feed.name)
                    feeds.append(feed.name)
        for node in part:
            args = fx.node.map_arg(node.args, seen.__getitem__)
            kwargs = fx.node.map_arg(node.kwargs, seen.__getitem__)
            seen[node] = new.create_node(node.op, node.target, args, kwargs, name=node.name)
        live = tuple(seen[n] for n in part if any(u not in inside for u in n.users))
        new.output(live)
        yield new, feeds
