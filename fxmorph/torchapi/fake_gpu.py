"""Tensors of the CPU that Inductor lowers and schedules as if they lay on a GPU.

Real are the backend's features, what may be fused, loops that are ordered after that, and reductions that are split.
A CPU has no number of multiprocessors and no warps: those are of an H100.  What is decided by the type of the device
(``cuda``) is decided as for a CPU, and tiles, blocks and persistent reductions are code generation's.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch._inductor import config


@contextlib.contextmanager
def fusing_as_for_a_gpu() -> Iterator[None]:
    """Compiles inside go through the scheduling of Triton, whose kernels the caller takes in its place."""
    from torch._inductor import ir, scheduler
    from torch._inductor.runtime import hints

    is_gpu, create_backend = scheduler.is_gpu, scheduler.Scheduler.create_backend

    def is_gpu_here(device: str | None) -> bool:
        return device == "cpu" or bool(is_gpu(device))

    @functools.wraps(create_backend)
    def created(self: Any, device: Any) -> Any:
        with mock.patch.object(scheduler, "is_gpu", is_gpu):  # it asks for Triton and for the device's number
            return create_backend(self, device)

    with (
        config.patch(cpu_backend="triton"),
        mock.patch.object(hints.DeviceProperties, "create", _properties),
        mock.patch.object(ir, "is_gpu", is_gpu_here),
        mock.patch.object(scheduler, "is_gpu", is_gpu_here),
        mock.patch.object(scheduler.Scheduler, "create_backend", created),
    ):
        yield


@functools.cache
def _properties(device: Any) -> Any:
    from torch._inductor.runtime.hints import DeviceProperties

    numbers = {
        "multi_processor_count": 132, "cc": 90, "major": 9, "regs_per_multiprocessor": 65536,
        "max_threads_per_multi_processor": 2048, "max_threads_per_block": 1024, "warp_size": 32,
    }  # fmt: skip
    known = {name: value for name, value in numbers.items() if name in DeviceProperties._fields}
    return DeviceProperties(type="cuda", index=0, **known)
