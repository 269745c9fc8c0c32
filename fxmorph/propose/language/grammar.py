"""What the restricted language consists of: bodies and conditions as text, parsed and checked node by node.

Nothing here runs anything; ``restricted.py`` interprets what passes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch

from fxmorph.propose.language.allowed import (
    BUILTINS,
    CONDITION_ATTRIBUTES,
    CONDITION_NAMES,
    CONSTANTS,
    FUNCTIONS,
    LIMIT_ATTRIBUTES,
    METHODS,
    REFUSED_KEYWORDS,
    RESULT_ATTRIBUTES,
    TENSOR_ATTRIBUTES,
)
from fxmorph.propose.proposal import MAX_TEXT, Malformed, Unsupported

#: Expressions and statements of one body, and how deep they nest.
MAX_NODES, MAX_DEPTH = 600, 40
MAX_INT = 2**64
#: Characters of a text constant.
MAX_WORD = 64


class TooLarge(Malformed):
    """A value that a body makes is beyond the limits; the message says which."""


_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Slice, ast.Subscript, ast.UnaryOp, ast.BinOp, ast.BoolOp,
    ast.Compare, ast.IfExp, ast.Call, ast.Attribute, ast.Starred, ast.ListComp, ast.GeneratorExp,
)  # fmt: skip
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.For, ast.If)
_PARTS = (
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.keyword, ast.comprehension, ast.Module,
    ast.Expression,
)  # fmt: skip
MODULES = {"torch": "torch", "F": "torch.nn.functional"}


def parse_body(text: str, names: Sequence[str]) -> list[ast.stmt]:
    """The checked statements of a body over ``names``; raises :class:`Malformed` or :class:`Unsupported`.

    A body that is one expression becomes a ``return`` of it.
    """
    tree = _parsed(text)
    _check_limits(tree)
    nodes = list(ast.walk(tree))
    for node in nodes:
        _check_node(node)
    for node in nodes:
        if isinstance(node, ast.Call):
            _check_call(node, f"line {node.lineno}: ")
    body = tree.body
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        body = [ast.copy_location(ast.Return(body[0].value), body[0])]
    if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        raise Malformed("the last line must be `return` of an expression")
    known = set(names)
    for statement in body[:-1]:
        _check_statement(statement, known)
    _check_names(body[-1], known)
    return body


def _parsed(text: str) -> ast.Module:
    if len(text) > MAX_TEXT:
        raise Malformed(f"{len(text)} characters; at most {MAX_TEXT}")
    try:
        return ast.parse(text.strip())
    except SyntaxError as error:
        raise Malformed(f"line {error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise Malformed(f"does not parse: {type(error).__name__}") from None


def _check_limits(tree: ast.AST) -> None:
    """Number of nodes and depth, without recursion."""
    count, todo = 0, [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, (ast.expr, ast.stmt)):
            count += 1
        if depth > MAX_DEPTH:
            raise Malformed(f"nested deeper than {MAX_DEPTH}")
        if count > MAX_NODES:
            raise Malformed(f"more than {MAX_NODES} nodes")
        todo += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _check_node(node: ast.AST) -> None:
    """One node by itself: its kind, the names and constants in it."""
    line = f"line {getattr(node, 'lineno', 1)}: "
    if not isinstance(node, (*_EXPRESSIONS, *_STATEMENTS, *_PARTS)):
        raise Malformed(f"{line}{type(node).__name__} is not part of the language")
    if isinstance(node, ast.Constant):
        _check_constant(node.value, line)
    elif isinstance(node, ast.Name) and node.id.startswith("_"):
        raise Malformed(f"{line}name {node.id!r}")
    elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        raise Malformed(f"{line}attribute {node.attr!r}")
    elif isinstance(node, ast.comprehension) and (node.is_async or not isinstance(node.target, ast.Name)):
        raise Malformed(f"{line}a comprehension runs over one name")
    elif isinstance(node, ast.For) and node.orelse:
        raise Malformed(f"{line}for with else")


def _check_constant(value: Any, line: str) -> None:
    if isinstance(value, str):
        if len(value) > MAX_WORD or not value.isprintable():
            raise Malformed(f"{line}a text of {len(value)} characters; at most {MAX_WORD}")
    elif isinstance(value, int) and abs(value) > MAX_INT:
        raise TooLarge(f"{line}an integer of {value.bit_length()} bits")
    elif not isinstance(value, (bool, int, float, complex)) and value is not None and value is not Ellipsis:
        raise Malformed(f"{line}a constant of type {type(value).__name__}")


def dotted(node: ast.expr) -> str:
    """``torch.special.erf`` of the node that says so (``F`` spelled out); "" for what does not begin at torch."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in MODULES:
        return ""
    return ".".join([MODULES[node.id], *reversed(parts)])


