"""What a pass names: operators, functions, methods and modules of torch, numbers and dtypes.

The code that a pass was written as is read, and what it calls of the same package: names are looked up where the
code would find them.  What objects hold, as lists of operators, counts too.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import operator
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet
from fxmorph.torchapi.edge_dialect import aten_operator
from fxmorph.torchapi.own_patterns import entries_of, is_matcher_pass

#: Functions that are read of one pass, objects that are looked into, and how deep.
FUNCTIONS, OBJECTS, DEPTH = 120, 400, 6
#: Overloads of a packet that a pass names by its packet alone are tried by the calls of it.
_TORCH_HOMES = (torch, torch.nn.functional, operator, torch.special, torch.linalg)
#: Python's operators that graphs call, and what passes name of them.
_OPERATORS = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.getitem, operator.pow,
     operator.neg, operator.iadd, operator.imul, operator.isub, operator.floordiv, operator.eq, operator.lt,
     operator.gt, operator.le, operator.ge, operator.ne, operator.and_, operator.or_, operator.mod}
)  # fmt: skip
#: Functions of torch that passes call for themselves.
_OWN_USE = frozenset(
    "no_grad tensor empty is_tensor compile device Size typename manual_seed is_grad_enabled empty_like".split()
)
#: Packages whose code is none of a pass's, whatever it takes from them.
_OTHERS = frozenset(
    """torch builtins fxmorph typing abc functools logging numpy sympy networkx pydantic pydantic_core annotated_types
    typing_extensions yaml omegaconf""".split()
)
#: Names of what deals with sizes that are symbols.
_SYMBOLIC = re.compile(
    r"sym_(size|stride|numel|max|min|int|not|ite)|Sym(Int|Bool|Float)|statically_known|guard_(or|size|int|equals)|"
    r"(free|has|is)_(unbacked_)?symbol|shape_env$|sizevars$|size_hint"
)
#: Methods of tensors whose names are words of other things.
_OTHER_WORDS = frozenset(
    "cuda cpu numpy device type size dim map_ apply_ data name names shape item tolist backward".split()
)


@dataclass
class Named:
    """One place of a text: ``targets`` of which a node may have one, and ``numbers`` that stand behind it."""

    targets: tuple[Any, ...]
    numbers: list[float] = field(default_factory=list)


@dataclass
class Vocabulary:
    """In the order in which the code names them.

    ``operators`` are overloads and packets, ``functions`` those of torch and Python, ``methods`` names of methods of
    tensors, ``modules`` classes; ``files`` hold the code; ``patterns`` are ``PatternMatcherPass`` objects.  ``edge``:
    operators are named in ExecuTorch's edge dialect; here they are those that these stand for; ``plain``: some are
    named as torch has them.  ``exported``: what
    ``torch.export`` makes is named; ``attributes``: nodes that hold parameters are; ``numpy``: numpy's word
    for a dimension is; ``symbolic``: what deals with symbolic sizes is.

    ``sequence`` has what the text names in its order, again where it is named again; ``listed`` are lists and tuples
    of such.
    """

    operators: dict[Any, None] = field(default_factory=dict)
    functions: dict[Any, None] = field(default_factory=dict)
    methods: dict[str, None] = field(default_factory=dict)
    modules: dict[Any, None] = field(default_factory=dict)
    numbers: dict[float, None] = field(default_factory=dict)
    dtypes: dict[Any, None] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    patterns: list[Any] = field(default_factory=list)
    edge: bool = False
    plain: bool = False
    exported: bool = False
    attributes: bool = False
    numpy: bool = False
    symbolic: bool = False
    sequence: list[Named] = field(default_factory=list)
    listed: dict[tuple[Any, ...], None] = field(default_factory=dict)

    mentioned: dict[Any, None] = field(default_factory=dict)

    @property
    def targets(self) -> list[Any]:
        """All that graphs call, what lies nearest to the pass first."""
        return list(self.mentioned)

    @property
    def at_torch(self) -> bool:
        """Whether it names what graphs call that are not ATen's yet: Python's operators are called on sizes, too."""
        python = frozenset({operator.getitem}) if not self.operators else _OPERATORS
        named = [f for f in self.functions if f not in python]
        return bool(named or self.methods or self.modules)

    def mention(self, targets: dict[Any, None], target: Any) -> None:
        """Note one of ``operators``, ``functions``, ``methods`` or ``modules``."""
        targets.setdefault(target)
        self.mentioned.setdefault(target)


def vocabulary(origin: tuple[Any, ...], home: str = "") -> Vocabulary:
    """What the objects that a pass was written as name; code of torch's own below the package ``home`` is read too."""
    reader = _Reader(home)
    for value in origin:
        reader.look(value, 0)
    reader.read_all()
    return reader.words


