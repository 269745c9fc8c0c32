"""C++ kernels that remember nothing of what they have computed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def reductions_anew() -> Iterator[None]:
    """Each reduction of a kernel has an accumulator of its own, whatever it is remembered by."""
    from torch._inductor.codegen import cpp

    def forgetting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.reduction_cse.reduction_cache.clear()
            self.reduction_cse._cache.clear()
            return original(self, *args, **kwargs)

        return reduction

    with contextlib.ExitStack() as stack:
        for kernel in (cpp.CppKernel, cpp.CppVecKernel):
            stack.enter_context(mock.patch.object(kernel, "reduction", forgetting(kernel.reduction)))
        yield
