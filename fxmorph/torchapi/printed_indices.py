"""Index expressions computed from the text that Inductor prints of them, in C++ or in Triton's Python.

No compiler is needed to see that an address is printed wrongly.  What the text has besides numbers, names, arithmetic
and the few functions of indices is not read: such an expression is computed as it is meant.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import torch

from fxmorph.model import Kernels
from fxmorph.torchapi.addresses import as_tensor

#: A computation over values by the names of symbols.
Computation = Callable[[Mapping[str, Any]], Any]

#: What is not spelled as in Python, and how it is.
_SPELLINGS = (
    (re.compile(r"\b(\d+)LL?\b"), r"\1"),
    (re.compile(r"\bstatic_cast<(?:int64_t|long)>"), "to_int"),
    (re.compile(r"\bstatic_cast<double>"), "to_float"),
    (re.compile(r"\bstd::(min|max)<int64_t>"), r"\1"),
    (re.compile(r"\b(?:std::|tl_math\.)(min|max|abs)\b"), r"\1"),
    (re.compile(r"\b(?:c10::|triton_helpers\.)div_floor_integer\b"), "div_floor"),
    (re.compile(r"\btriton_helpers\.remainder_integer\b|\bc10::div_mod\b"), "mod_floor"),
    (re.compile(r"\{([^{}]*)\}"), r"[\1]"),
)


def _over_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of integers a quotient is one too, rounded as the function says; other numbers are divided."""

    def divided(x: Any, y: Any) -> Any:
        x, y = as_tensor(x), as_tensor(y)
        return function(x, y) if not (x.is_floating_point() or y.is_floating_point()) else x.double() / y.double()

    return divided


def _of_several(function: Callable[..., Any]) -> Callable[..., Any]:
    def several(*given: Any) -> Any:
        values = given[0] if len(given) == 1 else given
        return functools.reduce(function, map(as_tensor, values))

    return several


def _rounded(mode: str) -> Callable[..., Any]:
    return functools.partial(torch.div, rounding_mode=mode)


#: C's quotients and remainders, which are Triton's too, round towards zero.
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _over_integers(_rounded("trunc")),
    ast.FloorDiv: _over_integers(_rounded("trunc")),
    ast.Mod: lambda x, y: torch.fmod(as_tensor(x), as_tensor(y)),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "to_int": lambda x: as_tensor(x).to(torch.int64),
    "to_float": lambda x: as_tensor(x).double(),
    "abs": lambda x: as_tensor(x).abs(),
    "min": _of_several(torch.minimum),
    "max": _of_several(torch.maximum),
    "div_floor": _over_integers(_rounded("floor")),
    "mod_floor": lambda x, y: torch.remainder(as_tensor(x), as_tensor(y)),
}


class _NotRead(Exception):
    """The text says what is not read here."""


class PrintedIndices:
    """The index expressions of one kernel, each printed once, in C++, or as for a GPU in Triton's Python."""

    def __init__(self, language: Kernels) -> None:
        self._language = language
        self._known: dict[Any, Computation | None] = {}

    def computation(self, expression: Any) -> Computation | None:
        """How the expression's text is computed; None where it is not read, or there is none."""
        if expression not in self._known:
            try:
                found: Computation | None = _computation(_text(expression, self._language))
            except Exception:  # printers raise what they do not print
                found = None
            self._known[expression] = found
        return self._known[expression]


def _text(expression: Any, language: Kernels) -> str:
    if language is Kernels.GPU:
        from torch._inductor.codegen.triton import texpr

        return str(texpr(expression))
    from torch._inductor.codegen.cpp_utils import cexpr

    return str(cexpr(expression))


@functools.lru_cache(maxsize=4096)
def _computation(text: str) -> Computation:
    """Raises :class:`_NotRead`, and ``SyntaxError``."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    tree = ast.parse(text, mode="eval")
    code: CodeType = compile(ast.fix_missing_locations(_Read().visit(tree)), "<index>", "eval")
    known = {**{f"_{kind.__name__}": function for kind, function in _OPERATORS.items()}, "__builtins__": {}}
    known |= {f"_{name}": function for name, function in _FUNCTIONS.items()}

    def computed(values: Mapping[str, Any]) -> Any:
        return eval(code, known, values)

    return computed


class _Read(ast.NodeTransformer):
    """Calls of our functions in the place of operators, whose names begin with ``_``; raises :class:`_NotRead`."""

    def visit_Expression(self, node: ast.Expression) -> ast.AST:
        return ast.Expression(self.visit(node.body))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return _call(type(node.op).__name__, type(node.op) in _OPERATORS, [node.left, node.right], self)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        single = len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS
        return _call(type(node.ops[0]).__name__, single, [node.left, *node.comparators], self)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.USub):
            raise _NotRead(ast.unparse(node))
        return ast.UnaryOp(node.op, self.visit(node.operand))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        named = node.func.id if isinstance(node.func, ast.Name) else ""
        return _call(named, named in _FUNCTIONS and not node.keywords, node.args, self)

    def visit_List(self, node: ast.List) -> ast.AST:
        return ast.List([self.visit(value) for value in node.elts], ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith("_"):
            raise _NotRead(node.id)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) not in (int, float):
            raise _NotRead(ast.unparse(node))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        raise _NotRead(ast.unparse(node))


def _call(name: str, known: bool, operands: list[ast.expr], reader: _Read) -> ast.AST:
    if not known:
        raise _NotRead(name)
    return ast.Call(ast.Name(f"_{name}", ast.Load()), [reader.visit(value) for value in operands], [])