def home_of(origin: tuple[Any, ...]) -> str:
    """The module of torch's own that a pass is written in; "" of passes of others, whose packages are read anyway."""
    for value in origin:
        name = str(getattr(value, "__module__", None) or type(value).__module__)
        if name.startswith("torch."):
            return name
    return ""


class _Reader:
    def __init__(self, home: str) -> None:
        self.words = Vocabulary(exported=home.startswith(("torch._export", "torch.export")))
        self._home = home
        self._functions: dict[Any, None] = {}
        self._read: set[Any] = set()
        self._seen: set[int] = set()
        self._grouped: set[ast.AST] = set()
        self._compared: set[ast.AST] = set()

    # -- objects --------------------------------------------------------------------

    def look(self, value: Any, depth: int) -> None:
        """Note what a value is, or holds; what refuses to be asked, as what libraries fill later, holds nothing."""
        with contextlib.suppress(Exception):
            self._look(value, depth)

    def _look(self, value: Any, depth: int) -> None:
        if self._name(value) or depth > DEPTH or id(value) in self._seen or len(self._seen) > OBJECTS:
            return
        self.words.numpy |= isinstance(value, str) and value == "axis"
        if isinstance(value, (str, bytes, int, float, complex, type(None), torch.Tensor, fx.Node)):
            return
        self._seen.add(id(value))
        if is_matcher_pass(value):
            self._look_at_patterns(value)
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)):
            for part in _parts(value):
                if isinstance(part, str):
                    self._note_constant(part)  # the name of a method, perhaps
                self.look(part, depth + 1)
            self._note_list(value)
        elif isinstance(value, functools.partial):
            self.look([value.func, *value.args, *value.keywords.values()], depth)
        elif inspect.isclass(value):
            self._look_at_class(value)
        elif isinstance(value, types.MethodType):
            self.look(value.__self__, depth + 1)
            self._add(value.__func__)
        elif isinstance(value, types.FunctionType):
            self._add(value)
        elif self._is_own(getattr(type(value), "__module__", "")):
            for part in getattr(value, "__dict__", {}).values():
                if isinstance(part, str):
                    self._note_constant(part)  # as above
                self.look(part, depth + 1)
            self._look_at_class(type(value))

    def _look_at_patterns(self, patterns: Any) -> None:
        self.words.patterns.append(patterns)
        for entry in entries_of(patterns):
            for part in (getattr(entry, "handler", None), getattr(entry, "extra_check", None)):
                if isinstance(part, types.FunctionType) and self._is_own(part.__module__):
                    self._add(part)

    def _look_at_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if self._is_own(base.__module__):
                for part in vars(base).values():
                    function = getattr(part, "__func__", part)
                    if isinstance(function, property):
                        function = function.fget
                    if isinstance(function, types.FunctionType):
                        self._add(function)
                    else:
                        self.look(part, DEPTH - 3)

    def _is_own(self, module: str) -> bool:
        if self._home and module.startswith(self._home):
            return True
        package = module.split(".")[0]
        return package not in _OTHERS and package not in sys.stdlib_module_names

    def _add(self, function: Any) -> None:
        function = inspect.unwrap(function)
        if isinstance(function, types.FunctionType) and len(self._functions) < FUNCTIONS:
            self._functions.setdefault(function)

    def _name(self, value: Any) -> bool:
        """Whether it is something that a graph calls, or a dtype: then it is noted."""
        words = self.words
        try:
            hash(value)
        except TypeError:
            return False
        if isinstance(value, (OpOverload, OpOverloadPacket)):
            words.plain = True
            words.mention(words.operators, value)
        elif (behind := aten_operator(value)) is not None:
            words.edge = True
            words.mention(words.operators, behind)
        elif isinstance(value, torch.dtype):
            words.dtypes.setdefault(value)
        elif inspect.isclass(value) and issubclass(value, torch.nn.Module) and value.__module__.startswith("torch.nn"):
            words.mention(words.modules, value)
        elif any(value is each for each in _OPERATORS) or self._is_of_torch(value):
            words.mention(words.functions, value)
        else:
            return False
        return True

    def _is_of_torch(self, value: Any) -> bool:
        name = getattr(value, "__name__", "")
        if not inspect.isroutine(value) or not name or name in _OWN_USE or name.startswith("_"):
            return False
        return any(getattr(home, name, None) is value for home in _TORCH_HOMES if home is not operator)

    # -- code -----------------------------------------------------------------------

    def read_all(self) -> None:
        """Functions call functions, so that there are more while they are read."""
        while left := [f for f in self._functions if f not in self._read]:
            for function in left:
                self._read.add(function)
                self._read_function(function)

    def _read_function(self, function: types.FunctionType) -> None:
        self.words.files.add(function.__code__.co_filename)
        scope = _scope(function)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, SyntaxError, TypeError):  # written by other code, as that of data classes
            for name in (*_attributes(function.__code__), *function.__code__.co_freevars):
                self.look(scope.get(name), DEPTH - 1)
            return
        for node in ast.walk(tree):  # names of the function's own for what lies deeper
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                value = _collected(node.value, scope) or _looked_up(node.value, scope)
                if value is not None:
                    scope[node.targets[0].id] = value
            elif isinstance(node, ast.ImportFrom | ast.Import):
                scope.update(_imported(node))
        for node in ast.walk(tree):  # what is asked of arguments by their places is no number of a call's
            if isinstance(node, ast.Subscript):
                self._grouped.update(ast.walk(node.slice))
        self._compared.update(_compared(tree))
        for node in _in_order(tree):
            self._note(node, scope)
        written = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(tree)}  # dotted names and plain ones
        self.words.symbolic |= any(_SYMBOLIC.match(name) for name in written if isinstance(name, str))
        for name in _attributes(function.__code__):  # code that was changed in memory is not what its file says
            if name not in written and (packet := aten_packet(name)) is not None and "aten" in scope:
                self._name(packet)

    def _note(self, node: ast.AST, scope: Mapping[str, Any]) -> None:
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            self._note_literal(node, scope)
        elif isinstance(node, (ast.Attribute, ast.Name)):
            with contextlib.suppress(Exception):  # as above
                value = _looked_up(node, scope)
                if isinstance(node, ast.Attribute) and isinstance(value, types.BuiltinMethodType):
                    held = _looked_up(node.value, scope)  # a table that is asked by a method: ``TABLE.get(target)``
                    value = held if isinstance(held, (Mapping, list, tuple, set, frozenset)) else value
                if node not in self._compared or not isinstance(value, types.FunctionType) or self._name(value):
                    self._note_value(value)
                self._note_place(node, value)
        elif isinstance(node, ast.Constant):
            self._note_constant(node.value)
            self._note_place(node, node.value)

    def _note_place(self, node: ast.AST, value: Any) -> None:
        """Of a target, or a collection of nothing else, that it is named here."""
        if node in self._grouped:
            return
        some = _parts(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        targets = tuple(map(self._target, some))
        if targets and None not in targets:
            self.words.sequence.append(Named(targets))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and self.words.sequence:
            self.words.sequence[-1].numbers.append(value)

    def _note_literal(self, node: ast.Tuple | ast.List | ast.Set, scope: Mapping[str, Any]) -> None:
        values = [each.value if isinstance(each, ast.Constant) else _looked_up(each, scope) for each in node.elts]
        for value in values:
            if isinstance(value, str):
                self._note_constant(value)
            elif value is not None:
                self._name(value)
        targets = tuple(map(self._target, values))
        if len(targets) > 1 and None not in targets:
            self._grouped.update(node.elts)
            self.words.sequence.append(Named(targets))
            if not isinstance(node, ast.Set):
                self.words.listed.setdefault(targets)

    def _note_list(self, value: Any) -> None:
        targets = tuple(map(self._target, value)) if isinstance(value, (list, tuple)) else ()
        if len(targets) > 1 and None not in targets:
            self.words.listed.setdefault(targets)

    def _target(self, value: Any) -> Any:
        """What a graph calls, if it is noted as such: of the edge dialect's operators what they stand for."""
        behind = aten_operator(value) or value
        try:
            return behind if behind in self.words.mentioned else None
        except TypeError:  # what is in no dictionary
            return None

    def _note_value(self, value: Any) -> None:
        if isinstance(value, types.FunctionType) and not self._name(value):
            if self._is_own(value.__module__ or ""):
                self._add(value)
        elif inspect.isclass(value) and not self._name(value):
            if self._is_own(value.__module__) and value not in (Exception,):
                self.look(value, 1)
        elif not isinstance(value, types.ModuleType):
            self.look(value, 1)
        self.words.exported = self.words.exported or _is_of_export(value)

    def _note_constant(self, value: Any) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.words.numbers.setdefault(value)
        elif value == "get_attr":
            self.words.attributes = True
        elif value == "axis":
            self.words.numpy = True
        elif isinstance(value, str) and value.isidentifier() and len(value) < 32:
            if callable(getattr(torch.Tensor, value, None)) and not value.startswith("_") and value not in _OTHER_WORDS:
                self.words.mention(self.words.methods, value)
        elif isinstance(value, str) and ("aten" in value or "prims" in value) and len(value) < 64:
            parts = value.removeprefix("torch.ops.").replace("::", ".").split(".")
            found: Any = torch.ops
            for part in parts[:3]:
                found = getattr(found, part, None) if part.isidentifier() else None
                if found is None:
                    return
            self._name(found)


def _parts(value: Any) -> list[Any]:
    """What a collection holds; of a set, whose order is another in every process, in the order of what they print."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)


def _attributes(code: types.CodeType) -> Iterator[str]:
    """Names that code looks up, those of functions inside of it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _attributes(constant)


def _is_of_export(value: Any) -> bool:
    """Whether it is a part of ``torch.export``."""
    return str(getattr(value, "__module__", "")).startswith("torch.export") or value is getattr(torch, "export", None)


def _scope(function: types.FunctionType) -> dict[str, Any]:
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a variable that was never set
            continue
    return scope


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, Any]:
    """What an import inside of a function binds, of what is there already."""
    out: dict[str, Any] = {}
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            value = getattr(sys.modules.get(node.module or ""), alias.name, None)
        else:
            value = sys.modules.get(alias.name if alias.asname else alias.name.split(".")[0])
        if value is not None:
            out[alias.asname or alias.name.split(".")[0]] = value
    return out


