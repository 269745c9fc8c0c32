"""What AOTAutograd found out about a program before it traces it, against what the program does in eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fxmorph.torchapi.plain_runtime import run_plainly
from fxmorph.torchapi.traced_function import Tracing, alike, given_values, kept


def metadata_lie(seen: Tracing) -> str:
    """What AOTAutograd found out about a program's inputs and eager contradicts, in words; "" for nothing."""
    if seen.metadata is None or not seen.programs or not seen.values:
        return ""
    given = given_values(seen)
    own = list(given[0] if seen.joint else given)
    before = [(kept(v), getattr(v, "grad_fn", None)) for v in own]
    results = run_plainly(seen.programs[-1], own)
    return _lie_about_inputs(seen.metadata, own, before) or _lie_about_results(seen, own, results)


def _lie_about_inputs(metadata: Any, inputs: Sequence[Any], before: Sequence[tuple[Any, Any]]) -> str:
    for number, (value, info, (old, maker)) in enumerate(zip(inputs, metadata.input_info, before, strict=False)):
        if not isinstance(value, torch.Tensor):
            continue
        if not info.mutates_data and value.shape == old.shape and not alike(value, old):
            return f"input {number} is not written"
        if value.grad_fn is not maker and info.mutations_hidden_from_autograd:
            return f"writes to input {number} are hidden from autograd"
        if value.grad_fn is not maker and info.mutations_under_no_grad_or_inference_mode:
            return f"input {number} is written under no_grad"
    return ""


def _lie_about_results(seen: Tracing, inputs: Sequence[Any], results: Sequence[Any]) -> str:
    """Views of intermediates are told of only where gradients are traced through both."""
    places = [_memory_of(value) for value in inputs]
    shared: dict[int, list[int]] = {}
    kinds = [info.output_type.name for info in seen.metadata.output_info]
    own = {number for number, kind in enumerate(kinds) if kind in ("non_alias", "unsafe_view_alias")}
    for number, (value, info) in enumerate(zip(results, seen.metadata.output_info, strict=False)):
        if not isinstance(value, torch.Tensor):
            continue
        flows = info.requires_grad and getattr(info, "requires_grad_for_backward", True)
        if seen.joint and value.grad_fn is not None and not flows:
            return f"result {number} has no gradient"
        place = _memory_of(value)
        if place and place in places and kinds[number] == "non_alias":
            return f"result {number} is no view of an input"
        if seen.joint and place and value._base is not None and not _one_of_many(value):
            shared.setdefault(place, []).append(number)
        if seen.joint and place and kinds[number] == "non_alias":
            for twin, other in enumerate(results):
                if _is_detached(value, other):
                    return f"results {twin} and {number} are not of one memory"
    for numbers in shared.values():
        if len(numbers) > 1 and own.issuperset(numbers):
            return f"results {numbers[0]} and {numbers[1]} are not of one memory"
    return ""


def _one_of_many(view: torch.Tensor) -> bool:
    """Whether one operator made the view with others, as ``split`` does: such views are not written together."""
    return view.grad_fn is None or view.grad_fn.name().startswith(("Split", "Unbind", "UnsafeSplit"))


def _is_detached(value: torch.Tensor, other: Any) -> bool:
    """Whether one is the other cut off from autograd, and nothing else."""
    if not isinstance(other, torch.Tensor) or value.requires_grad or not other.requires_grad:
        return False
    same = _memory_of(value) == _memory_of(other) and value.storage_offset() == other.storage_offset()
    return same and value.shape == other.shape and value.stride() == other.stride()


def _memory_of(value: Any) -> int:
    """Equal for tensors of one memory; 0 for none."""
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) and value.numel() else 0
