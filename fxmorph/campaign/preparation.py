"""What every run needs before its first job: seeds, proposals, the account, the queue of findings, the cache."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fxmorph.campaign.case_list import read_list
from fxmorph.campaign.engine import Engine
from fxmorph.campaign.finding_queue import Effort, FindingQueue
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.packs import Packs, pack_folders_of
from fxmorph.campaign.schedule import case_of, compile_config, rung_of
from fxmorph.core.clock import Clock
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.python_headers import missing_headers
from fxmorph.core.seeds import Refusal, find_seeds
from fxmorph.core.store import Store
from fxmorph.core.versions import version_of
from fxmorph.judge.plans import PLANS
from fxmorph.model import Case, CaseResult, Finding, Seed, ValuePlan
from fxmorph.oracle import use_oracles
from fxmorph.torchapi.compiling import check_settings, cpp_compiler

#: The compile cache is emptied between runs when it passes this many MiB.
CACHE_MIB = 2048


@dataclass(frozen=True)
class Preparation:
    """``listed`` are all cases, where a list of them was given; ``done`` results of an earlier part of the run, by
    case id; ``resumed``: there was one; ``workers`` is how many the run has of ``engine``.
    """

    settings: Settings
    store: Store
    emit: Emit
    seeds: tuple[Seed, ...]
    refusals: tuple[Refusal, ...]
    packs: Packs
    listed: tuple[Case, ...] | None
    ledger: Ledger
    queue: FindingQueue
    done: Mapping[str, CaseResult]
    resumed: bool
    cache: Path
    engine: Engine
    workers: int
    #: Programs of earlier runs that it starts from.
    kept: tuple[Seed, ...] = ()


def prepare(
    settings: Settings, store: Store, emit: Emit, engine: Engine, resumed: str | None = None, check: bool = False,
    effort: Effort | None = None, again: Mapping[str, Finding] | None = None, kept: Sequence[Seed] = (),
) -> Preparation:  # fmt: skip
    """Begin a run, or go on with that of id ``resumed``; raises the errors of its parts, which are one line each.

    ``kept`` are programs of earlier runs that it starts from.
    """
    clock, started = Clock(since_birth=not resumed), time.monotonic()
    seeds, refusals = find_seeds(list(settings.paths), regressions=settings.all)
    packs = Packs(settings)
    if settings.shard is not None and pack_folders_of(settings, check):
        raise ConfigError("--shard: what is tried of proposals hangs on the results of all shards: leave them out")
    seeds = [*seeds, *packs.take(pack_folders_of(settings, check), seeds)]
    use_oracles([Path(folder) for folder in settings.oracles])
    baseline = read_baseline(settings.baseline)
    _refuse_what_cannot_work(settings)
    listed = None
    if settings.cases is not None:
        some = case_of(settings, Seed(path=settings.cases, form="", hash=""), 0, rung_of(settings))
        listed = tuple(read_list(Path(settings.cases), replace(some, plans=(*PLANS, ValuePlan.RESEED))))
        seeds = list(dict.fromkeys(case.seed for case in listed))
    workers = engine.connect(settings, [*seeds, *kept], packs.folders)
    ledger = Ledger(store, resumed or store.create_run(settings, header(settings, packs, kept)), clock, started)
    queue = FindingQueue(settings, ledger, emit, baseline, workers, effort, again)
    return Preparation(
        settings, store, emit, tuple(seeds), tuple(refusals), packs, listed, ledger, queue,
        ledger.results() if resumed else {}, resumed is not None, _cache(settings), engine, workers,
        tuple(kept),
    )  # fmt: skip


def header(settings: Settings, packs: Packs, kept: Sequence[Seed]) -> dict[str, Any]:
    """What is stored with a run."""
    folders = [*map(str, packs.folders)]
    hashes = {Path(seed.path).name: seed.hash for seed in kept}
    return {
        "torch": version_of("torch"), "device": settings.device, "seed": settings.seed, "packs": folders,
        "kept": hashes,
    }  # fmt: skip


def read_baseline(path: str | None) -> frozenset[str]:
    """Fingerprints that do not count: one a line, the first word; ``#`` starts a comment."""
    if path is None:
        return frozenset()
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _refuse_what_cannot_work(settings: Settings) -> None:
    """Raise :class:`ConfigError` before anything is started."""
    try:
        check_settings(compile_config(settings))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if settings.interprets and settings.device != "cpu":
        raise ConfigError("--rung ir: kernels are interpreted on device cpu")
    if settings.rung and settings.passes:
        raise ConfigError(f"--rung {settings.rung}: with --pass no kernels are made")
    if settings.compiles_alone and settings.rung != settings.device:
        raise ConfigError(f"--rung {settings.rung}: kernels are compiled for --device {settings.device}")
    if settings.interprets or settings.backend != "inductor":
        return
    if settings.device != "cuda" and cpp_compiler() is None:
        raise ConfigError(
            "no C++ compiler found, and Inductor needs one on CPU: install g++ (apt install g++) or set CXX,"
            " or choose --backend aot_eager"
        )
    if lacks := missing_headers():
        raise ConfigError(f"{lacks}, or choose --backend aot_eager")


def _cache(settings: Settings) -> Path:
    """The folder of the compile cache, made where it is missing and emptied where it is full."""
    cache = settings.state_dir.resolve() / "cache" / f"{version_of('torch')}-{settings.device}"
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.exists() else 0
    if size > CACHE_MIB * 2**20:
        shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    return cache
