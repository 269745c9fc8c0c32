"""A stand-in for ``fxmorph run`` under a torch that is not there: it stores what it is told to."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.records import to_json
from fxmorph.core.store import Store
from fxmorph.model import BugClass, Case, CaseResult, CompileConfig, Finding, Kind, Seed, Status, ValuePlan

ROOT = Path(__file__).parents[1]
PROGRAM = "def make_inputs():\n    return [torch.ones(2)]\n\n\ndef fn(x):\n    return (x + 1,)\n"
#: Asked for its torch it says so; ``fxmorph run`` is :func:`store_run`; repros end with ``shows``.
PYTHON = """#!/bin/sh
case "$*" in
  *torch.__version__*) echo {release};;
  "-m fxmorph run "*) export PYTHONPATH="{here}:$PYTHONPATH"
      exec {python} -c "from made_runs import store_run; store_run({release!r}, {found!r}, {ends})" "$@";;
  repro.py) exit {shows};;
  *) exec {python} "$@";;
esac
"""


def python_of(file: Path, release: str, found: str = "", shows: int = 1, ends: int = 0) -> str:
    """An interpreter; below zero ``ends`` is a signal."""
    here = f"{Path(__file__).parent}:{ROOT}"
    text = PYTHON.format(release=release, here=here, python=sys.executable, found=found, ends=ends, shows=shows)
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


def store_run(release: str, found: str, ends: int) -> None:
    """What a shard leaves of which the first has found the causes with these letters; ends so, 130 once it is told to.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    words = sys.argv
    state, shard = Path(words[words.index("--state") + 1]), words[words.index("--shard") + 1]
    store_into(state, release, found if shard.startswith("1/") else "")
    if ends < 0:
        os.kill(os.getpid(), -ends)
    if ends == Exit.INTERRUPTED:
        print("waits", flush=True)
        signal.sigwait({signal.SIGINT})
    sys.exit(ends)


def store_into(state: Path, release: str, found: str) -> Path:
    """A run with a case for each cause, or one that is clean; ``k`` is a known one, ``u`` was not confirmed."""
    with Store(state) as store:
        run = store.create_run(Settings(paths=("seeds",)), {"torch": release, "device": "cpu", "seed": 0})
        for number, letter in enumerate(found or "-"):
            case = Case(Seed("s.py", "module", letter), 0, 0, (ValuePlan.SEED,), CompileConfig(), torch=release)
            store.add_result(run, number, case, CaseResult(case.id, Status.FINDING if found else Status.CLEAN))
            if not found:
                continue
            id = letter * 12 if letter != "u" else case.id[:12]
            finding = Finding(
                id, case.id, "s.py", "", (Kind.VALUE,), BugClass.UGO, "inductor", "joint.u", "", id, "far", PROGRAM,
                releases=((release, "still there"),), known="pytorch/pytorch#189518" if letter == "k" else "",
                confirmed=letter != "u",
            )  # fmt: skip
            place = state / ("findings" if finding.confirmed else "seen") / id
            place.mkdir(parents=True, exist_ok=True)
            (place / "repro.py").write_text("import torch\n")
            (place / "finding.json").write_text(json.dumps(to_json(finding)))
            store.add_finding(run, finding, str(place))
        store.finish_run(run, {"cases": len(found or "-")})
    return state
