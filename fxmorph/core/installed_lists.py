"""What an earlier process found in the installed torch, so that later ones need not look: its units, which takes the
import of Inductor, the operators of its tests, which takes seconds of calls, and what seeds reach in it, which takes a
compile each.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import fxmorph
from fxmorph.core.features import Feature, FeatureKind, Reach
from fxmorph.core.operator_seeds import ListedOperator
from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.core.versions import version_of
from fxmorph.model import digest

T = TypeVar("T")

#: Folders of torch that hold passes, pattern entries, decompositions, lowerings and tests, and those here that look.
_TORCH = ("_inductor", "_decomp", "_prims", "_refs", "testing")
_OWN = ("inductor", "torchapi")


@dataclass(frozen=True)
class InstalledList(Generic[T]):
    """A list that follows from torch and fxmorph alone, kept in a file of ``name``; ``written`` has the JSON of one
    item, which ``read`` takes.
    """

    name: str
    written: Callable[[T], list[Any]]
    read: Callable[..., T]

    def remember(self, items: Iterable[T]) -> None:
        """Keep them for later processes; where that cannot be done, nothing happens."""
        file = self._file
        part = file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps([_stamp(), [self.written(item) for item in items]]), encoding="utf-8")
            part.replace(file)

    def remembered(self) -> tuple[T, ...] | None:
        """What :meth:`remember` kept; None where torch, fxmorph or a file of theirs is another by now."""
        try:
            stamp, rows = json.loads(self._file.read_text(encoding="utf-8"))
            return tuple(self.read(*row) for row in rows) if stamp == _stamp() else None
        except (OSError, ValueError, TypeError):
            return None

    def found(self, look: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """What is remembered; else what ``look`` finds, which is remembered then."""
        known = self.remembered()
        if known is None:
            known = look()
            self.remember(known)
        return known

    @property
    def _file(self) -> Path:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home) / "fxmorph" / f"{self.name}.json"


def _unit(name: str, stage: str, kind: str, *rest: Any) -> Unit:
    return Unit(name, Stage(stage), UnitKind(kind), *rest)


def _operator(name: str, dtypes: list[str], parts: int, differentiable: bool, in_place: bool,
              lowerings: list[str], code: list[str]) -> ListedOperator:  # fmt: skip
    return ListedOperator(name, tuple(dtypes), parts, differentiable, in_place, frozenset(lowerings), frozenset(code))


def _row(operator: ListedOperator) -> list[Any]:
    *plain, lowerings, code = astuple(operator)
    return [*plain, sorted(lowerings), sorted(code)]


def _feature(kind: str, name: str) -> Feature:
    return Feature(FeatureKind(kind), name)


def _reach(hash: str, apis: list[str], overloads: list[str], units: list[str], graphs: str, seconds: float) -> Reach:
    return Reach(hash, tuple(apis), tuple(overloads), tuple(units), graphs, seconds)


UNITS = InstalledList[Unit]("units", lambda unit: [*astuple(unit)], _unit)
OPERATORS = InstalledList[ListedOperator]("operators", _row, _operator)
#: Functions of torch and ATen overloads; units are :data:`UNITS`.
FEATURES = InstalledList[Feature]("features", lambda feature: [*astuple(feature)], _feature)
REACHES = InstalledList[Reach]("reaches", lambda reach: [*astuple(reach)], _reach)


def _stamp() -> str:
    """What lists follow from: releases, the files of a torch that is worked on, whether there is a GPU."""
    torch = importlib.util.find_spec("torch")
    homes = [Path(home) / name for home in (torch and torch.submodule_search_locations) or () for name in _TORCH]
    homes += [Path(fxmorph.__path__[0]) / name for name in _OWN]
    versions = [version_of("torch"), version_of("fxmorph"), os.path.exists("/dev/nvidiactl")]
    return digest([*versions, *([str(home), *_changes(home)] for home in homes)])


def _changes(folder: Path) -> Iterator[int]:
    """How many files of code there are, and when the last one changed."""
    files = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    times = [os.stat(file).st_mtime_ns for file in files]
    yield from (len(times), max(times, default=0))
