"""ATen-level graphs, taken from AOTAutograd itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import default_partition

Record = Callable[[str, torch.fx.GraphModule, list[Any]], None]


def recording_backend(record: Record) -> Callable[..., Any]:
    """A ``torch.compile`` backend that hands each ATen graph to ``record`` and runs it eagerly.

    ``record(part, gm, example_inputs)`` with part ``forward`` (or ``inference``), ``joint`` and
    ``backward``; decompositions are Inductor's.
    """
    from torch._inductor.decomposition import select_decomp_table

    def forward(gm: torch.fx.GraphModule, example: list[Any]) -> Any:
        record("forward", gm, example)
        return make_boxed_func(gm.forward)

    def inference(gm: torch.fx.GraphModule, example: list[Any]) -> Any:
        record("inference", gm, example)
        return make_boxed_func(gm.forward)

    def backward(gm: torch.fx.GraphModule, example: list[Any]) -> Any:
        record("backward", gm, example)
        return make_boxed_func(gm.forward)

    def partition(gm: torch.fx.GraphModule, joint_inputs: Any, **kw: Any) -> Any:
        record("joint", gm, list(joint_inputs))
        return default_partition(gm, joint_inputs, **kw)

    return aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        partition_fn=partition,
        decompositions=select_decomp_table(),
    )
