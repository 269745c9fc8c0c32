"""``fxmorph run`` and ``fxmorph check``: whole programs, on each device in turn."""

from __future__ import annotations

from dataclasses import replace

from fxmorph.campaign.case_schedule import CaseSchedule
from fxmorph.campaign.engine import Engine, engine_of
from fxmorph.campaign.kept_programs import kept_programs
from fxmorph.campaign.ledger import Emit
from fxmorph.campaign.preparation import prepare
from fxmorph.campaign.resume import unfinished
from fxmorph.campaign.run import Run
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store


def run_campaign(settings: Settings, emit: Emit) -> int:
    """``fxmorph run``; returns the exit code."""
    with engine_of(settings) as engine, Store(settings.state_dir) as store:
        resumed = None
        if settings.resume:
            resumed, settings = unfinished(store, settings)
        return _on_each_device(settings, store, emit, engine, resumed)


def check_seeds(settings: Settings, emit: Emit) -> int:
    """``fxmorph check``: each seed as it is, one ``checked`` line each; returns the exit code."""
    settings = replace(settings, rewrites=False)
    with engine_of(settings) as engine, Store(settings.state_dir) as store:
        return _on_each_device(settings, store, emit, engine, None, check=True)


def _on_each_device(
    settings: Settings, store: Store, emit: Emit, engine: Engine, resumed: str | None, check: bool = False
) -> int:
    """A run on each device, in turn, the first of which may be ``resumed``.

    Raises :class:`ConfigError` before any where a device is not there.
    """
    settings = engine.own(settings)
    for device in settings.devices:
        if why := engine.missing(device):
            raise ConfigError(why)
    code: int = Exit.OK
    for device in settings.devices:
        one = replace(settings, device=device)
        begun = store.header(resumed).get("kept", {}) if resumed else None
        made = prepare(one, store, emit, engine, resumed, check, kept=kept_programs(one, check, emit, begun))
        schedule = CaseSchedule(
            one, made.seeds, made.packs, made.ledger, made.queue, emit, made.listed, made.done, check, made.kept
        )
        told = "interrupted; what was judged is stored, go on with --resume"
        run = Run(made, schedule, told, check=check, devices=settings.devices)
        code, resumed = _worse(code, run.run()), None
        if code == Exit.INTERRUPTED:
            break
    return code


def _worse(a: int, b: int) -> int:
    order = (Exit.INTERRUPTED, Exit.INTERNAL, Exit.UNSOUND, Exit.FINDINGS, Exit.NOTHING_RAN, Exit.OK)
    return next((c for c in order if c in (a, b)), max(a, b))