def _check_call(node: ast.Call, line: str) -> None:
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg.startswith("_") or keyword.arg in REFUSED_KEYWORDS:
            raise Malformed(f"{line}argument {keyword.arg or '**'}")
    path = dotted(node.func)
    if path:
        home, _, name = path.rpartition(".")
        if name not in FUNCTIONS.get(home, ()):
            raise Unsupported(path)
    elif isinstance(node.func, ast.Name):
        if node.func.id not in BUILTINS:
            raise Malformed(f"{line}{node.func.id!r} is not a function of the language")
    elif isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if (name not in METHODS or not hasattr(torch.Tensor, name)) and name != "append":
            raise Unsupported(f"Tensor.{name}")
    else:
        raise Malformed(f"{line}what is called has no name")


def _check_statement(s: ast.stmt, known: set[str]) -> None:
    """A statement that is not the last; adds what it assigns to ``known``."""
    line = f"line {s.lineno}: "
    if isinstance(s, ast.Assign):
        _check_names(s.value, known)
        for target in s.targets:
            _check_target(target, known, line)
    elif isinstance(s, ast.AugAssign):
        _check_names(s.value, known)
        if isinstance(s.target, ast.Name):
            _check_names(ast.Name(s.target.id, ast.Load(), lineno=s.lineno), known)
        _check_target(s.target, known, line)
        if isinstance(s.op, ast.MatMult):
            raise Malformed(f"{line}operator {type(s.op).__name__}")
    elif isinstance(s, ast.Expr):
        if not isinstance(s.value, ast.Call):
            raise Malformed(f"{line}an expression that does nothing")
        _check_names(s.value, known)
    elif isinstance(s, ast.For):
        _check_names(s.iter, known)
        _check_target(s.target, known, line)
        for inner in s.body:
            _check_statement(inner, known)
    elif isinstance(s, ast.If):
        _check_names(s.test, known)
        for inner in (*s.body, *s.orelse):
            _check_statement(inner, known)
    else:
        raise Malformed(f"{line}{type(s).__name__.lower()} before the last line")


def _check_target(target: ast.expr, known: set[str], line: str) -> None:
    if isinstance(target, ast.Name):
        if target.id in MODULES or target.id in BUILTINS:
            raise Malformed(f"{line}{target.id!r} cannot be assigned")
        known.add(target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            _check_target(part.value if isinstance(part, ast.Starred) else part, known, line)
    elif isinstance(target, ast.Subscript):
        _check_names(target, known)
    else:
        raise Malformed(f"{line}assignment to {type(target).__name__.lower()}")


def _check_names(node: ast.AST, known: set[str]) -> None:
    inner = {
        t.target.id for n in ast.walk(node) for t in getattr(n, "generators", ()) if isinstance(t.target, ast.Name)
    }
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    modules = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    for n in ast.walk(node):
        if isinstance(n, ast.Name):
            fine = n.id in known or n.id in inner
            fine |= n.id in BUILTINS and id(n) in called
            fine |= n.id in MODULES and id(n) in modules
            if not fine:
                raise Malformed(f"line {getattr(n, 'lineno', 1)}: unknown name {n.id!r}")
        elif isinstance(n, ast.Attribute) and id(n) not in called and id(n) not in modules:
            path = dotted(n)
            fine = n.attr in TENSOR_ATTRIBUTES | RESULT_ATTRIBUTES | LIMIT_ATTRIBUTES
            if path:
                fine = path.rpartition(".")[0] == "torch" and n.attr in CONSTANTS
            if not fine:
                raise Unsupported(path or f"attribute {n.attr}")


_CONDITION_NODES = (
    ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Slice, ast.Subscript, ast.UnaryOp, ast.BinOp, ast.BoolOp,
    ast.Compare, ast.IfExp, ast.Call, ast.Attribute, ast.ListComp, ast.GeneratorExp, *_PARTS,
)  # fmt: skip
_CONDITION_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Div)


def check_condition(text: str, names: Sequence[str]) -> None:
    """Refuse a ``where`` expression that is more than arithmetic on sizes, scalars and argument specs.

    What passes is harmless to evaluate; raises :class:`Malformed`.
    """
    tree = _parsed(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise Malformed(f"where {text!r}: not an expression")
    expression = tree.body[0].value
    _check_limits(expression)
    bound = {
        t.target.id
        for n in ast.walk(expression)
        for t in getattr(n, "generators", ())
        if isinstance(t.target, ast.Name)
    }
    for node in ast.walk(expression):
        wrong = ""
        if not isinstance(node, _CONDITION_NODES) or (
            isinstance(node, ast.operator) and not isinstance(node, _CONDITION_OPERATORS)
        ):
            wrong = type(node).__name__
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            wrong = f"torch.{node.attr}; a dtype is a text here, as in x.dtype == 'int64'"
        elif isinstance(node, ast.Attribute) and node.attr not in CONDITION_ATTRIBUTES:
            wrong = f"attribute {node.attr}"
        elif isinstance(node, ast.Name) and node.id not in {*names, *bound} | CONDITION_NAMES:
            wrong = f"name {node.id}"
        elif isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in CONDITION_NAMES and not node.keywords
        ):
            wrong = "a call"
        elif isinstance(node, ast.Constant):
            _check_constant(node.value, f"where {text!r}: ")
            if isinstance(node.value, int) and abs(node.value) > 2**31:
                wrong = "a large number"
        if wrong:
            raise Malformed(f"where {text!r}: {wrong}")
