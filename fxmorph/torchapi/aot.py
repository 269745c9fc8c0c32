"""ATen-level graphs, taken from AOTAutograd itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import default_partition

from fxmorph.torchapi.compiling import register_backend

#: The name of the backend that records for :func:`decomposed_graphs`.
DECOMPOSED = "fxmorph_decomposed"

#: Takes the arguments of a graph's first call, before it runs.
Keep = Callable[[list[Any]], None]
Record = Callable[[str, torch.fx.GraphModule], Keep]


def recording_backend(record: Record) -> Callable[..., Any]:
    """A ``torch.compile`` backend that hands each ATen graph to ``record`` and runs it eagerly.

    ``record(part, gm)`` is called when AOTAutograd makes the graph, with part ``joint`` and then ``forward``, or
    ``inference``; ``backward`` when the first gradient is asked for.  What it returns is given the arguments
    of the first call (a joint graph is never called).  Decompositions are Inductor's.
    """
    from torch._inductor.decomposition import select_decomp_table

    def compiler(part: str) -> Callable[..., Any]:
        def compile(gm: torch.fx.GraphModule, _: list[Any]) -> Any:
            keep: Keep | None = record(part, gm)

            def run(*args: Any) -> Any:
                nonlocal keep
                if keep is not None:
                    first, keep = keep, None
                    first(list(args))
                return gm.forward(*args)

            return make_boxed_func(run)

        return compile

    def partition(gm: torch.fx.GraphModule, joint_inputs: Any, **kw: Any) -> Any:
        record("joint", gm)
        return default_partition(gm, joint_inputs, **kw)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        decompositions=select_decomp_table(),
    )


_decomposed: list[torch.fx.Graph] = []


def _keep_decomposed(part: str, gm: torch.fx.GraphModule) -> Keep:
    if part != "joint":
        _decomposed.append(gm.graph)
    return lambda args: None


@contextmanager
def decomposed_graphs() -> Iterator[list[torch.fx.Graph]]:
    """ATen graphs of what is compiled meanwhile with the backend :data:`DECOMPOSED`, which runs them eagerly."""
    register_backend(DECOMPOSED, recording_backend(_keep_decomposed))
    _decomposed.clear()
    try:
        yield _decomposed
    finally:
        _decomposed.clear()
