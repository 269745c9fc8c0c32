"""Whether a program that died in eager does so where nothing is compiled.

Compiled code that writes beside its buffers breaks what the allocator keeps there; the process dies of it later, mostly
in eager, whose own memory that is (pytorch 196681).
"""

from __future__ import annotations

from dataclasses import replace

from fxmorph.campaign.jobs import Judge
from fxmorph.core.pool import Doubt, Ended, Trouble
from fxmorph.model import Kernels


def eager_alone(ended: Ended) -> Doubt | None:
    """The same case without a compiler, where it died outside of compiled code that had run before."""
    job = ended.job
    if ended.trouble is not Trouble.CRASH or not isinstance(job, Judge):
        return None
    if ended.phase == "compile" or "compile" not in ended.phases or job.case.compile.backend == "eager":
        return None
    config = replace(job.case.compile, backend="eager", kernels=Kernels.GENERATED)

    def settled(alone: Ended) -> Ended:
        if alone.trouble:
            return replace(ended, alone=alone.trouble is Trouble.CRASH)
        return replace(ended, phase="compile", detail=f"{ended.detail} in {ended.phase}, which lives where it is alone")

    return Doubt(replace(job, case=replace(job.case, compile=config)), settled)
