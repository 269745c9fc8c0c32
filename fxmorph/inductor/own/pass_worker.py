"""What the worker process of ``fxmorph check-pass`` does: load the pass, run it on the graphs of seeds.

A pass that crashes the process, or never ends, costs one program and is told of.
"""

from __future__ import annotations

import os
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fxmorph.core.pool import print_to
from fxmorph.core.units import Stage
from fxmorph.inductor.own.own_pass import OwnPass, PassError, load_pass
from fxmorph.inductor.own.pass_jobs import LoadPass
from fxmorph.inductor.own.pass_verdict import Checker
from fxmorph.programs.load import SeedFailed, load_seed
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
    checker: Checker | None = None
    while True:
        job = connection.recv()
        try:
            if checker is None:
                checker = Checker(_watched(load_pass(name), connection), Stage(stage), prover)
            if isinstance(job, LoadPass):
                connection.send(("done", ""))
                continue
            connection.send(("phase", "capture"))
            connection.send(("done", tuple(checker.check(load_seed(job.seed), job.training))))
        except PassError as error:
            connection.send(("done", str(error)))
        except SeedFailed as error:
            connection.send(("error", f"seed: {error}"))
        except Exception as error:
            traceback.print_exc()
            connection.send(("error", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"))


def _watched(own: OwnPass, connection: Connection) -> OwnPass:
    """The pass, telling when it runs: a crash then is its own."""

    def call(gm: torch.fx.GraphModule) -> object:
        connection.send(("phase", "pass"))
        try:
            return own.call(gm)
        finally:
            connection.send(("phase", "judge"))

    return OwnPass(own.name, call)
