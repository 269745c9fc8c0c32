"""Which operators a finding is about: what its reduced graph calls, or else what its program spells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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


def _outside_changes(part: ast.AST) -> Iterator[ast.AST]:
    """All nodes, but for what a driver does to arguments from call to call (``fxmorph/programs/called_in_turn.py``)."""
    todo = [part]
    while todo:
        node = todo.pop()
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tree_map"):
            yield node
            todo += ast.iter_child_nodes(node)


def operators_spelled(program: str) -> frozenset[str]:
    """What the program calls outside ``make_inputs``, in plain form: classes of modules and helpers too."""
    names: set[str] = set()
    for part in ast.parse(program).body:
        if getattr(part, "name", "") == "make_inputs":
            continue
        for node in _outside_changes(part):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", "")
                if called != "g":  # which a driver is given: the program itself
                    names.add(getattr(node.func, "attr", "") or called)
            elif isinstance(node, ast.Subscript):
                names.add("setitem" if isinstance(node.ctx, ast.Store) else "getitem")
            elif type(node) in _SIGNS:
                names.add(_SIGNS[type(node)])
    return plain_names(names)
