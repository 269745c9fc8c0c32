"""What the worker process of ``fxmorph check-pass`` does: load the pass, run it on graphs.

A pass that crashes the process, or never ends, costs one program and is told of.
"""

from __future__ import annotations

import functools
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.pool import answer_jobs, phases, print_to
from fxmorph.core.said import said
from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.own.handed import Handed
from fxmorph.inductor.own.loading import checker_of
from fxmorph.inductor.own.own_pass import OwnPass, PassError
from fxmorph.inductor.own.pass_jobs import CheckMade, CheckSeed, LoadPass, MadeBatch
from fxmorph.inductor.own.pass_request import PassRequest
from fxmorph.inductor.own.pass_verdict import Checker
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Status
from fxmorph.programs.load import SeedFailed
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import RUN_BUDGET, Prover
from fxmorph.torchapi.compiling import quiet, warm_imports

warm_imports()

#: Wall seconds after which a batch of records is handed over.
BATCH_SECONDS = 0.5


def serve(connection: Connection, request: PassRequest, state: str) -> None:
    """Answer jobs until the connection closes; what the pass prints goes to ``check-pass.log`` in the state folder."""
    print_to(str(Path(state) / "check-pass.log"))
    quiet()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(state).resolve() / "cache"))
    torch.set_num_threads(1)
    prover = Prover(Certificates(Path(state) / "proofs"), RUN_BUDGET)
    tell = phases(connection)

    @functools.cache
    def checker() -> Checker:
        return checker_of(request, prover, lambda own: _watched(own, tell))

    @functools.cache
    def made(seconds: float) -> Iterator[Pair]:
        return checker().made_graphs(Budget(seconds))

    def answer(job: LoadPass | CheckMade | CheckSeed) -> str | list[Pair] | MadeBatch:
        try:
            check = checker().check
            if isinstance(job, LoadPass):
                return ""
            if isinstance(job, CheckMade):
                return _batch(checker(), made(job.seconds))
            tell("capture")
            return check(job.seed, job.training, job.stage)
        except PassError as error:
            return str(error)

    answer_jobs(connection, answer, _in_words)


def _batch(checker: Checker, records: Iterator[Pair]) -> MadeBatch:
    """What comes of half a second, or up to a finding."""
    pairs, end, done = [], time.monotonic() + BATCH_SECONDS, True
    for pair in records:
        pairs.append(pair)
        if pair.status is Status.FINDING or time.monotonic() > end:
            done = False
            break
    made = checker.made
    assert made is not None
    why_not = made.why_not() if done and not made.has_changed_what_it_names else ""
    return MadeBatch(
        tuple(pairs), made.tried, done, made.fired_on, why_not, made.prelude.left_out, tuple(made.patterns)
    )


def _in_words(error: Exception) -> str:
    if isinstance(error, SeedFailed):
        return f"seed: {error}"
    traceback.print_exc()
    return said(error)


def _watched(own: OwnPass, tell: Callable[[str], None]) -> OwnPass:
    """The pass, telling when it runs: a crash then is its own."""

    def call(handed: Handed) -> object:
        tell("pass")
        try:
            return own.call(handed)
        finally:
            tell("judge")

    return replace(own, call=call)
