"""A finding on disk, and running its ``repro.py`` again in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fxmorph.config import Settings
from fxmorph.model import Finding
from fxmorph.prove.certificates import Certificates
from fxmorph.records import to_json
from fxmorph.report.graphs import graph_files
from fxmorph.report.issue import issue_text
from fxmorph.report.regression import regression_text
from fxmorph.report.repro import repro_text
from fxmorph.store import DiskError, Store

#: Wall seconds for one repro: torch's import, a cold compile, on a loaded machine.
REPRO_SECONDS = 300

#: Exit codes of ``repro.py``.
GONE, STILL_THERE = 0, 1


def write_finding(folder: Path, finding: Finding, versions: Mapping[str, str], proofs: Path) -> None:
    """``repro.py``, a unit test, ``issue.md``, graphs and ``finding.json`` in ``folder``; raises :class:`DiskError`.

    Certificates of the finding's rewrites, from the folder ``proofs``, go into ``folder/proofs``.
    """
    files = {
        "repro.py": repro_text(finding),
        f"test_{finding.fingerprint}.py": regression_text(finding),
        "issue.md": issue_text(finding, versions, finding.ladder),
        "finding.json": json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n",
        **graph_files(finding),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        Certificates(proofs).ship([p.certificate for p in finding.proofs], folder / "proofs")
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot write the finding ({error.strerror}); free space or choose --state"
        ) from None


def run_repro(folder: Path, cache: Path | None = None) -> tuple[int, str]:
    """(exit code, last line printed) of the finding's repro in a fresh process; -1 on time-out."""
    env = dict(os.environ, OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")
    if cache is not None:
        env["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    try:
        done = subprocess.run(
            [sys.executable, "repro.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=REPRO_SECONDS
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer in {REPRO_SECONDS} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def confirm(folder: Path, cache: Path | None = None) -> tuple[bool, str]:
    """Whether the repro shows the difference, and what it said."""
    code, said = run_repro(folder, cache)
    return code == STILL_THERE, said


def replay(settings: Settings, ids: list[str], every: bool, say: Callable[[str], None]) -> int:
    """``fxmorph replay``: FIXED, FAILED or ERROR for each finding; exit code 1 if one still fails."""
    with Store(settings.state_dir, write=False) as store:
        found = [(f.id, store.place(f.id)[0]) for f in store.findings()] if every else []
        found += [(finding.id, folder) for finding, folder in map(store.finding, ids)]
    worst = 0
    for id, folder in found:
        code, said = run_repro(Path(folder)) if Path(folder, "repro.py").is_file() else (2, "no repro.py")
        word = {GONE: "FIXED", STILL_THERE: "FAILED"}.get(code, "ERROR")
        say(f"{word} {id} {folder}" + (f": {said}" if word == "ERROR" else ""))
        worst = max(worst, {"FIXED": 0, "FAILED": 1, "ERROR": 3}[word])
    return worst
