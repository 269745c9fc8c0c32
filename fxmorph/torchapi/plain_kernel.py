"""C++ kernels that remember nothing of what they have computed, and vectors put together by us."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from fxmorph.core.units import UNVECTORISED


@contextlib.contextmanager
def unvectorised_code() -> Iterator[None]:
    """The C++ compiler makes no vectors of what is written for single numbers; Inductor has it make none of loops."""
    from torch._inductor import cpp_builder

    flags: Any = cpp_builder._get_optimization_cflags

    @functools.wraps(flags)
    def more(*args: Any, **kwargs: Any) -> Any:
        compiled, *others = flags(*args, **kwargs)
        return ([*compiled, UNVECTORISED], *others)

    with mock.patch.object(cpp_builder, "_get_optimization_cflags", more):
        yield


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


@contextlib.contextmanager
def plain_gathers() -> Iterator[None]:
    """Vectors of elements that do not lie side by side are loaded and stored by us, one element after the other.

    Compiles raise ``TypeError`` where the tail of a loop is of a symbolic size.
    """
    from torch._inductor.codegen import cpp

    def elements(
        self: Any, var: str | None, index: Any, dtype: torch.dtype, buffer: Any = None, store_value: Any = None,
        accu_store: bool = False,
    ) -> Any:  # fmt: skip
        buffer = self.loads if buffer is None else buffer
        found = [self.cse.varname_map[s.name] for s in index.free_symbols if s.name in self.cse.varname_map]
        arrays = {v.name: _stored(self, v, v.dtype, buffer) for v in found if v.is_vec}
        along = self.itervars[self.tiling_idx]
        given = None if store_value is None else _stored(self, store_value, dtype, buffer)
        lines = [] if given else [f"{_array(self, dtype)} lanes{{}};"]
        mask = self._load_mask
        for lane in range(int(self.num_elems)):
            place = cpp.cexpr_index(index.subs(along, along + lane))
            for name, array in arrays.items():
                place = re.sub(rf"\b{name}\b", f"{array}[{lane}]", place)
            element = place if var is None else f"{var}[{place}]"
            moved = f"lanes[{lane}] = {element};"
            if given:
                moved = f"{element} {'+=' if accu_store else '='} {given}[{lane}];"
            if mask is not None:
                moved = f"if ({mask}.is_masked({lane})) {moved}" if mask.is_vec else f"if ({mask} != 0) {moved}"
            lines.append(moved)
        if given:
            buffer.writelines(lines)
            return None
        lines.append(f"return {self._get_vec_load_line('lanes.data()', 0, dtype)};")
        made = self.cse.generate(buffer, f"[&] {{ {' '.join(lines)} }}()", dtype=dtype)
        made.is_vec = True
        return made

    with mock.patch.object(cpp.CppVecKernel, "_load_or_store_non_contiguous", elements):
        yield


def _stored(kernel: Any, vector: Any, dtype: torch.dtype, buffer: Any) -> Any:
    """The name of an array with the elements of a vector."""
    held = torch.float32 if dtype == torch.bool else dtype
    count = int(kernel.num_elems) * max(4 // held.itemsize, 1)
    return kernel.cse.generate(
        buffer, f"[&] {{ {_array(kernel, held)} lanes; {vector}.store(lanes.data(), {count}); return lanes; }}()"
    )


def _array(kernel: Any, dtype: torch.dtype) -> str:
    """The type of an array that a vector, of 16-bit numbers a whole one of them, is loaded from and stored to."""
    from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

    return f"__at_align__ std::array<{DTYPE_TO_CPP[dtype]}, {kernel.tiling_factor * max(4 // dtype.itemsize, 1)}>"
