"""Decisions that AOTAutograd makes about a program before and while it traces it, made by us."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def plain_place_of_writes() -> Iterator[None]:
    """Which writes to inputs the graph may make itself: those that autograd need not see, and that it can say."""
    from torch._functorch._aot_autograd import functional_utils, graph_capture_wrappers, schemas

    def can_be(
        keep_input_mutations: bool,
        mutates_data: bool,
        mutates_metadata: bool,
        mutations_hidden_from_autograd: bool,
        mutations_under_no_grad_or_inference_mode: bool,
        mutates_storage_metadata: bool,
        mutation_inductor_storage_resize: bool,
        requires_grad: bool,
    ) -> bool:
        unseen = mutations_hidden_from_autograd or mutations_under_no_grad_or_inference_mode
        written = mutates_data or mutates_storage_metadata or mutation_inductor_storage_resize
        return keep_input_mutations and written and (unseen or not (mutates_metadata or requires_grad))

    with contextlib.ExitStack() as stack:
        for home in (functional_utils, graph_capture_wrappers, schemas):
            if hasattr(home, "_check_if_mutation_can_be_in_graph"):
                stack.enter_context(mock.patch.object(home, "_check_if_mutation_can_be_in_graph", can_be))
        yield


@contextlib.contextmanager
def plain_kinds_of_writes() -> Iterator[None]:
    """Whether an input is written, and by the graph or after it."""
    from torch._functorch._aot_autograd import schemas

    def kind(self: Any) -> Any:
        if not (self.mutates_data or self.mutates_metadata or self.mutation_inductor_storage_resize):
            return schemas.MutationType.NOT_MUTATED
        inside = schemas._check_if_mutation_can_be_in_graph(
            self.keep_input_mutations,
            self.mutates_data,
            self.mutates_metadata,
            self.mutations_hidden_from_autograd,
            self.mutations_under_no_grad_or_inference_mode,
            self.mutates_storage_metadata,
            self.mutation_inductor_storage_resize,
            self.requires_grad,
        )
        return schemas.MutationType.MUTATED_IN_GRAPH if inside else schemas.MutationType.MUTATED_OUT_GRAPH

    ours = functools.cached_property(kind)
    ours.__set_name__(schemas.InputAliasInfo, "mutation_type")
    with mock.patch.object(schemas.InputAliasInfo, "mutation_type", ours):
        yield


@contextlib.contextmanager
def plain_autocast() -> Iterator[None]:
    """The backward pass of a program is traced without autocast, on every device."""
    from torch._functorch._aot_autograd import graph_capture_wrappers

    @contextlib.contextmanager
    def off() -> Iterator[None]:
        devices = [d for d in torch._C._autocast_supported_devices() if hasattr(torch, d)]
        before = [torch.is_autocast_enabled(d) for d in devices]
        try:
            for device in devices:
                torch.set_autocast_enabled(device, False)
            yield
        finally:
            for device, enabled in zip(devices, before, strict=True):
                torch.set_autocast_enabled(device, enabled)

    with mock.patch.object(graph_capture_wrappers, "disable_autocast", off, create=True):
        yield
