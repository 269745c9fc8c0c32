"""Where the workers of a run are: on this machine, or on the nodes of a Ray cluster.

The rest of a run is the same: this process plans, stores and tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fxmorph.campaign import worker_server
from fxmorph.campaign.eager_alone import eager_alone
from fxmorph.core.config import ConfigError, EngineName, Settings
from fxmorph.core.pool import Pool, Workers
from fxmorph.model import Seed


@dataclass(frozen=True)
class Crew:
    """The workers of a run: how many, on which of ``devices`` that this process runs on in turn, and the state folder.

    ``arguments`` are those of :func:`fxmorph.campaign.worker.serve`, after the connection.
    """

    size: int
    device: str
    devices: tuple[str, ...]
    state: Path
    arguments: tuple[Any, ...]


class Engine(Protocol):
    """What a run asks of where its workers are."""

    def own(self, settings: Settings) -> Settings:
        """The settings with paths that its workers can follow."""

    def missing(self, device: str) -> str:
        """Why programs cannot run on ``device``, as far as that is known before :meth:`connect`, or ""."""

    def connect(self, settings: Settings, seeds: Iterable[Seed], packs: Iterable[Path]) -> int:
        """How many workers the run has, which from now on find ``seeds`` and the folders ``packs``.

        Raises :class:`ConfigError` where there is none.
        """

    def forks_scripts(self, devices: Sequence[str]) -> bool:
        """Whether scripts of findings can be forked from a server of this process."""

    def workers(self, crew: Crew, tell: Callable[[str], None]) -> AbstractContextManager[Workers]:
        """The workers themselves; ``tell`` hears what becomes of them that no case says."""


class LocalEngine:
    """Processes of this machine."""

    def own(self, settings: Settings) -> Settings:
        return settings

    def missing(self, device: str) -> str:
        from fxmorph.torchapi.devices import missing

        return missing(device)

    def connect(self, settings: Settings, seeds: Iterable[Seed], packs: Iterable[Path]) -> int:
        return settings.effective_jobs

    def forks_scripts(self, devices: Sequence[str]) -> bool:
        return worker_server.forks_compiler(devices)

    def workers(self, crew: Crew, tell: Callable[[str], None]) -> AbstractContextManager[Workers]:
        shared = worker_server.begin(crew.devices)
        return Pool(crew.size, worker_server.serve, crew.arguments, shared, eager_alone)


@contextmanager
def engine_of(settings: Settings) -> Iterator[Engine]:
    """The engine that ``--engine`` names, until the campaign is over; raises :class:`ConfigError` without its extra."""
    if settings.engine != EngineName.RAY:
        yield LocalEngine()
        return
    try:
        from fxmorph.campaign.ray_engine import ray_engine
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise ConfigError("--engine ray needs Ray: pip install 'fxmorph[ray]'") from None
    with ray_engine() as engine:
        yield engine
