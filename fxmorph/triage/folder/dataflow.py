"""The data flow of a program's text: which value is made by which call from which others.

Reads Python text without running it: graphs as fxmorph prints them, the text of
``print_readable``, that of ``str(graph)``, and plain functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Role = Literal["input", "call", "output"]


@dataclass(frozen=True)
class Step:
    """One node: ``label`` is the called operator, ``uses`` the nodes it takes, ``note`` dtype and shape where known.

    ``text`` is the whole expression, ``arguments`` those that are no nodes: the bounds of a slice, the dims of a sum.
    ``marked``: the other side of a comparison has no such node.
    """

    name: str
    role: Role
    label: str
    uses: tuple[str, ...]
    text: str
    note: str = ""
    marked: bool = False
    arguments: str = ""


def read_steps(text: str) -> tuple[Step, ...]:
    """Nodes in order; empty where the text holds no function that can be read.

    Of several functions ``fn``, then ``forward``, then the first is read.
    """
    if re.match(r"\s*(graph\(\):|.*\n\ngraph\(\):)", text):
        return tuple(_of_fx_text(text))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    functions = {n.name: n for n in reversed(list(ast.walk(tree))) if isinstance(n, ast.FunctionDef)}
    for chosen in ("fn", "forward"):
        if chosen in functions:
            return tuple(_Reader(functions[chosen]).steps())
    plain = [f for name, f in functions.items() if name != "make_inputs" and not name.startswith("__")]
    return tuple(_Reader(plain[-1]).steps()) if plain else ()


class _Reader:
    """Statements of one function; what is written again under a name gets a new node."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._function = function
        self._current: dict[str, str] = {}
        self._taken: set[str] = set()

    def steps(self) -> Iterator[Step]:
        arguments = self._function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg != "self":
                name = self._new(argument.arg)
                yield Step(name, "input", argument.arg, (), argument.arg, _annotation(argument.annotation))
        for statement in self._function.body:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[Step]:
        if isinstance(statement, ast.Return) and statement.value is not None:
            value, inner = self._flattened(statement.value, whole=False)
            yield from inner
            yield Step(self._new("output"), "output", "output", self._uses(value), ast.unparse(value))
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
            yield from self._assigned(statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            value, inner = self._flattened(statement.value)
            yield from inner
            step = self._step(_operator(value), value, "")
            yield step
            self._written(statement.value, step.name)
        else:
            for nested in ast.iter_child_nodes(statement):
                if isinstance(nested, ast.stmt):
                    yield from self._statement(nested)

    def _assigned(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[Step]:
        value = statement.value
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return  # print_readable lets go of names so
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        note = _annotation(statement.annotation) if isinstance(statement, ast.AnnAssign) else ""
        if isinstance(statement, ast.AugAssign):
            value = ast.BinOp(ast.Name(names[0], ast.Load()) if names else statement.target, statement.op, value)
        if isinstance(value, ast.Name) and len(names) == 1 and value.id in self._current:
            self._current[names[0]] = self._current[value.id]
            return
        value, inner = self._flattened(value)
        yield from inner
        if not names:
            yield self._item_written(targets[0], value)
            return
        step = self._step(names[0], value, note)
        yield step
        for name in names[1:]:
            self._current[name] = step.name

    def _flattened(self, value: ast.expr, whole: bool = True) -> tuple[ast.expr, list[Step]]:
        """The expression with calls inside it taken out as steps of their own; not the outermost if ``whole``."""
        reader, made = self, list[Step]()

        class Inner(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                node = self.generic_visit(node)
                inside = isinstance(node, (ast.Call, ast.BinOp)) and not (whole and node is value)
                if not inside or not isinstance(node, ast.expr) or not reader._uses(node):
                    return node
                made.append(reader._step(_operator(node), node, "", bound=False))
                return ast.Name(made[-1].name, ast.Load())

        flat: ast.expr = Inner().visit(value)
        return flat, made

    def _item_written(self, target: ast.expr, value: ast.expr) -> Step:
        """``x[0] = y`` takes both and is ``x`` from now on."""
        where = ast.unparse(target.slice) if isinstance(target, ast.Subscript) else ast.unparse(target)
        uses = tuple(dict.fromkeys((*self._uses(target), *self._uses(value))))
        text = f"{ast.unparse(target)} = {ast.unparse(value)}"
        step = Step(self._new("setitem"), "call", f"[{where}] =", uses, text)
        self._written(target, step.name)
        return step

    def _step(self, name: str, value: ast.expr, note: str, bound: bool = True) -> Step:
        uses, fixed = self._uses(value), _fixed(value, lambda operand: not self._uses(operand))
        return Step(self._new(name, bound), "call", _operator(value), uses, ast.unparse(value), note, arguments=fixed)

    def _written(self, value: ast.expr, by: str) -> None:
        """A statement without a name writes to its first operand, which is that node from now on."""
        first = next((n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in self._current), None)
        if first is not None:
            self._current[first] = by

    def _new(self, name: str, bound: bool = True) -> str:
        """A node's name; ``bound``: the program's own name stands for this node from now on."""
        unique, number = name, 1
        while unique in self._taken:
            number += 1
            unique = f"{name}'{number}"
        self._taken.add(unique)
        self._current[name if bound else unique] = unique
        return unique

    def _uses(self, value: ast.expr) -> tuple[str, ...]:
        found = (self._current[n.id] for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in self._current)
        return tuple(dict.fromkeys(found))


_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.USub: "-",
    ast.Invert: "~",
}  # fmt: skip


def _operator(value: ast.expr) -> str:
    """The outermost operator, with constants that fit: ``aten.sum([-1])`` is ``sum``."""
    if isinstance(value, ast.Call):
        return _short(ast.unparse(value.func)) if not isinstance(value.func, ast.Call) else "call"
    if isinstance(value, ast.BinOp | ast.UnaryOp):
        return _SYMBOLS.get(type(value.op), type(value.op).__name__.lower())
    if isinstance(value, ast.Compare):
        return _SYMBOLS.get(type(value.ops[0]), "compare")
    if isinstance(value, ast.Subscript):
        return f"[{ast.unparse(value.slice)}]"
    if isinstance(value, ast.Attribute):
        return f".{value.attr}"
    text = ast.unparse(value)
    return text if len(text) < 24 else type(value).__name__.lower()


def _fixed(value: ast.expr, is_fixed: Callable[[ast.expr], bool]) -> str:
    """The arguments of the outermost operator that are fixed: ``1, 0, 5`` of ``slice(x, 1, 0, 5)``."""
    if isinstance(value, ast.BinOp):
        return ", ".join(ast.unparse(side) for side in (value.left, value.right) if is_fixed(side))
    if not isinstance(value, ast.Call):
        return ""
    named = [f"{word.arg}={ast.unparse(word.value)}" for word in value.keywords if word.arg and is_fixed(word.value)]
    return ", ".join([*(ast.unparse(each) for each in value.args if is_fixed(each)), *named])


def _short(path: str) -> str:
    """``torch.ops.aten.add.Tensor`` is ``aten.add``, ``torch.nn.functional.softmax`` is ``softmax``."""
    parts = path.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        return ".".join(parts[2:4])
    return parts[-1] if len(parts) > 1 else path


def _annotation(annotation: ast.expr | None) -> str:
    """``f32[3, 4][4, 1]`` of print_readable; other annotations say nothing."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return re.sub(r"(cpu|cuda:?\d*)$", "", annotation.value)
    return ""


#: What ``%`` before a node is read as.
_NODE = "_node_"
_FX_LINE = re.compile(r"\s*%(\w+)(?: : .*?)? = (\w+)\[target=([^\]]+)\](?:\(args = (.*), kwargs = (.*)\))?")


def _of_fx_text(text: str) -> Iterator[Step]:
    """``%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1), kwargs = {})``."""
    for line in text.splitlines():
        returned = re.match(r"\s*return (.*)", line)
        if returned:
            yield Step("output", "output", "output", tuple(re.findall(r"%?(\b[a-z_]\w*)", returned[1])), returned[1])
            continue
        found = _FX_LINE.match(line)
        if not found:
            continue
        name, op, target, args, kwargs = found.groups()
        if op == "placeholder":
            yield Step(name, "input", name, (), name)
        else:
            uses = tuple(dict.fromkeys(re.findall(r"%(\w+)", f"{args or ''} {kwargs or ''}")))
            fixed = _fixed_of_fx_text(args or "", kwargs or "")
            yield Step(name, "call", _short(target), uses, f"{target}{args or ''}", arguments=fixed)


def _fixed_of_fx_text(args: str, kwargs: str) -> str:
    """Of ``(%x, 1, 0)`` and ``{dim: 1}``; "" where that is no Python."""
    named = re.sub(r"(\w+): ", r"\1=", kwargs.strip("{}"))
    listed = args.removeprefix("(").removesuffix(")").strip().removesuffix(",")
    try:
        call = ast.parse(f"f({', '.join(filter(None, (listed, named)))})".replace("%", _NODE), mode="eval").body
    except SyntaxError:
        return ""
    return _fixed(
        call, lambda operand: not any(isinstance(n, ast.Name) and n.id[:6] == "_node_" for n in ast.walk(operand))
    )


def marked(mine: tuple[Step, ...], theirs: tuple[Step, ...]) -> tuple[Step, ...]:
    """``mine`` with those nodes marked that ``theirs`` has not in the same form."""
    others = {(s.name, s.text) for s in theirs}
    return tuple(replace(s, marked=s.role != "input" and (s.name, s.text) not in others) for s in mine)


def nearby(steps: tuple[Step, ...], most: int) -> tuple[Step, ...]:
    """At most about ``most`` nodes: the marked ones and what is next to them, ring by ring."""
    if len(steps) <= most:
        return steps
    by_name = {s.name: s for s in steps}
    users: dict[str, list[str]] = {}
    for step in steps:
        for used in step.uses:
            users.setdefault(used, []).append(step.name)
    kept = [s.name for s in steps if s.marked][:most] or [steps[-1].name]
    ring = list(kept)
    while ring and len(kept) < most:
        around = [n for name in ring for n in (*by_name[name].uses, *users.get(name, ())) if n in by_name]
        ring = [n for n in dict.fromkeys(around) if n not in kept][: most - len(kept)]
        kept += ring
    return tuple(replace(s, uses=tuple(u for u in s.uses if u in kept)) for s in steps if s.name in kept)
