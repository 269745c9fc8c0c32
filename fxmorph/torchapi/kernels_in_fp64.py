"""Kernels that are interpreted, run once more in fp64 beside what they compute in their own dtypes.

The compiled program is the same: its sizes, addresses, buffers and calls of other kernels.  What is computed in floats
has shadows that no cast rounds, so that a result which fp64 arithmetic says to be wrong is wrong before code is
generated, however wide the dtype's own rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.storages import storage_key

#: The values of a tensor in fp64, in memory of their own, which kernels read and write.
ShadowOf = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Fp64Run:
    """``mode`` sees what compiled programs call beside kernels of their own, ``programs`` counts those that ran.

    ``unseen``: one of them was given what Python computed beside them, of which there are no shadows, or computes what
    means another thing in every dtype.
    """

    mode: AbstractContextManager[Any]
    shadow: ShadowOf
    programs: int = 0
    unseen: bool = False
    _on: bool = False
    #: By storage how often it was written when its shadows were last true.
    _versions: dict[int, int] = field(default_factory=dict)

    def hold(self, tensors: Iterable[Any]) -> None:
        """The shadows of these are true as they are now."""
        self._versions.update((storage_key(t), _version(t)) for t in tensors if isinstance(t, torch.Tensor))

    def holds(self, t: torch.Tensor) -> bool:
        """Whether its shadows are true: nothing that was not seen has written to it since."""
        return self._versions.get(storage_key(t)) == _version(t)

    def call(self, program: Callable[..., Any], given: Sequence[Any]) -> Any:
        """What a compiled program gives."""
        leaves = tree_leaves(given)
        self.programs += 1
        self.unseen |= any(isinstance(t, torch.Tensor) and t.is_floating_point() and not self.holds(t) for t in leaves)
        result = self.inside(lambda: program(*given))
        self.hold(leaves)
        return result

    def inside(self, run: Callable[[], Any]) -> Any:
        """What a part of a compiled program gives."""
        if self._on:
            return run()
        self._on = True
        try:
            with self.mode:
                result = run()
        finally:
            self._on = False
        self.hold(tree_leaves(result))
        return result


def _version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


_current: Fp64Run | None = None


def shadow_of() -> ShadowOf | None:
    """How kernels find their operands in fp64; None where they do not run so."""
    return None if _current is None else _current.shadow


def hangs_on_dtype() -> None:
    """A kernel in fp64 does what is something else in every dtype: nothing is to be said of the run."""
    if _current is not None:
        _current.unseen = True


@contextlib.contextmanager
def run_in_fp64_too(mode: AbstractContextManager[Any], shadow: ShadowOf) -> Iterator[Fp64Run]:
    """Programs that were compiled under :func:`open_to_fp64` and are called inside run in fp64 too.

    Dynamo would not run what it has compiled where a dispatch mode is on, so that the mode is on within what it calls:
    what Python does between compiled parts of a program is not seen.
    """
    global _current
    from torch._inductor.output_code import CompiledFxGraph

    graph = CompiledFxGraph.__call__
    run = Fp64Run(mode, shadow)

    def backward_too(self: Any, inputs: Any) -> Any:
        return run.inside(lambda: graph(self, inputs))

    before, _current = _current, run
    try:
        with mock.patch.object(CompiledFxGraph, "__call__", backward_too):
            yield run
    finally:
        _current = before


@contextlib.contextmanager
def open_to_fp64() -> Iterator[None]:
    """What Inductor compiles inside may later run in fp64 too, what AOTAutograd does around its graphs included."""
    from torch._inductor import compile_fx

    original = compile_fx.compile_fx

    def compiled(*args: Any, **kwargs: Any) -> Any:
        program = original(*args, **kwargs)

        def call(*given: Any) -> Any:
            return program(*given) if _current is None else _current.call(program, given)

        # Of its attributes no others: Dynamo would call what some of them name.
        if hasattr(program, "_boxed_call"):
            call._boxed_call = program._boxed_call  # type: ignore[attr-defined]
        return call

    with mock.patch.object(compile_fx, "compile_fx", compiled):
        yield
