"""Values that a GPU's kernels cannot take, as indices beyond an end, are met on the CPU first.

There a kernel refuses them with an exception; a GPU's asserts, and no call of the process succeeds after that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import tensors_of, tree_map

#: How kernels of the CPU say so, where they raise no IndexError.
_OUTSIDE = re.compile(
    r"\bindex|\bindices|out of (bounds|range)|in the range|between|\btarget\b|class values", re.IGNORECASE
)
_CPU = torch.device("cpu")


def refused_values(gm: fx.GraphModule, inputs: Sequence[Any]) -> str:
    """What a kernel of the CPU says of the values that the graph gives it on ``inputs``; "" where it takes them, and
    of graphs on the CPU, which are not run.
    """
    return _said(inputs, lambda given: _OnCpu(gm, garbage_collect_values=False).run(*given))


def refused_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The same of one call."""
    return _said((args, kwargs), lambda given: function(*given[0], **_on_cpu(given[1])))


def on_gpu(values: Any) -> bool:
    """Whether any tensor of nested values is not on the CPU."""
    return any(t.device.type != "cpu" for t in tensors_of(values))


def _said(given: Any, run: Callable[[Any], Any]) -> str:
    if not on_gpu(given):
        return ""
    try:
        with torch.no_grad():
            run(_copied(given))
    except (IndexError, RuntimeError) as error:
        text = " ".join(str(error).split())
        return text[:200] if isinstance(error, IndexError) or _OUTSIDE.search(text) else ""
    except Exception:  # of what runs on GPUs alone
        return ""
    return ""


class _OnCpu(fx.Interpreter):
    def fetch_attr(self, target: str) -> Any:
        return _copied(super().fetch_attr(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(target, args, _on_cpu(kwargs))


def _copied(values: Any) -> Any:
    return tree_map(lambda v: v.detach().cpu() if isinstance(v, torch.Tensor) else v, values)


def _on_cpu(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _CPU if isinstance(v, torch.device) else v for k, v in kwargs.items()}
