"""The worker process that measures what seeds reach: one that crashes or hangs costs itself alone."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.features import Feature, FeatureKind, Reach
from fxmorph.core.pool import answer_jobs, print_to
from fxmorph.inductor.reach_jobs import ListFeatures, MeasureSeed, Unmeasured
from fxmorph.inductor.seed_reach import NotMeasured, reach_of
from fxmorph.programs.load import SeedFailed
from fxmorph.torchapi.compiling import quiet, warm_imports
from fxmorph.torchapi.torch_functions import aten_overloads, torch_functions

warm_imports()


def serve(connection: Connection, scratch: str) -> None:
    """Answer jobs until the connection closes; ``scratch`` is a folder for what programs print and compilers keep."""
    print_to(str(Path(scratch) / "reach.log"))
    quiet()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = scratch
    torch.set_num_threads(1)
    answer_jobs(connection, _answer)


def _answer(job: MeasureSeed | ListFeatures) -> Reach | Unmeasured | tuple[Feature, ...]:
    if isinstance(job, ListFeatures):
        functions = (Feature(FeatureKind.API, name) for name in torch_functions())
        return tuple(sorted([*functions, *(Feature(FeatureKind.OVERLOAD, name) for name in aten_overloads())]))
    try:
        return reach_of(job.seed)
    except (NotMeasured, SeedFailed) as error:
        elsewhere = isinstance(error, NotMeasured) and error.elsewhere
        return Unmeasured(" ".join(str(error).split()), elsewhere)
