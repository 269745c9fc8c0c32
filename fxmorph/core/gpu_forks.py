"""Whether processes that are forked from one that has imported torch's compiler can use the GPU.

Importing the compiler asks whether there is a GPU, which starts CUDA's driver, and that does not survive a fork; torch
asks NVIDIA's management library instead where it is told to, and that one answers.
"""

from __future__ import annotations

import ctypes
import functools

#: torch's setting, for what imports the compiler and for what is forked from it.
ASK_NVML = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


@functools.cache
def gpu_survives_forks() -> bool:
    """Whether the library is there and answers.  Imports no torch."""
    try:
        return ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2() == 0
    except (OSError, AttributeError):
        return False
