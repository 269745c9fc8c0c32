"""Loose files, of rules, oracles, seeds and passes: Python of no package, executed where it is asked for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class _AsItIs(SourceFileLoader):
    """Reads the file itself: Python's cache takes a text for the one of before that was written in the same second and
    is as long, and leaves a folder beside the user's files.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def module_of(name: str, file: Path | str) -> ModuleType:
    """The module that the file is as it is now, under a name in ``sys.modules``; raises what the file raises, and then
    nothing of it stays there.
    """
    loader = _AsItIs(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def loose_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that are loaded, in order of name; those that begin with ``_`` are not."""
    return (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_"))


def import_file(file: Path) -> ModuleType:
    """The module of a file, under a name of its own; raises what the file raises."""
    return module_of(f"_fxmorph_{file.stem}_{abs(hash(str(file.resolve())))}", file)
