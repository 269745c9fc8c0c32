"""Operators that are not torch's own: which a program calls, and whether they do what torch was told of them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch

from fxmorph.core.said import cut
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, tree_map, watched

#: Namespaces of operators that come with torch.
_TORCHS = frozenset(
    """aten prim prims rngprims debugprims inductor inductor_prims _inductor_test quantized _quantized quantization
    quantized_decomposed mkldnn mkldnn_prepacked mkl onednn sparse c10d c10d_functional _c10d_functional
    _c10d_functional_autograd symm_mem fsdp _dtensor streams profiler static_runtime onnx onnx_symbolic flex_lib
    _native debug_mode_ops export""".split()
)

#: What an operator was called with first, by operator.
Calls = dict[OpOverload, tuple[tuple[Any, ...], dict[str, Any]]]


class _Noting(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Calls = {}

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(func, OpOverload) and is_foreign(func) and func not in self.calls:
            self.calls[func] = (tree_map(_copied, args), tree_map(_copied, kwargs))
        return func(*args, **kwargs)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def is_foreign(operator: OpOverload) -> bool:
    """Whether an operator is none of torch's own."""
    return operator.namespace not in _TORCHS


def foreign_calls(run: Callable[[], object]) -> Calls:
    """The operators that are not torch's own which ``run()`` calls, each with copies of what it is first given."""
    noting = _Noting()
    with watched(noting):
        run()
    return noting.calls


def broken_promise(operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What an operator does otherwise than its schema or its fake kernel says, by ``torch.library.opcheck``, or "".

    Asked are ``test_schema`` (what it writes, and what shares memory) and ``test_faketensor`` (shapes, dtypes and
    strides of what it returns).  What opcheck itself cannot run says nothing.
    """
    tests = ("test_schema", "test_faketensor")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            said = torch.library.opcheck(operator, args, kwargs, test_utils=tests, raise_exception=False)
    except Exception:
        return ""
    failed = [(test, result) for test, result in said.items() if isinstance(result, Exception)]
    if not failed:
        return ""
    test, error = failed[0]
    return f"{operator._schema.name} fails torch.library.opcheck ({test}: {cut(str(error))})"
