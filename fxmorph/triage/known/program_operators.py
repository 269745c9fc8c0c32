"""Which operators a finding is about: what its reduced graph calls, or else what its program spells."""

from __future__ import annotations

import ast

from fxmorph.model import Finding
from fxmorph.triage.known.operator_names import plain_names

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.USub: "neg", ast.Invert: "bitwise_not", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


def operators_of_finding(finding: Finding) -> frozenset[str]:
    """In plain form; empty where the finding has neither a reduced graph nor a program."""
    return plain_names(finding.operations) or operators_spelled(finding.program)


def operators_spelled(program: str) -> frozenset[str]:
    """What the program calls outside ``make_inputs``, in plain form: classes of modules and helpers too."""
    names: set[str] = set()
    for part in ast.parse(program).body:
        if getattr(part, "name", "") == "make_inputs":
            continue
        for node in ast.walk(part):
            if isinstance(node, ast.Call):
                names.add(getattr(node.func, "attr", "") or getattr(node.func, "id", ""))
            elif isinstance(node, ast.Subscript):
                names.add("setitem" if isinstance(node.ctx, ast.Store) else "getitem")
            elif type(node) in _SIGNS:
                names.add(_SIGNS[type(node)])
    return plain_names(names)
