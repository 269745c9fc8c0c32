"""Seeing each graph that Dynamo hands to a backend, whatever the backend is.

Imports no torch at import time: it is loaded before the program that is watched, which may
set up its environment before it imports torch.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The module whose class calls the backend.
OUTPUT_GRAPH = "torch._dynamo.output_graph"

See = Callable[[Any, Sequence[Any]], None]


def watch_graphs(see: See) -> None:
    """Have ``see(gm, example_inputs)`` called just before each call of a backend.

    The backend, its arguments and Dynamo's caches are not touched, so the program runs as it
    would; what ``see`` raises is the caller's to prevent.  Graphs of ``torch.export`` are left out.
    """
    module = sys.modules.get(OUTPUT_GRAPH)
    if module is not None:
        _patch(module, see)
    else:
        sys.meta_path.insert(0, _Watcher(see))


class _Watcher:
    """Finds the module as everyone would, and patches it once it is loaded."""

    def __init__(self, see: See) -> None:
        self._see = see

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != OUTPUT_GRAPH:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        loader, see = spec.loader, self._see
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _patch(module, see)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _patch(module: ModuleType, see: See) -> None:
    graph_class: Any = module.OutputGraph  # type: ignore[attr-defined]
    original = graph_class.call_user_compiler

    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self, "export", False):
            inputs = args[0] if args else kwargs.get("example_inputs")
            see(gm, self.example_inputs() if inputs is None else inputs)
        return original(self, gm, *args, **kwargs)

    graph_class.call_user_compiler = call_user_compiler


def hint(value: Any) -> int | float | None:
    """The number behind a symbolic size, without installing a guard on it; None where unknown."""
    node = getattr(value, "node", None)
    return getattr(node, "hint", None) if node is not None else None
