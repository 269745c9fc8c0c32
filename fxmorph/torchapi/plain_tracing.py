"""Decisions that AOTAutograd makes about a program before and while it traces it, made by us."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from fxmorph.torchapi.storages import storage_key

#: Methods of tensors that convert them.
_CONVERSIONS = frozenset({
    "to", "to_dense", "cpu", "cuda", "bool", "char", "byte", "short", "int", "long", "half", "bfloat16", "float",
    "double",
})  # fmt: skip


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
def plain_unwrapping() -> Iterator[None]:
    """What a functional tensor stands for is asked for when all writes have reached it."""
    from torch._functorch._aot_autograd import collect_metadata_analysis, functional_utils, graph_capture_wrappers
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    original = functional_utils.from_fun

    @functools.wraps(original)
    def unwrapped(t: Any) -> Any:
        if not isinstance(t, FunctionalTensor) or is_traceable_wrapper_subclass(t):
            return original(t)
        torch._sync(t)
        return torch._from_functional_tensor(t.elem)

    with contextlib.ExitStack() as stack:
        for home in (functional_utils, collect_metadata_analysis, graph_capture_wrappers):
            stack.enter_context(mock.patch.object(home, original.__name__, unwrapped))
        yield


@contextlib.contextmanager
def plain_numbers_of_kinds() -> Iterator[None]:
    """Which inputs and results are of which kind, counted by us from what is said of each."""
    from torch._functorch._aot_autograd import schemas

    views = {"alias_of_input", "is_input"}
    of_results = {"alias_of_intermediate", "alias_of_intermediate_save_as_output"}
    of_results.add("alias_of_intermediate_base_is_user_output")
    original = schemas.ViewAndMutationMeta.__post_init__

    @functools.wraps(original)
    def count(self: Any) -> None:
        original(self)
        written = [info.mutation_type.name for info in self.input_info]
        kinds = [info.output_type.name for info in self.output_info]
        after = [i for i, kind in enumerate(written) if kind == "MUTATED_OUT_GRAPH"]
        inside = [i for i, kind in enumerate(written) if kind == "MUTATED_IN_GRAPH"]
        seen = [i for i in inside if not self.input_info[i].mutations_hidden_from_autograd]
        for name, numbers in (
            ("mutated_inp_runtime_indices", after),
            ("mutated_graph_handled_indices", inside),
            ("mutated_graph_handled_indices_seen_by_autograd", seen),
        ):
            setattr(self, name, numbers)
            setattr(self, f"num_{name}", len(numbers))
        self.aliased_out_indices = [i for i, kind in enumerate(kinds) if kind in views | of_results]
        self.unsafe_view_out_indices = [i for i, kind in enumerate(kinds) if kind == "unsafe_view_alias"]
        self.num_unsafe_view_outputs = len(self.unsafe_view_out_indices)
        self.num_outputs, self.num_outputs_aliased = len(kinds), len(self.aliased_out_indices)
        self.num_outputs_non_aliased = self.num_outputs - self.num_outputs_aliased
        self.num_outputs_aliased_to_inputs = sum(kind in views for kind in kinds)
        self.num_outputs_aliased_to_intermediates = sum(kind in of_results for kind in kinds)
        self.num_forward_returns = len(after) + len(kinds) + self.num_intermediate_bases
        self.num_forward = self.num_forward_returns + self.num_outputs_rng_offset

    with mock.patch.object(schemas.ViewAndMutationMeta, "__post_init__", count):
        yield


@contextlib.contextmanager
def plain_bases() -> Iterator[None]:
    """What is said of the common base of several inputs, and of results that are views of inputs.

    The base is written, since one of the inputs is.  A view keeps its input, which has another place now.
    """
    from torch._functorch._aot_autograd import runtime_wrappers

    original = runtime_wrappers.create_synthetic_base_metadata

    @functools.wraps(original)
    def create(meta: Any, places: list[Any], *args: Any, **kwargs: Any) -> Any:
        made, *more = original(meta, places, *args, **kwargs)
        groups: dict[int, list[Any]] = {}
        for place, info in zip(places, meta.input_info, strict=True):
            groups.setdefault(place if isinstance(place, int) else place[0], []).append(info)
        infos = [_of_base(info, groups[i]) for i, info in enumerate(made.input_info)]
        pairs = zip(made.output_info, meta.output_info, strict=False)
        results = [_of_moved_base(info, before, places) for info, before in pairs]
        results += made.output_info[len(results) :]  # inputs whose shape is written are results besides
        if infos != list(made.input_info) or results != list(made.output_info):
            made = replace(made, input_info=infos, output_info=results)
        return made, *more

    with mock.patch.object(runtime_wrappers, original.__name__, create):
        yield


def _of_base(info: Any, views: Sequence[Any]) -> Any:
    if len(views) == 1:
        return info
    return replace(
        info,
        mutates_data=True,
        mutates_metadata=False,
        mutates_storage_metadata=False,
        mutations_hidden_from_autograd=all(v.mutations_hidden_from_autograd for v in views),
        mutations_under_no_grad_or_inference_mode=all(v.mutations_under_no_grad_or_inference_mode for v in views),
        requires_grad=any(v.requires_grad for v in views),
    )


def _of_moved_base(info: Any, before: Any, places: Sequence[Any]) -> Any:
    if before.base_idx is None:
        return info
    place = places[before.base_idx]
    return replace(info, base_idx=place if isinstance(place, int) else place[0])


@contextlib.contextmanager
def all_overlap() -> Iterator[None]:
    """Inputs of one memory are taken to share elements."""
    from torch._functorch._aot_autograd import runtime_wrappers

    def overlapping(config: Any, inputs: Any, numbers: Sequence[int]) -> set[int]:
        return set(numbers)

    with mock.patch.object(runtime_wrappers, "compute_overlapping_inputs", overlapping):
        yield


@contextlib.contextmanager
def plain_tags(tag: str) -> Iterator[None]:
    """Nodes that are traced to be of one pass say so by ``tag``, whose context manager is named after it."""
    from torch._functorch._aot_autograd import graph_capture_wrappers
    from torch.fx import traceback

    @contextlib.contextmanager
    def tagged() -> Iterator[None]:
        before = traceback.current_meta.get("partitioner_tag")
        traceback.current_meta["partitioner_tag"] = tag
        try:
            yield
        finally:
            traceback.current_meta["partitioner_tag"] = before

    with mock.patch.object(graph_capture_wrappers, f"set_partitioner_tag_{tag}", tagged):
        yield


@contextlib.contextmanager
def numbers_left() -> Iterator[None]:
    """No graph has the numbers of Python in it made tensors; raises ``AttributeError`` where none would have."""
    from torch._functorch._aot_autograd import graph_compile

    with mock.patch.object(graph_compile, "tensorify_python_scalars", lambda *graph_and_modes: None):
        yield


@contextlib.contextmanager
def plain_detaching() -> Iterator[None]:
    """Inputs that autograd computed no gradient of are no part of its graph."""
    from torch._functorch._aot_autograd import graph_compile, schemas

    def without_gradient(backward: Any, subclasses: Any, inner: Any, meta: Any) -> list[int]:
        if subclasses is not None:
            return []
        gradients = backward.graph.output_node().args[0]
        return [
            number
            for number, (gradient, info) in enumerate(zip(gradients, meta.input_info, strict=False))
            if gradient is None
            and info.requires_grad
            and not info.is_leaf
            and not (info.mutates_storage_metadata and info.mutation_type is schemas.MutationType.MUTATED_IN_GRAPH)
        ]

    with mock.patch.object(graph_compile, "_compute_indices_of_inps_to_detach", without_gradient):
        yield


@contextlib.contextmanager
def plain_donation() -> Iterator[None]:
    """Only saved tensors that share memory with no input, result or gradient may be overwritten."""
    from torch._functorch._aot_autograd import graph_compile

    def memory(value: Any) -> int | None:
        strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
        return storage_key(value) if strided else None

    def donated(inputs: Sequence[Any], results: Sequence[Any], gradients: Sequence[Any], saved: Any) -> list[int]:
        kept = {None, *map(memory, (*inputs, *results, *gradients))}
        return [number for number, value in enumerate(saved) if memory(value) not in kept]

    with mock.patch.object(graph_compile, "collect_fw_donated_buffer_idxs", donated):
        yield


@contextlib.contextmanager
def plain_places_of_donation() -> Iterator[None]:
    """Among the arguments of the backward graph saved tensors come after saved sizes."""
    from torch._functorch._aot_autograd import graph_compile

    def donated(forward: Any, backward: Any, meta: Any) -> list[int]:
        if any(graph_compile.contain_metadata_mutation_ops(module) for module in (forward, backward)):
            return []
        inputs, results, gradients = (
            [node.meta.get("val") if hasattr(node, "meta") else None for node in nodes]
            for nodes in (
                forward.graph.find_nodes(op="placeholder"),
                forward.graph.output_node().args[0],
                backward.graph.output_node().args[0],
            )
        )
        returned, saved = results[: meta.num_forward], results[meta.tensors_saved_for_backwards_slice]
        free = graph_compile.collect_fw_donated_buffer_idxs(inputs, returned, gradients, saved)
        return [(meta.num_symints_saved_for_bw or 0) + number for number in free]

    with mock.patch.object(graph_compile, "collect_bw_donated_buffer_idxs", donated):
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


@contextlib.contextmanager
def plain_conversions() -> Iterator[None]:
    """To another dtype, device, layout or memory format functional tensors are brought as other tensors are."""
    from torch._subclasses.functional_tensor import FunctionalTensor

    own = [name for name in vars(FunctionalTensor) if name in _CONVERSIONS]
    with contextlib.ExitStack() as stack:
        for name in own:
            stack.enter_context(mock.patch.object(FunctionalTensor, name, getattr(torch.Tensor, name)))
        yield


@contextlib.contextmanager
def plain_counts_of_writes() -> Iterator[None]:
    """How often the memory of an input was written, replaced and resized, as the functional tensor itself says."""
    from torch._functorch._aot_autograd import graph_capture_wrappers
    from torch._subclasses.functional_tensor import FunctionalTensor

    original = graph_capture_wrappers._get_mutation_counters

    @functools.wraps(original)
    def counted(t: Any) -> Any:
        if not isinstance(t, FunctionalTensor):  # a subclass that holds some
            return original(t)
        return graph_capture_wrappers.MutationCounters(
            mc_data=torch._functionalize_mutation_counter(t.elem),  # type: ignore[attr-defined]
            mc_storage=torch._functionalize_storage_changed_counter(t.elem),  # type: ignore[attr-defined]
            mc_inductor_storage_resized=torch._functionalize_inductor_storage_resized_counter(t.elem),  # type: ignore[attr-defined]
        )

    with mock.patch.object(graph_capture_wrappers, original.__name__, counted):
        yield


@contextlib.contextmanager
def plain_sequences_of_views() -> Iterator[None]:
    """The views that make a result of its base are those that functionalisation kept of it, all of them."""
    from torch._functorch._aot_autograd import functional_utils

    def kept(self: Any, tensor: Any) -> None:
        self.sequence = torch._C._functionalization.get_view_meta_sequence(tensor.elem)  # type: ignore[attr-defined]
        self.metadata = functional_utils.MetadataKey.make(tensor)

    with mock.patch.object(functional_utils.ViewMetaSequence, "__init__", kept):
        yield
