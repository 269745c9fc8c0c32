"""The units of the installed torch, as an earlier process found them: listing them takes the import of Inductor."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path

import fxmorph
from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.core.versions import version_of
from fxmorph.model import digest

#: Folders of torch that hold passes, pattern entries, decompositions and lowerings, and those here that find them.
_TORCH = ("_inductor", "_decomp", "_prims", "_refs")
_OWN = ("inductor", "torchapi")


def remember(units: Iterable[Unit]) -> None:
    """Keep the units for later processes; where that cannot be done, nothing happens."""
    file = _file()
    part = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps([_stamp(), [astuple(unit) for unit in units]]), encoding="utf-8")
        part.replace(file)


def remembered() -> tuple[Unit, ...] | None:
    """The units that :func:`remember` kept; None where torch, fxmorph or a file of theirs is another by now."""
    try:
        stamp, rows = json.loads(_file().read_text(encoding="utf-8"))
        if stamp != _stamp():
            return None
        return tuple(Unit(name, Stage(stage), UnitKind(kind), *rest) for name, stage, kind, *rest in rows)
    except (OSError, ValueError, TypeError):
        return None


def _file() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fxmorph" / "units.json"


def _stamp() -> str:
    """What the units follow from: releases, the files of a torch that is worked on, whether there is a GPU."""
    torch = importlib.util.find_spec("torch")
    homes = [Path(home) / name for home in (torch and torch.submodule_search_locations) or () for name in _TORCH]
    homes += [Path(fxmorph.__path__[0]) / name for name in _OWN]
    versions = [version_of("torch"), fxmorph.__version__, os.path.exists("/dev/nvidiactl")]
    return digest([*versions, *([str(home), *_changes(home)] for home in homes)])


def _changes(folder: Path) -> Iterator[int]:
    """How many files of code there are, and when the last one changed."""
    files = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    times = [os.stat(file).st_mtime_ns for file in files]
    yield from (len(times), max(times, default=0))
