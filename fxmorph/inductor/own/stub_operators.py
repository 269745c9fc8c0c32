"""Stand-ins for operators of a library that is not installed, so that a pass which names them can be loaded and run.

Their schemas are found in a file of them, in strings of the pass's own files, or guessed from how the pass calls
them.  What one computes is what its author's reference says (``fxmorph.testing.reference``); without one it is some
function of its arguments, of which nothing is concluded.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from fxmorph.core.said import cut
from fxmorph.inductor.own.call import PassError
from fxmorph.judge.reference.authored import authored
from fxmorph.torchapi.libraries import forget

#: The libraries that define stand-ins, by qualified name; they live until somebody else defines the name.
_STUBS: dict[str, torch.library.Library] = {}
#: Names of arguments that an operator writes, and of those that are numbers, where there is no schema.
_WRITTEN = frozenset("result out output residual".split())
_FLOATS = frozenset("eps epsilon alpha beta p scaling".split())


def stub_namespaces(asked: Iterable[str], file: Path | None) -> list[str]:
    """Define what is missing of each ``NAMESPACE`` or ``NAMESPACE=FILE``; the names of what was defined.

    Raises :class:`PassError` for a file that is none, and for schemas that torch does not read.
    """
    made = []
    for each in asked:
        namespace, _, schemas = each.partition("=")
        if schemas and not Path(schemas).is_file():
            raise PassError(f"--stub-ops {each}: {schemas}: no such file")
        files = [Path(schemas)] if schemas else _files_beside(file)
        for name, schema in _schemas(namespace, files).items():
            if not _exists(namespace, name):
                _define(namespace, name, schema)
                made.append(f"{namespace}::{name}")
    return made


@contextlib.contextmanager
def giving_way() -> Iterator[None]:
    """Inside, a stand-in is gone as soon as a library defines an operator of its name."""
    define = torch.library.Library.define

    def defined(self: torch.library.Library, schema: str, *args: Any, **kwargs: Any) -> Any:
        stub = _STUBS.pop(f"{self.ns}::{schema.partition('(')[0].strip()}", None)
        if stub is not None:
            forget([stub])
        return define(self, schema, *args, **kwargs)

    with mock.patch.object(torch.library.Library, "define", defined):
        yield


def is_stub(target: Any) -> bool:
    """Whether an operator is a stand-in of which its author says nothing."""
    name = getattr(getattr(target, "_schema", None), "name", "")
    return name in _STUBS and authored(name) is None


def _files_beside(file: Path | None) -> list[Path]:
    """The pass's own file first, then those of its folder."""
    if file is None or not file.is_file():
        return []
    return [file, *sorted(f for f in file.parent.glob("*.py") if f != file)[:50]]


def _schemas(namespace: str, files: Iterable[Path]) -> dict[str, str]:
    """By the operator's name: of strings that are schemas, then of calls."""
    found: dict[str, str] = {}
    texts = [f.read_text(errors="replace") for f in files]
    pattern = re.compile(rf"(?:{re.escape(namespace)}::)?(\w+)(\([^()]*(?:\([^()]*\)[^()]*)*\)\s*->\s*[\w!?\[\](), ]+)")
    for text in texts:
        for name, rest in pattern.findall(re.sub(r'"\s*\n\s*"', "", text)):
            if re.match(r"\((Tensor|Scalar|int|SymInt|float|bool|str|\s*\))", rest):
                found.setdefault(name, " ".join(rest.split()))
    for text in texts:
        for name, schema in _guessed(namespace, text):
            found.setdefault(name, schema)
    return found


def _guessed(namespace: str, text: str) -> Iterator[tuple[str, str]]:
    """From calls, also of names that stand for an operator; what nothing calls has the schema of nameless calls."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    names = {
        target.id: _operator(namespace, node.value, {})
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    calls: dict[str, str] = {}
    nameless = "(Tensor x) -> Tensor"
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        name = _operator(namespace, node.func, names)
        if name:
            calls[name] = _guessed_schema(node, True)
        elif ast.unparse(node.func).endswith(("auto_functionalized", "auto_functionalized_v2")) and node.args:
            name = _operator(namespace, node.args[0], names)
            schema = _guessed_schema(node, False)
            nameless = schema if not name else nameless
            calls.update({name: schema} if name else {})
    yield from calls.items()
    for part in ast.walk(tree):
        name = _operator(namespace, part, {})
        if name and name not in calls:
            yield name, nameless


def _operator(namespace: str, node: ast.AST, names: Mapping[str, str]) -> str:
    """The name of ``torch.ops.<namespace>.<name>`` or an overload of it; "" of what is none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    path = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else []
    if path[:3] == ["torch", "ops", namespace] and len(path) > 3:
        return path[3]
    return path[2] if path[:2] == ["ops", namespace] and len(path) > 2 else ""


def _guessed_schema(call: ast.Call, direct: bool) -> str:
    """``direct``: it returns what it computes; else it is called by ``auto_functionalized`` and writes results."""
    written = [k.arg for k in call.keywords if k.arg in _WRITTEN] if not direct else []
    marks = iter("abcdef")
    arguments = [f"Tensor x{i}" for i, _ in enumerate(call.args)] if direct else []
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        kind = "Tensor"
        if keyword.arg in _FLOATS:
            kind = "float"
        elif isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, (bool, int, float)):
            kind = type(keyword.value.value).__name__
        elif keyword.arg in written:
            kind = f"Tensor({next(marks)}!)"
        arguments.append(f"{kind} {keyword.arg}")
    return f"({', '.join(arguments)}) -> {'Tensor' if not written else '()'}"


def _exists(namespace: str, name: str) -> bool:
    try:
        return getattr(getattr(torch.ops, namespace), name, None) is not None
    except (AttributeError, RuntimeError):
        return False


def _define(namespace: str, name: str, schema: str) -> None:
    library = torch.library.Library(namespace, "FRAGMENT")
    qualified = f"{namespace}::{name}"
    try:
        library.define(name + schema)
        function = _stand_in(qualified, torch.ops.__getattr__(namespace).__getattr__(name))
        library.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(qualified, function, lib=library)
    except RuntimeError as error:
        raise PassError(f"--stub-ops {namespace}: {name}{schema}: {cut(str(error))}") from None
    _STUBS[qualified] = library


def _stand_in(qualified: str, packet: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        reference = authored(qualified)
        if reference is not None:
            return reference(*args, **kwargs)
        schema = packet.default._schema
        given = dict(zip([a.name for a in schema.arguments], args, strict=False)) | kwargs
        written = [given[a.name] for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        tensors = [v for v in given.values() if isinstance(v, torch.Tensor)]
        for number, result in enumerate(written):
            result.copy_(_mixed(result, tensors, number).to(result.dtype))
        results = [_mixed(tensors[0], tensors, i) if tensors else torch.zeros(()) for i, _ in enumerate(schema.returns)]
        return tuple(results) if len(results) > 1 else results[0] if results else None

    return call


def _mixed(like: torch.Tensor, tensors: list[torch.Tensor], number: int) -> torch.Tensor:
    """Some function of every tensor, of the shape of one."""
    total = like.to(torch.float32) * (number + 1)
    for weight, tensor in enumerate(tensors):
        total = total + (weight + 0.5) * tensor.to(torch.float32).sum().nan_to_num()
    return total if not like.is_floating_point() else total.to(like.dtype)
