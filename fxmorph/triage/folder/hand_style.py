"""The function of a reduced program as a person would write it: few names, calls inside calls, one line a thought.

Works on text and runs nothing: who uses what comes out runs it and looks whether it still shows what it is to show.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Columns of a line that calls are put into.
WIDTH = 76
#: Names for what a function takes, and for what it computes on the way.
_PARAMETERS = ("x", "y", "z", "w", "u", "v", "p", "q", "r", "s")
_VALUES = ("a", "b", "c", "d", "e", "g", "h", "k", "m", "n")
#: A name that a person may have chosen.
_CHOSEN = re.compile(r"[a-z]{1,7}")
#: Names that a snippet uses for itself.
TAKEN = frozenset({"f", "g", "name", "error", "torch"})
#: Calls that write, or whose result depends on when they are made.
_TIMED = re.compile(r"\w_\(|\bout=|rand|dropout|bernoulli|normal|multinomial")


@dataclass(frozen=True)
class HandFunction:
    """``names`` are those of the parameters, ``kept`` the places of the arguments that are used, ``body`` lines.

    ``outputs`` is how many values a tuple that is returned has; None where one value is returned, or nothing.
    """

    names: tuple[str, ...]
    kept: tuple[int, ...]
    body: tuple[str, ...]
    outputs: int | None

    def lines(self, name: str = "f") -> list[str]:
        return [f"def {name}({', '.join(self.names)}):", *(f"    {line}" for line in self.body)]


def hand_function(fn: ast.FunctionDef) -> HandFunction | None:
    """None where the function takes more than positional arguments, or branches."""
    parameters, body = _plain(fn)
    if body is None:
        return None
    used = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    kept = tuple(i for i, name in enumerate(parameters) if name in used)
    parameters = [parameters[i] for i in kept]
    renamed = _renamed(parameters, body)
    body = [_Rename(renamed).visit(s) for s in body]
    outputs = None
    if body and isinstance(body[-1], ast.Return):
        value = body[-1].value
        if isinstance(value, ast.Tuple):
            outputs = len(value.elts)
        if value is None or outputs == 0:
            body, outputs = body[:-1], None
    return HandFunction(tuple(renamed[p] for p in parameters), kept, tuple(map(_text, body)) or ("pass",), outputs)


def hand_calls(drive: ast.FunctionDef, callee: str) -> tuple[tuple[str, ...], tuple[str, ...], str] | None:
    """Of a function that calls its first argument: names of the others, its statements, and what it returns.

    ``callee`` is what the statements call.  None where it is no such plain function.
    """
    parameters, body = _plain(drive)
    if body is None or not parameters or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return None
    first, *others = parameters
    renamed = {**_renamed(others, [_Rename({first: callee}).visit(s) for s in body]), first: callee}
    *statements, last = [_Rename(renamed).visit(s) for s in body]
    assert isinstance(last, ast.Return) and last.value is not None
    return tuple(renamed[name] for name in others), tuple(map(_text, statements)), _text(last.value)


def _plain(fn: ast.FunctionDef) -> tuple[list[str], list[ast.stmt] | None]:
    """Its parameters and its statements with calls inside calls; no statements where it is not plain enough."""
    given = fn.args
    simple = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)
    body = [s for s in fn.body if not _is_docstring(s)]
    more = given.vararg or given.kwarg or given.kwonlyargs or given.defaults or given.posonlyargs
    if more or not all(isinstance(s, simple) for s in body):
        return [], None
    body = [_copied(s) for s in body]
    _unpack_single(body)
    _inline(body)
    return [a.arg for a in given.args], body


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def _copied(statement: ast.stmt) -> ast.stmt:
    return ast.parse(ast.unparse(statement)).body[0]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _unpack_single(body: list[ast.stmt]) -> None:
    """``return (x,)`` returns ``x``."""
    last = body[-1] if body else None
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple) and len(last.value.elts) == 1:
        last.value = last.value.elts[0]


def _inline(body: list[ast.stmt]) -> None:
    """Put a value that is used once, by the next statement, where it is used."""
    at = 0
    while at < len(body) - 1:
        name = _single_target(body[at])
        if name and _inlined(body, at, name):
            at = max(at - 1, 0)
        else:
            at += 1


def _inlined(body: list[ast.stmt], at: int, name: str) -> bool:
    this, after = body[at], body[at + 1]
    uses = Counter(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    if uses[name] != 2 or not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(after)):
        return False  # 2: where it is assigned and where it is used
    assert isinstance(this, ast.Assign)
    if _TIMED.search(ast.unparse(this.value)) and _calls_before(after, name):
        return False
    made = _Replace(name, this.value).visit(_copied(after))
    if len(ast.unparse(made)) > WIDTH:
        return False
    body[at : at + 2] = [made]
    return True


def _calls_before(statement: ast.stmt, name: str) -> bool:
    """Whether another call may be made in the statement before the name is read."""
    return sum(isinstance(n, ast.Call) for n in ast.walk(statement)) > 1 or isinstance(statement, ast.AugAssign)


def _single_target(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


class _Replace(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == self._name and isinstance(node.ctx, ast.Load) else node


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)


def _renamed(parameters: Sequence[str], body: Sequence[ast.stmt]) -> dict[str, str]:
    """Names of parameters and values by the names that they had."""
    stored = [n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    values = [name for name in dict.fromkeys(stored) if name not in parameters]
    # Modules and the like keep theirs.
    others = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)} - {*values, *parameters}
    taken = {*others, *TAKEN, *dir(builtins), *keyword.kwlist}
    names = {name: name for name in (*parameters, *values) if _CHOSEN.fullmatch(name) and name not in taken}
    taken |= set(names)
    for wanted, ours in ((parameters, _PARAMETERS), (values, _VALUES)):
        fresh = _fresh(ours, taken)
        for name in wanted:
            if name not in names:
                names[name] = next(fresh)
    return names


def _fresh(ours: Sequence[str], taken: set[str]) -> Iterator[str]:
    for name in (*ours, *(f"{name}{i}" for i in range(1, 100) for name in ours)):
        if name not in taken:
            taken.add(name)
            yield name
