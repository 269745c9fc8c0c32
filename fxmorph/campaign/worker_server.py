"""The server that a run's workers are forked from.

It loads torch's compiler for seconds.  A command begins it before it loads what it needs itself: on two cores neither
waits for the other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fxmorph.core.gpu_forks import ASK_NVML, gpu_survives_forks
from fxmorph.core.pool import start_server
from fxmorph.core.vector_units import vector_units_setting

#: The module that loads all that workers share.
PRELOADED = "fxmorph.campaign.preloaded"


def begin(devices: Sequence[str]) -> list[str]:
    """Start the server, if it does not run yet; returns the modules that workers share.

    All workers of this process, for all ``devices``, are forked from it.
    """
    # Forked workers inherit the environment: how many threads they have is theirs to say, not OpenMP's, which
    # starts as many as a loop asks for, on fewer cores too.
    os.environ.pop("OMP_THREAD_LIMIT", None)
    os.environ.update(
        OMP_NUM_THREADS="1", OMP_DYNAMIC="FALSE", OMP_WAIT_POLICY="PASSIVE", TORCHINDUCTOR_COMPILE_THREADS="1"
    )
    os.environ.update(vector_units_setting())
    if _use_gpu(devices):
        os.environ.update(ASK_NVML)
    shared = [PRELOADED] if forks_compiler(devices) else []
    start_server(shared, gpu=_use_gpu(devices))
    return shared


def forks_compiler(devices: Sequence[str]) -> bool:
    """Whether processes that use these devices can be forked from one that has loaded torch's compiler."""
    return not _use_gpu(devices) or gpu_survives_forks()


def _use_gpu(devices: Sequence[str]) -> bool:
    return set(devices) != {"cpu"}


def serve(*arguments: Any) -> None:
    """The worker's :func:`fxmorph.campaign.worker.serve`, whose modules are the compiler's: no parent loads them."""
    from fxmorph.campaign.worker import serve as of_worker

    of_worker(*arguments)
