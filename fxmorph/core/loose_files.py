"""Rules and oracles as loose files: Python that belongs to no package and is executed where it is asked for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def loose_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that are loaded, in order of name; those that begin with ``_`` are not."""
    return (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_"))


def import_file(file: Path) -> ModuleType:
    """The module of a file, under a name of its own; raises what the file raises."""
    name = f"_fxmorph_{file.stem}_{abs(hash(str(file.resolve())))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
