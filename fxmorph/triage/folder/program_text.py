"""What the text of a finding's program says of it, and shorter names in it."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping

from fxmorph.triage.folder.public_names import with_public_names

#: Namespaces of torch whose functions' operators are named with them.
_NAMESPACES = ("linalg", "fft", "special")


def readable(program: str) -> str:
    """The program with short names of what it takes, and public ones of what it calls.

    Dynamo's ``l_self_modules_lin_parameters_weight_`` is ``lin_weight``.
    """
    taken = set(re.findall(r"\w+", program))
    for long in sorted(set(re.findall(r"\bl_\w+_\b", program))):
        parts = [p for p in long[2:-1].split("_") if p]
        short = "_".join(p for p in parts if p not in ("self", "modules", "parameters", "buffers")) or parts[-1]
        if short.isidentifier() and not keyword.iskeyword(short) and short not in taken:
            taken.add(short)
            program = re.sub(rf"\b{long}\b", short, program)
    return with_public_names(program)


def without_inputs(program: str) -> str:
    """The program without ``make_inputs``."""
    tree = ast.parse(program)
    return "\n".join(ast.unparse(n) for n in tree.body if getattr(n, "name", "") != "make_inputs")


def holds_containers(make_inputs: ast.AST) -> bool:
    """Whether a list or a dict is made there that is neither an argument of a call nor what is returned."""
    returned = {id(n.value) for n in ast.walk(make_inputs) if isinstance(n, ast.Return)}
    todo = list(ast.iter_child_nodes(make_inputs))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)) and id(node) not in returned:
            return True
        todo += [] if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    return False


def returns_flat_tuples(function: ast.AST) -> bool:
    """Whether a function returns tuples, and it can be told of each part that it is no tuple or list itself.

    What an operator that is called by name returns is in its schemas; a call of anything else may return several.
    """
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    several = {
        target.id
        for n in ast.walk(function)
        if isinstance(n, ast.Assign) and not _is_one(n.value)
        for target in n.targets
        if isinstance(target, ast.Name)
    }
    return bool(returned) and all(
        isinstance(value, ast.Tuple)
        and all(_is_one(part) and getattr(part, "id", "") not in several for part in value.elts)
        for value in returned
    )


def _is_one(value: ast.expr) -> bool:
    """Whether an expression that is no name of something else is one tensor or number."""
    if isinstance(value, ast.Call):
        return _gives_one(value.func)
    if isinstance(value, ast.IfExp):
        return _is_one(value.body) and _is_one(value.orelse)
    return not isinstance(value, (ast.Tuple, ast.List, ast.Starred, ast.ListComp))


def _gives_one(function: ast.expr) -> bool:
    """Whether the operator of this name returns one tensor."""
    from fxmorph.torchapi.dispatch import gives_one_tensor

    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    inside = getattr(getattr(function, "value", None), "attr", "")
    return gives_one_tensor(f"{inside}_{name}" if inside in _NAMESPACES else name)


def defined(program: str) -> Mapping[str, ast.AST]:
    """What the program defines at its top level, by name."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"the program of the finding is not Python: {error}") from error
    names: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.Assign):
            names.update({t.id: node for t in node.targets if isinstance(t, ast.Name)})
    if "make_inputs" not in names or not ("fn" in names or "make_fn" in names):
        raise ValueError("the program of the finding does not define make_inputs() and fn()")
    return names
