"""Which units of Inductor a whole compile made use of: what coverage counts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch._functorch.config

from fxmorph.core.units import Stage
from fxmorph.torchapi.tracking import Group, Tracker, module, named_entries, tracked


@contextlib.contextmanager
def noting(fired: set[str]) -> Iterator[None]:
    """Add to ``fired`` the units that compiles inside use: passes and entries that changed a graph, decompositions
    that stood in for an operator, lowerings of operators.

    Hooks that this torch does not have are left out, and their units with them.
    """
    named_entries()  # or the first compile would be seen to trace patterns
    tracker = Tracker()
    with tracked(tracker, fusions=False), _decompositions(fired):
        yield
    for group in (Group.PASS, Group.LOWERING):
        fired.update(step.unit for step in tracker.steps[group] if step.changed)


class NotCompiled(Exception):
    """A kernel was called whose C++ was written alone."""


@contextlib.contextmanager
def written_only() -> Iterator[None]:
    """Compiles inside write their C++ and do not compile it; calling a kernel raises :class:`NotCompiled`.

    Backward graphs are compiled with their forward ones.
    """
    from torch._inductor.async_compile import AsyncCompile

    def kernel(*_: Any, **__: Any) -> Any:
        raise NotCompiled

    written = {name: getattr(AsyncCompile, name) for name in ("cpp", "cpp_pybinding") if hasattr(AsyncCompile, name)}
    eager_backward = {"force_non_lazy_backward_lowering": True}
    known = hasattr(torch._functorch.config, "force_non_lazy_backward_lowering")
    try:
        for name in written:
            setattr(AsyncCompile, name, lambda *_, **__: kernel)
        with torch._functorch.config.patch(eager_backward) if known else contextlib.nullcontext():
            yield
    finally:
        for name, original in written.items():
            setattr(AsyncCompile, name, original)


@contextlib.contextmanager
def _decompositions(fired: set[str]) -> Iterator[None]:
    tracing = module("torch.fx.experimental.proxy_tensor")
    original = getattr(tracing, "maybe_handle_decomp", None)
    if original is None:
        yield
        return

    @functools.wraps(original)
    def handle(proxy_mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        out = original(proxy_mode, op, *args, **kwargs)
        if out is not NotImplemented:
            fired.add(f"{Stage.DECOMPOSITION}.{op}")
        return out

    setattr(tracing, "maybe_handle_decomp", handle)  # noqa: B010
    try:
        yield
    finally:
        setattr(tracing, "maybe_handle_decomp", original)  # noqa: B010
