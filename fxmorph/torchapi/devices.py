"""Whether the machine can run a program: has the device, still has it, has the memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def missing(device: str) -> str:
    """Why programs cannot run on ``device`` (``cpu``, ``cuda``) here, or ""."""
    if device == "cuda" and not torch.cuda.is_available():
        return "--device cuda: this torch sees no CUDA device (see `fxmorph doctor`)"
    return ""


def out_of_memory(error: BaseException) -> bool:
    """Whether the machine has no room for what was asked for, which says nothing of the program.

    Of memory of the CPU torch raises a plain ``RuntimeError``, known by the allocator that its message names.
    """
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "DefaultCPUAllocator" in str(error)


@contextlib.contextmanager
def without_tf32() -> Iterator[None]:
    """Convolutions of float32 multiply float32 inside: cuDNN rounds to TF32 or not by how its inputs are laid out."""
    before = torch._C._get_cudnn_allow_tf32()  # the public flags are locked by torch's own test modules
    torch._C._set_cudnn_allow_tf32(False)
    try:
        yield
    finally:
        torch._C._set_cudnn_allow_tf32(before)


class _AtHand(TorchFunctionMode):
    """Tensors that are made on a device which is not there are made on the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if "device" in kwargs and _is_missing(kwargs["device"]):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def _is_missing(device: Any) -> bool:
    kind = str(device).partition(":")[0] if isinstance(device, (str, torch.device)) else "cpu"
    if kind in ("cpu", "meta", "None"):
        return False
    module: Any = getattr(torch, kind, None)
    return not (hasattr(module, "is_available") and module.is_available())


def devices_at_hand() -> contextlib.AbstractContextManager[Any]:
    """Inside, example inputs of patterns can be made for GPUs that this machine has not: they are on the CPU."""
    return _AtHand()


class DeviceLost(Exception):
    """A program broke the GPU context of this process; nothing more can run in it."""


def require_device() -> None:
    """Wait for the GPU, where this process uses one; raises :class:`DeviceLost` if it is broken.

    Kernels fail late, and after a device-side assertion every later call fails too: whose
    fault it was can be told only right after each run.
    """
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise DeviceLost(f"{type(error).__name__}: {str(error).splitlines()[0]}") from None


def seed_generators(seed: int) -> None:
    """``torch.manual_seed`` for the generators that a program may draw from.

    For each kind of device that was not initialised, that one queues itself for later together with a
    formatted stack trace, which takes a millisecond or two and is never given free.
    """
    torch.default_generator.manual_seed(seed)
    if _has_gpu():
        torch.cuda.manual_seed_all(seed)


@functools.cache
def _has_gpu() -> bool:
    return torch.cuda.is_available()
