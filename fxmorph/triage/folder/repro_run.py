"""A finding's ``repro.py`` in a fresh process."""

from __future__ import annotations

import os
from pathlib import Path

from fxmorph.core.exits import ReproExit
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE
from fxmorph.core.scripts import Scripts
from fxmorph.core.vector_units import vector_units_setting
from fxmorph.triage.folder.repro import WITH_CACHES

#: Wall seconds for one repro: torch's import, a cold compile, on a loaded machine.
REPRO_SECONDS = 300

_SAID: dict[int, str] = {ReproExit.GONE: GONE, ReproExit.STILL_THERE: STILL_THERE}


def said_by(code: int) -> str:
    """What a repro's exit code says."""
    return _SAID.get(code, BREAKS)


def run_repro(
    folder: Path, cache: Path, *, without_unit: bool = False, mend: str = "", scripts: Scripts | None = None
) -> tuple[int, str]:
    """(exit code, last line printed) of the finding's repro in a fresh process; -1 on time-out.

    ``cache`` is Inductor's folder.  ``without_unit``: with the guilty unit switched off
    (``fxmorph/triage/blame/ablation.py``).  ``mend``: with that known defect mended (``fxmorph/triage/known/``).
    ``scripts`` says where fresh processes come from: new interpreters by default.
    """
    program, scripts = ["repro.py"], scripts or Scripts()
    if WITH_CACHES in _text(folder / "repro.py"):  # which is read when torch is imported
        scripts = scripts.interpreters
    if without_unit:  # by a setting that torch reads when it is imported
        program, scripts = ["-m", "fxmorph.triage.blame.ablation", "."], scripts.interpreters
    elif mend:
        program = ["-m", "fxmorph.triage.known.mended_repro", ".", mend]
    return scripts.run(program, folder, fresh_environment(cache), REPRO_SECONDS)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:  # who runs it says so
        return ""


def fresh_environment(cache: Path) -> dict[str, str]:
    """This process's, without what would let a repro miss what it is to show."""
    left_out = {
        # The workers' own: who runs the script has other threads, and other loops.
        *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC"),
        "TORCHINDUCTOR_DISABLED_PASSES",
    }
    env = {k: v for k, v in os.environ.items() if k not in left_out and not k.startswith("TORCH_BISECT_")}
    # What an earlier process compiled is not taken from Inductor's caches: it may be right by now, or wrong.
    off = dict.fromkeys(("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "0")
    own = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    return {**env, **off, **vector_units_setting(), **own}
