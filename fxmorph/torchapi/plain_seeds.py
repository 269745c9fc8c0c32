"""Where the compiler draws random numbers itself: each call has a seed of its own, handed out by us."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch import fx

#: Torch's function for it.
SEEDS = "fuse_seed_creation_pass"


@contextlib.contextmanager
def seeds_apart() -> Iterator[None]:
    """Seeds of a device are one tensor, and each user of one reads an element that no other reads."""
    from torch._inductor.fx_passes import replace_random

    with mock.patch.object(replace_random, SEEDS, _handed_out):
        yield


def _handed_out(graph: fx.Graph) -> int:
    from torch._inductor import inductor_prims
    from torch.fx.passes.shape_prop import _extract_tensor_metadata

    by_device: dict[Any, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.target is inductor_prims.seed:
            by_device.setdefault(node.args[0], []).append(node)
    for device, nodes in by_device.items():
        with graph.inserting_before(nodes[0]):
            together = graph.call_function(inductor_prims.seeds, (len(nodes), device))
        with nodes[0].meta["val"].fake_mode:
            together.meta["val"] = inductor_prims.seeds(len(nodes), device)
        together.meta["tensor_meta"] = _extract_tensor_metadata(together.meta["val"])
        for place, node in enumerate(nodes):
            with graph.inserting_before(node):
                one = graph.call_function(inductor_prims.lookup_seed, (together, place))
            one.meta.update(node.meta)
            node.replace_all_uses_with(one)
            graph.erase_node(node)
    return len(by_device)
