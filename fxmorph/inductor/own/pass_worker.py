"""What the worker process of ``fxmorph check-pass`` does: load the pass, run it on the graphs of seeds.

A pass that crashes the process, or never ends, costs one program and is told of.
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.pool import answer_jobs, phases, print_to
from fxmorph.core.units import Stage
from fxmorph.inductor.own.handed import Handed
from fxmorph.inductor.own.own_pass import OwnPass, PassError, load_pass
from fxmorph.inductor.own.pass_jobs import CheckSeed, LoadPass
from fxmorph.inductor.own.pass_verdict import Checker
from fxmorph.inductor.pair_record import Pair
from fxmorph.programs.load import SeedFailed
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import RUN_BUDGET, Prover
from fxmorph.torchapi.compiling import quiet, warm_imports

warm_imports()


def serve(connection: Connection, name: str, stage: str, state: str) -> None:
    """Answer jobs until the connection closes; what the pass prints goes to ``check-pass.log`` in the state folder."""
    print_to(str(Path(state) / "check-pass.log"))
    quiet()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(state).resolve() / "cache"))
    torch.set_num_threads(1)
    prover = Prover(Certificates(Path(state) / "proofs"), RUN_BUDGET)
    tell = phases(connection)

    @functools.cache
    def checker() -> Checker:
        return Checker(_watched(load_pass(name), tell), Stage(stage), prover)

    def answer(job: LoadPass | CheckSeed) -> str | list[Pair]:
        try:
            check = checker().check
            if isinstance(job, LoadPass):
                return ""
            tell("capture")
            return check(job.seed, job.training)
        except PassError as error:
            return str(error)

    answer_jobs(connection, answer, _in_words)


def _in_words(error: Exception) -> str:
    if isinstance(error, SeedFailed):
        return f"seed: {error}"
    traceback.print_exc()
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _watched(own: OwnPass, tell: Callable[[str], None]) -> OwnPass:
    """The pass, telling when it runs: a crash then is its own."""

    def call(handed: Handed) -> object:
        tell("pass")
        try:
            return own.call(handed)
        finally:
            tell("judge")

    return replace(own, call=call)
