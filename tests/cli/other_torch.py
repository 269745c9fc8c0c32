"""Environments that hold the torch of this one under another name, one of them with a fault planted in it."""

from __future__ import annotations

import sys
from pathlib import Path

#: Read by Python as it starts.  Torch has the release as its name, and the module that is ``planted`` does what the
#: text beside it says once it was imported.
SITE = """
import sys
from importlib.machinery import PathFinder

AFTER = {{"torch.version": "__version__ = {release!r}", **{planted!r}}}

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name in AFTER else None
        if spec is not None and spec.loader is not None:
            inner = spec.loader.exec_module
            def exec_module(module):
                inner(module)
                exec(AFTER[name], vars(module))
            spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""
#: ``silu`` doubled, in the table of decompositions that Inductor has.
WRONG_SILU = {
    "torch._inductor.decomposition": "decompositions[aten.silu.default] = lambda x: 2 * x * torch.sigmoid(x)",
}


def environment(folder: Path, release: str, planted: dict[str, str] | None = None) -> str:
    """The Python of an environment that is made in ``folder``."""
    site = folder / "site"
    (site / f"torch-{release}.dist-info").mkdir(parents=True)
    (site / f"torch-{release}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {release}\n")
    (site / "sitecustomize.py").write_text(SITE.format(release=release, planted=planted or {}))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH="{site}:$PYTHONPATH"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)
