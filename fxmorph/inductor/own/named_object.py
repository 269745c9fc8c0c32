"""The object that ``package.module:attribute`` or ``file.py:attribute`` names; what does not import says where."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fxmorph.core.loose_files import module_of
from fxmorph.inductor.own.call import PassError, stubs_wanted

#: ``package.module:attribute`` or ``path/file.py:attribute``.
_ADDRESS = re.compile(r"[\w./-]+:[\w.]+")
#: Modules of files, by path: an expression and a pass see the same objects.
_FILES: dict[Path, ModuleType] = {}
#: Folders that packages are installed into.
_PACKAGES = frozenset({"site-packages", "dist-packages"})


def named(where: str, attribute: str) -> Any:
    """``attribute``, dotted if it lies deeper, of a module or file; raises :class:`PassError`."""
    value: Any = guarded(lambda: _module(where), where)
    for part in attribute.split("."):
        if not guarded(lambda value=value, part=part: hasattr(value, part), where):  # type: ignore[misc]
            near = difflib.get_close_matches(part, dir(value), 1)
            raise PassError(f"{where} has no {attribute!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        value = getattr(value, part)
    return value


def evaluated(text: str, where: str, known: Mapping[str, Any] | None = None) -> Any:
    """The value of a literal, of ``module:attribute`` or ``file.py:attribute``, or of a Python expression.

    An expression knows the names of the module or file ``where``, ``torch``, ``types``, and what is ``known``.
    Raises :class:`PassError`.
    """
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    if _ADDRESS.fullmatch(text):
        return named(*text.rsplit(":", 1))
    names = vars(guarded(lambda: _module(where), where)) if where else {}
    namespace = {"torch": torch, "types": types, "SimpleNamespace": types.SimpleNamespace, **names, **(known or {})}
    try:
        return eval(text, namespace)
    except Exception as error:
        said = " ".join(str(error).split())
        tried = f"{text!r} is no literal, no module:name, and as an expression"
        raise PassError(f"{tried} {type(error).__name__}: {said}") from error


def guarded(load: Callable[[], Any], what: str) -> Any:
    """What ``load`` gives; :class:`PassError` that says where for what the user's code raises in it.

    A script that ends the process when it is imported raises ``SystemExit``.
    """
    try:
        return load()
    except PassError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        said = f"{_place(error)}{type(error).__name__}: {text}{stubs_wanted(error)}"
        raise PassError(f"{what} does not load: {said}") from error


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        sys.path[:0] = [""] if "" not in sys.path else []
        return importlib.import_module(where)
    file = Path(where)
    if not file.is_file():
        raise PassError(f"{where}: no such file")
    path = file.resolve()
    if path in _FILES:
        return _FILES[path]
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        module = module_of(f"_fxmorph_pass_{file.stem}", file)
    except BaseException as error:
        if not _imports_its_package(error):
            raise
        module = _of_package(path)
    _FILES[path] = module
    return module


def _imports_its_package(error: BaseException) -> bool:
    return isinstance(error, ImportError) and "attempted relative import" in str(error)


def _of_package(path: Path) -> ModuleType:
    """The module of a file that imports its own package: under the folder above the outermost ``__init__.py``, or
    above the folder that it lies in, or as many higher as its imports go.
    """
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists() or len(parts) == 1:
        parts, folder = [folder.name, *parts], folder.parent
    while True:
        sys.path.insert(0, str(folder))
        try:
            return importlib.import_module(".".join(parts))
        except ImportError as error:
            if "beyond top-level package" not in str(error) or folder == folder.parent:
                raise
            sys.path.remove(str(folder))
            parts, folder = [folder.name, *parts], folder.parent


def _place(error: BaseException) -> str:
    """``file:line: `` of the user's code that the exception came from, "" where none ran.

    The innermost line outside of installed libraries: a file may import another one that fails, and both
    may fail inside torch.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    run = [(file, line) for file, line in frames if file != __file__ and not file.startswith("<frozen")]
    run = [(file, line) for file, line in run if not file.startswith(importlib.__path__[0])]
    own = [(file, line) for file, line in run if not _installed(file)] or run
    return f"{own[-1][0]}:{own[-1][1]}: " if own else ""


def _installed(file: str) -> bool:
    return file.startswith(sysconfig.get_path("stdlib")) or not _PACKAGES.isdisjoint(Path(file).parts)
