"""Parts of the Python text around kernels that are written by us: views of buffers, new buffers, arguments of calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def plain_wrapper_text(method: str) -> Iterator[None]:
    """The method of the wrapper's generator, or of a call in it, is ours in compiles inside."""
    from torch._inductor import ir
    from torch._inductor.codegen import wrapper
    from torch._inductor.codegen.wrapper import MultiOutputLine, PythonWrapperCodegen

    ours: dict[str, tuple[Any, Any]] = {
        "codegen_reinterpret_view": (PythonWrapperCodegen, _view),
        "make_allocation": (PythonWrapperCodegen, _allocation),
        "make_buffer_reuse": (PythonWrapperCodegen, _reuse),
        "buffer_reuse_key": (wrapper, _reuse_key),
        "codegen_args": (ir.ExternKernel, _arguments),
        "_generate_index_put_fallback": (PythonWrapperCodegen, _index_put),
        "_generate_scatter_fallback": (PythonWrapperCodegen, _scatter),
        "codegen": (MultiOutputLine, _one_of_several),
    }
    home, function = ours[method]
    with mock.patch.object(home, method, function):
        yield


def _numbers(values: Any) -> str:
    return f"({''.join(f'{v}, ' for v in values)})"


def _view(self: Any, data: Any, size: Any, stride: Any, offset: Any, writeline: Any, dtype: Any = None) -> str:
    """A view of the memory of the buffer that all views are of."""
    while not hasattr(data, "layout") or type(data).__name__ == "ReinterpretView":
        data = data.data
    name, held = data.get_name(), data.get_dtype()
    view = f"torch.as_strided({name}, {_numbers(size)}, {_numbers(stride)}, {name}.storage_offset() + {offset})"
    return f"{view}.view({dtype})" if dtype is not None and dtype != held else view


def _allocation(
    self: Any, name: str, device: torch.device, dtype: torch.dtype, shape: Any, stride: Any,
    allocation_shape: Any = None, is_pinned: bool = False,
) -> str:  # fmt: skip
    made = f"torch.empty_strided({_numbers(shape)}, {_numbers(stride)}, dtype={dtype}, device={str(device)!r})"
    return f"{name} = {made}"


def _reuse(self: Any, old: Any, new: Any, delete_old: bool) -> str:
    """A name for the memory of a buffer of that dtype that is not read any more, and loses its own."""
    from torch._inductor.virtualized import V

    assert old.get_dtype() == new.get_dtype()
    old_name, new_name = old.get_name(), new.get_name()
    end = f"; del {old_name}" if delete_old and old_name not in V.graph.get_output_names() else ""
    view = f"torch.as_strided({old_name}, {_numbers(new.get_size())}, {_numbers(new.get_stride())}, 0)"
    return f"{new_name} = {view}{end}"


def _reuse_key(node: Any) -> tuple[str, ...]:
    """What is alike of buffers that may take each other's memory."""
    like = (node.get_device(), node.get_dtype(), node.get_size(), node.get_stride())
    return tuple(map(str, like))


def _arguments(self: Any) -> list[str]:
    """Inputs in order, then the arguments that are no tensors."""
    from torch._inductor.virtualized import V

    write = V.graph.wrapper_code.val_to_arg_str
    return [*(write(x) for x in self.inputs), *(write(c) for c in self.constant_args)]


def _index_put(self: Any, kernel: str, target: str, indices: Any, values: str, accumulate: Any) -> None:
    self.writeline(f"torch.ops.aten.index_put_({target}, [{', '.join(map(str, indices))}], {values}, {accumulate})")


def _scatter(
    self: Any, target: str, inputs: Any, cpp_kernel: str, kernel: str, source_is_tensor: bool, reduce: Any, named: Any,
    device: Any,
) -> None:  # fmt: skip
    """``inputs`` are the target, the dimension, the index and the source."""
    by_name = [*map(str, named)] if "scatter_reduce" in kernel else [f"reduce={reduce!r}"] if reduce else []
    self.writeline(f"{kernel}({', '.join([*map(str, inputs), *by_name])})")


def _one_of_several(self: Any, code: Any) -> None:
    """An element of a list or of a tuple, or of one in it."""
    places = "".join(f"[{key!r}]" for _, key in self.indices)
    code.writeline(f"{self.result_name} = {self.arg_name}{places}")
