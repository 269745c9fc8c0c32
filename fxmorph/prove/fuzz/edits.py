"""Changes of one place in the text of a function."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy

#: Names of which one is written where another is meant.
_GROUPS = (
    "maximum minimum", "amax amin", "max min", "argmax argmin", "sum mean prod", "cumsum cumprod", "ge gt le lt eq ne",
    "floor ceil trunc round", "add sub", "mul div", "sin cos", "tan tanh", "exp exp2 expm1", "log log2 log1p",
    "relu abs", "sqrt rsqrt", "any all", "remainder fmod", "zeros ones", "zeros_like ones_like", "isnan isinf",
    "bitwise_and bitwise_or bitwise_xor", "logical_and logical_or logical_xor", "flip flipud fliplr", "tril triu",
    "sigmoid tanh", "squeeze unsqueeze", "std var", "mm bmm", "sinh cosh", "asin acos", "silu gelu", "sort argsort",
    "floor_divide true_divide", "T mT", "fill_ add_", "clamp_min clamp_max", "shape stride", "cat stack",
    "zero_ neg_", "unfold flatten", "softmax softmin", "vstack hstack", "nansum sum", "where lerp", "select narrow",
)  # fmt: skip
_DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OPERATORS = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,), ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitOr,), ast.MatMult: (ast.Mult,),
}  # fmt: skip
_OTHER_NAMES = {
    name: [other for other in group.split() if other != name] for group in _GROUPS for name in group.split()
} | {name: [other for other in _DTYPES if other != name] for name in _DTYPES}


def edits(tree: ast.FunctionDef, rng: random.Random) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(what was changed, the function with that change), one for each place that can be changed."""
    for number, node in enumerate(ast.walk(tree)):
        made = _changed(node, rng)
        if made is None:
            continue
        changed = copy.deepcopy(tree)
        place = next(n for i, n in enumerate(ast.walk(changed)) if i == number)
        old = ast.unparse(place)
        for field, value in made.items():
            setattr(place, field, value)
        yield f"{old} -> {ast.unparse(place)}", changed


def _changed(node: ast.AST, rng: random.Random) -> dict[str, Any] | None:
    """Other values of a node's fields."""
    if isinstance(node, ast.Constant):
        return {"value": _number(node.value, rng)} if _is_number(node.value) else _flag(node.value)
    if isinstance(node, ast.Attribute) and node.attr in _OTHER_NAMES:
        return {"attr": rng.choice(_OTHER_NAMES[node.attr])}
    if isinstance(node, ast.Compare):
        return {"ops": [rng.choice([c for c in _COMPARISONS if c is not type(node.ops[0])])(), *node.ops[1:]]}
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        if rng.random() < 0.3 and not isinstance(node.op, ast.Add | ast.Mult):
            return {"left": node.right, "right": node.left}
        return {"op": rng.choice(_OPERATORS[type(node.op)])()}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        return {"op": ast.UAdd()}
    if isinstance(node, ast.Call):
        if node.keywords and rng.random() < 0.5:
            return {"keywords": node.keywords[1:]}
        if len(node.args) == 2 and rng.random() < 0.5:
            return {"args": node.args[::-1]}
    if isinstance(node, ast.Slice) and node.upper is not None and rng.random() < 0.5:
        return {"upper": ast.BinOp(node.upper, ast.Sub(), ast.Constant(1))}
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flag(value: object) -> dict[str, Any] | None:
    return {"value": not value} if isinstance(value, bool) else None


def _number(value: Any, rng: random.Random) -> Any:
    """Another number: the next one, the negative one, twice as much, or one that is rounded."""
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value if value else 1, 2 * value if value else 2, value + 16])
    rounded = float(numpy.float32(value))
    near = [value * (1 + 2.0**-12), value * (1 - 2.0**-40), float(f"{value:.3g}"), rounded]
    others = [v for v in (*near, value + 1, -value, 2 * value) if v != value]
    return rng.choice(others or [1.0])
