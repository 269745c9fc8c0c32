"""Whether a seed gives for one run memory that an earlier run was given: tensors or a model that its module holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class GivenMemory:
    """The memory that runs of a seed were given, as long as something holds it."""

    def __init__(self) -> None:
        self._known: set[StorageWeakRef] = set()

    def again(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Whether one of ``tensors`` lies in memory given before; from here on that of all of them counts as given."""
        given = set()
        for tensor in tensors:
            with contextlib.suppress(NotImplementedError):  # sparse ones have none of their own
                given.add(StorageWeakRef(tensor.untyped_storage()))
        held = {memory for memory in self._known if not memory.expired()}
        self._known = held | given
        return bool(held & given)
