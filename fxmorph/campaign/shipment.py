"""What workers on other machines need of this one's disk, and what comes back of theirs.

A node has a copy of what it needs below one root, at the paths that it has here.  Its workers work in the copy of the
run's folder, so that a path which is relative to that names the same file on both sides.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fxmorph.campaign.jobs import Confirm, Derive, Identify, JudgePasses, ListOperators, ListUnits, WriteUp
from fxmorph.core.config import Settings
from fxmorph.core.operator_seeds import PREFIX
from fxmorph.model import Seed

#: The file of what is staged whose text is another one in each run.
RUN = "run"
#: Contents of files by their path relative to the run's folder.
Files = Mapping[str, bytes]


def with_relative_paths(settings: Settings) -> Settings:
    """The settings with every path of a program or of the state relative to the folder of the run."""
    return replace(
        settings,
        paths=tuple(p if p.startswith(PREFIX) else os.path.relpath(p) for p in settings.paths),
        cases=settings.cases and os.path.relpath(settings.cases),
        state=os.path.relpath(settings.state),
    )


def copy_below(root: Path, where: str | Path) -> Path:
    """The place that the copy of a file or folder of this machine has below ``root``."""
    return Path(f"{root}{os.path.abspath(where)}")


# -- before the first job ------------------------------------------------------------


def stage(root: Path, settings: Settings, seeds: Iterable[Seed], packs: Iterable[Path]) -> None:
    """Copy below ``root`` what all jobs of the run need: its seeds with what they import, rules, oracles, proposals.

    Of a folder that is all of it but what is hidden; of a file what can be imported beside it.  What lies in the state
    folder goes with the jobs that need it.  Raises ``OSError``.
    """
    state = Path(settings.state).resolve()
    given = [Path(p) for p in settings.paths]
    folders = [*(p for p in given if p.is_dir()), *map(Path, (*settings.transforms, *settings.oracles)), *packs]
    root.mkdir(parents=True, exist_ok=True)
    # A run has a folder of its own on each node, though another one has the same seeds.
    (root / RUN).write_text(uuid.uuid4().hex)
    for folder in folders:
        _copy(root, _below(folder, state))
    files = {Path(seed.path) for seed in seeds if not seed.path.startswith(PREFIX)}
    left = [file for file in files if not copy_below(root, file).exists() and state not in file.resolve().parents]
    _copy(root, left)
    for folder in {file.parent for file in left}:
        _copy(root, _importable(folder))


def _copy(root: Path, files: Iterable[Path]) -> None:
    for file in files:
        place = copy_below(root, file)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


def _below(folder: Path, state: Path) -> Iterator[Path]:
    """The files of a folder that are neither hidden nor what Python makes, and not of the state folder."""
    for where, inner, names in os.walk(folder):
        inner[:] = [n for n in inner if not _is_left_out(n) and Path(where, n).resolve() != state]
        yield from (Path(where, name) for name in names if not _is_left_out(name))


def _importable(folder: Path) -> Iterator[Path]:
    """Modules of a folder, and all files of its packages."""
    yield from folder.glob("*.py")
    for init in folder.glob("*/__init__.py"):
        yield from _below(init.parent, Path())


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


# -- with a job, and with its answer -----------------------------------------------------


def needed_by(job: Any, state: Path) -> Files:
    """Files of the state folder that the job reads."""
    if isinstance(job, (Confirm, Identify, WriteUp)):
        return read_files(_files(Path(job.folder)))
    seed = _seed_of(job)
    if seed is None or state.resolve() not in Path(seed.path).resolve().parents:
        return {}
    file = Path(seed.path)
    # Programs of the state folder import no other one; they may read data.
    return read_files([file, *(f for f in file.parent.iterdir() if f.is_file() and f.suffix != ".py")])


def _seed_of(job: Any) -> Seed | None:
    if isinstance(job, JudgePasses):
        found: Seed | None = job.source.seed
        return found
    return None if isinstance(job, (Derive, ListOperators, ListUnits)) else job.case.seed


def made_by(job: Any, value: Any) -> Files:
    """Files that a job with this answer wrote for what comes after it: programs of units' findings."""
    if not isinstance(job, JudgePasses) or value is None:
        return {}
    judged, _ = value
    return read_files(f for pair in judged.pairs if pair.program for f in _files(Path(pair.program).parent))


def written_since(moment: float, folder: Path) -> Files:
    """Files below a folder that were written at ``moment`` (seconds since the epoch) or later."""
    return read_files(file for file in _files(folder) if file.suffix == ".json" and file.stat().st_mtime >= moment)


def read_files(files: Iterable[Path]) -> Files:
    return {os.path.relpath(file): file.read_bytes() for file in files}


def write_files(files: Files) -> None:
    for name, content in files.items():
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())
