"""What findings show under other releases of torch: ``fxmorph reduce ID --python PATH``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.records import to_json
from fxmorph.core.store import DiskError, Store
from fxmorph.model import Finding
from fxmorph.triage.folder.confirm import run_repro, said_by
from fxmorph.triage.folder.issue import issue_text

#: Wall seconds to import torch.
IMPORT_SECONDS = 300


def try_releases(
    settings: Settings, ids: Sequence[str], pythons: Sequence[str], versions: dict[str, str], say: Callable[[str], None]
) -> int:
    """Run the repros of these findings (without ids: of all) by each interpreter; write what they show.

    It goes into ``finding.json`` (``extra.releases``: release and word) and as a table into ``issue.md``; earlier rows
    of other releases stay.  ``versions`` is what ``issue.md`` names beside the torch that the finding was made with.
    Returns how many findings were tried.  Raises :class:`ConfigError` for an interpreter without torch.
    """
    releases = [(release_of(python), python) for python in pythons]
    tried = 0
    with Store(settings.state_dir) as store, TemporaryDirectory(prefix="fxmorph-releases-") as cache:
        wanted = {store.finding(prefix)[0].id for prefix in ids}
        for run in store.runs():
            for finding in store.findings(run.id):
                folder = Path(store.place(finding.id)[0])
                if (wanted and finding.id not in wanted) or not finding.program or not folder.is_dir():
                    continue
                rows = dict(finding.releases or ())
                for number, (release, python) in enumerate(releases):
                    # What one release compiled is nothing for another.
                    code, _ = run_repro(folder, Path(cache, str(number)), python=python)
                    rows[release] = said_by(code)
                    say(f"{finding.id} torch {release}: {rows[release]}")
                made = replace(finding, releases=tuple(rows.items()))
                write_releases(folder, made, {**versions, "torch": str(run.header.get("torch", versions["torch"]))})
                store.add_finding(run.id, made, str(folder))
                tried += 1
    return tried


def release_of(python: str) -> str:
    """The torch that the interpreter imports, as ``2.10.0+cpu``; raises :class:`ConfigError` where it has none."""
    command = [python, "-c", "import torch; print(torch.__version__)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"--python {python}: cannot be run ({type(error).__name__})") from None
    lines = (done.stdout if done.returncode == 0 else done.stderr).split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    if done.returncode:
        raise ConfigError(f"--python {python}: {last}")
    return last


def write_releases(folder: Path, finding: Finding, versions: dict[str, str]) -> None:
    """The files that say what releases show, anew; raises :class:`DiskError`."""
    files = {
        "issue.md": issue_text(finding, versions, finding.ladder),
        "finding.json": json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n",
    }
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{folder}: cannot write the finding ({error.strerror})") from None
