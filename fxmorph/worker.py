"""What a worker process does: judge cases, investigate findings.

Imported by the fork server, so that torch and the compiler's modules are loaded once; at
import nothing is executed that starts threads.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fxmorph.clock import Clock
from fxmorph.confirm import confirm
from fxmorph.investigate import investigate
from fxmorph.judge.case import judge_case
from fxmorph.judge.trial import DeviceLost, ToolchainMissing
from fxmorph.model import Case, CaseResult, Finding
from fxmorph.rules import load_rules
from fxmorph.torchapi.compiling import quiet, warm_imports

warm_imports()


@dataclass(frozen=True)
class Judge:
    """Job: judge a case; answers a :class:`CaseResult`."""

    index: int
    case: Case


@dataclass(frozen=True)
class Investigate:
    """Job: reduce and blame a found case within ``seconds`` of CPU; answers an ``Investigated``."""

    index: int
    case: Case
    result: CaseResult
    seconds: float


@dataclass(frozen=True)
class Confirm:
    """Job: run the repro in ``folder`` in a fresh process; answers (it shows, what it said)."""

    index: int
    case: Case
    finding: Finding
    folder: str


def serve(connection: Connection, transforms: Sequence[str], cache: str, log: str) -> None:
    """Answer jobs until the connection closes; what programs and compilers print goes to ``log``."""
    import torch

    _print_to(log)
    quiet()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    torch.set_num_threads(1)
    rules = load_rules([Path(p) for p in transforms])

    clock = Clock(on_change=lambda phase: connection.send(("phase", phase)), since_birth=True)
    while True:
        job: Any = connection.recv()
        try:
            if isinstance(job, Judge):
                connection.send(("done", judge_case(job.case, rules, clock)))
            elif isinstance(job, Investigate):
                connection.send(("done", investigate(job.case, job.result, rules, clock, job.seconds)))
            elif isinstance(job, Confirm):
                with clock.activity("confirm"):
                    answer = confirm(Path(job.folder), Path(cache))
                connection.send(("done", (*answer, clock.take())))
        except DeviceLost as error:
            connection.send(("lost", str(error)))
            return
        except ToolchainMissing as error:
            connection.send(("error", f"toolchain: {error}"))
        except Exception:
            connection.send(("error", traceback.format_exc(limit=-6)))
        finally:
            clock.take()


def _print_to(log: str) -> None:
    """Standard output is the parent's, which may hold JSON lines."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