def _looked_up(node: ast.AST, scope: Mapping[str, Any]) -> Any:
    """The object of a dotted name; None where there is none."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _looked_up(node.value, scope)
        if owner is None or isinstance(owner, (fx.Node, torch.Tensor)):
            return None
        try:
            return getattr(owner, node.attr, None)
        except Exception:  # an operator that is not there
            return None
    return None


def _collected(node: ast.AST, scope: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What a literal collection holds, where all of it has names."""
    if not isinstance(node, (ast.Tuple, ast.List, ast.Set)) or not node.elts:
        return None
    values = tuple(_looked_up(each, scope) for each in node.elts)
    return None if None in values else values


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    """The longest dotted names, constants, and collections before what they hold, in the order of the text."""
    if isinstance(tree, ast.Attribute):
        yield tree
        if not _is_dotted(tree):
            yield from _in_order(tree.value)
        return
    if isinstance(tree, (ast.Name, ast.Constant)):
        yield tree
        return
    if isinstance(tree, (ast.Tuple, ast.List, ast.Set)):
        yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _in_order(child)


def _compared(tree: ast.AST) -> Iterator[ast.AST]:
    """What is compared with something: a function is then what graphs call, and none that the code calls."""
    for node in ast.walk(tree):
        for side in (node.left, *node.comparators) if isinstance(node, ast.Compare) else ():
            yield from side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]


def _is_dotted(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
