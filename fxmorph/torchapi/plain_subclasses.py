"""Tensor subclasses taken apart before AOTAutograd's graphs and put together after them, by us."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def plain_subclasses() -> Iterator[None]:
    """What holds which tensors, in which order, is told by AOTAutograd; the rest is ours."""
    from torch._functorch._aot_autograd import runtime_wrappers, subclass_codegen

    autograd = runtime_wrappers.AOTDispatchAutograd
    original = autograd.process_runtime_tangent

    def tangent(x: Any, meta: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        if getattr(meta, "attrs", None) is None:
            return original(x, meta, *args, **kwargs)
        return x, [t for name, inner in meta.attrs.items() for t in tangent(getattr(x, name), inner)[1]]

    def around(compiled_fn: Any, inp_metas: Any, out_metas: Any, num_fw_outs_saved_for_bw: Any, **_: Any) -> Any:
        def run(args: list[Any]) -> tuple[Any, ...]:
            given = _apart(args, inp_metas)
            args.clear()
            return _together(compiled_fn(given), out_metas)

        return functools.update_wrapper(run, compiled_fn)

    def of_backward(grad_input_metas: Any = None) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        wrap = None if grad_input_metas is None else (lambda made: _together(made, grad_input_metas))
        return list, wrap

    with (
        mock.patch.object(subclass_codegen, "codegen_subclass_wrapper", around),
        mock.patch.object(subclass_codegen, "codegen_backward_subclass_fns", of_backward),
        mock.patch.object(autograd, original.__name__, staticmethod(tangent)),
    ):
        yield


def _apart(values: Sequence[Any], metas: Sequence[Any]) -> list[Any]:
    """The plain tensors in arguments, and those of their sizes and strides that are symbols."""
    out: list[Any] = []
    for value, meta in zip(values, metas, strict=False):
        _take_apart(value, meta, out)
    return [*out, *values[len(metas) :]]


def _take_apart(value: Any, meta: Any, out: list[Any]) -> None:
    parts = getattr(meta, "attrs", None)
    if parts is None:
        out.append(value)
        return
    for name, inner in parts.items():
        _take_apart(getattr(value, name), inner, out)
    for known, now in ((meta.outer_size, value.size()), (meta.outer_stride, value.stride())):
        out += [n for n, symbol in zip(now, map(_is_symbol, known), strict=True) if symbol]


def _together(values: Sequence[Any], metas: Sequence[Any]) -> tuple[Any, ...]:
    """Results as their subclasses; what is saved for the backward pass comes after them and stays."""
    taken, made = 0, []
    for meta in metas:
        made.append(_put_together(values, meta))
        taken += getattr(meta, "arg_count", 1)
    return (*made, *values[taken:])


def _put_together(values: Sequence[Any], meta: Any) -> Any:
    if getattr(meta, "attrs", None) is None:
        return values[meta.unwrapped_idx] if hasattr(meta, "unwrapped_idx") else values[meta.flat_tensor_start_idx]
    rest = iter(values[meta.flat_tensor_start_idx : meta.flat_tensor_start_idx + meta.arg_count])
    return _next(rest, meta)


def _next(rest: Iterator[Any], meta: Any) -> Any:
    """The subclass whose parts come next."""
    parts = {name: next(rest) if getattr(inner, "attrs", None) is None else _next(rest, inner)
             for name, inner in meta.attrs.items()}  # fmt: skip
    sizes, strides = (
        tuple(next(rest) if _is_symbol(n) else n for n in of) for of in (meta.outer_size, meta.outer_stride)
    )
    kind = getattr(meta, "original_subclass_type", None) or type(meta.original_subclass)
    return kind.__tensor_unflatten__(parts, meta.meta, sizes, strides)


def _is_symbol(size: Any) -> bool:
    return size is None or (isinstance(size, torch.SymInt) and not size.node.is_nested_int())
