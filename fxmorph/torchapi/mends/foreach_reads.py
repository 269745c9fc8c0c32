"""An in-place foreach update that reads its target elsewhere gets a buffer of its own (pytorch/pytorch#198033)."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from fxmorph.torchapi.mends.mend import Mend, Used, replaced

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.lowering:mutate_to": ("1d00e0f58c31",),
    "torch._inductor.lowering:register_foreach_inplace": ("4484e7c7e995",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor import lowering

    original = lowering.mutate_to

    @functools.wraps(original)
    def mutate_to(changed: Any, val: Any, unsafe_alias: bool = False) -> Any:
        if unsafe_alias and _reads_elsewhere(changed, val):
            used()
            unsafe_alias = False
        return original(changed, val, unsafe_alias=unsafe_alias)

    return replaced((lowering, "mutate_to", mutate_to))


def _reads_elsewhere(changed: Any, val: Any) -> bool:
    """Whether some element of ``val`` needs another element of ``changed`` than the one at its own place."""
    from torch._inductor.dependencies import MemoryDep, extract_read_writes

    name = changed.get_name()
    size = changed.get_size()

    def places(box: Any) -> set[Any]:
        found = extract_read_writes(box.make_loader(), size, normalize=False).reads
        return {dep.index for dep in found if isinstance(dep, MemoryDep) and dep.name == name}

    inner = val
    while hasattr(inner, "data") and not hasattr(inner, "inner_fn"):
        inner = inner.data
    if not hasattr(inner, "inner_fn"):
        return False
    read = {
        dep.index
        for dep in extract_read_writes(inner.inner_fn, size, normalize=False).reads
        if isinstance(dep, MemoryDep) and dep.name == name
    }
    return bool(read - places(changed))


MEND = Mend("foreach-reads", "what an update reads elsewhere is not written yet", TEXTS, _apply)
