"""Loose files, of rules, oracles, seeds and passes: Python of no package, executed where it is asked for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class _AsItIs(SourceFileLoader):
    """Reads the file itself: Python's cache takes a text for the one of before that was written in the same second and
    is as long, and leaves a folder beside the user's files.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def spec_of(name: str, file: Path | str) -> ModuleSpec:
    """What a module of that name is made of the file with, as it is now."""
    spec = importlib.util.spec_from_file_location(name, file, loader=_AsItIs(name, str(file)))
    assert spec is not None
    return spec


def executed(spec: ModuleSpec, module: ModuleType) -> None:
    """Run the file in ``module``; raises what it raises."""
    assert spec.loader is not None
    spec.loader.exec_module(module)


def loose_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that are loaded, in order of name; those that begin with ``_`` are not."""
    return (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_"))


def import_file(file: Path) -> ModuleType:
    """The module of a file, under a name of its own; raises what the file raises."""
    name = f"_fxmorph_{file.stem}_{abs(hash(str(file.resolve())))}"
    spec = spec_of(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    executed(spec, module)
    return module
